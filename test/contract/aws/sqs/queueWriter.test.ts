import type { SendMessageBatchRequestEntry, SQSClient } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { createQueueWriter } from '../../../../lambda/aws/resultQueue.ts';
import { failure } from '../../../../lambda/core/failure.ts';
import type { Result } from '../../../../lambda/core/record.ts';

import { interceptSends, useSqsServer } from '../../../helpers/awsServers.ts';

const server = useSqsServer();
const NEVER = new AbortController().signal;
const WRITTEN = { written: true };

function result(messageId: string, body = JSON.stringify({ message_id: messageId }), group?: string): Result {
  return { messageId, body, messageGroupId: group };
}

function results(count: number): Result[] {
  return Array.from({ length: count }, (_, index) => result(`m${index}`));
}

/** How many entries each batch request held, in the order of the requests. */
function countEntries(sqs: SQSClient): number[] {
  const counts: number[] = [];
  interceptSends(sqs, (entries, reach) => {
    counts.push(entries.length);
    return reach();
  });
  return counts;
}

const ATTRIBUTE_BYTES = 'messageId'.length + 'String'.length;
const MIB = 1_048_576;

/** A result of exactly `bytes` as SQS counts them: body and attribute together. */
function resultOf(bytes: number, messageId: string): Result {
  const body = JSON.stringify('x'.repeat(bytes - ATTRIBUTE_BYTES - messageId.length - 2));
  return result(messageId, body);
}

describe('the queue writer', () => {
  it('puts every result on the queue as it is, its message ID beside it as an attribute', async () => {
    const queueUrl = server.queue();
    const writer = createQueueWriter({ sqs: server.client(), queueUrl });
    const written = results(23);

    const verdicts = await writer.write(written, NEVER);

    expect(verdicts).toEqual(written.map(() => WRITTEN));
    const arrived = (await server.drain(queueUrl)).map(({ Body, MessageAttributes }) => [MessageAttributes, Body]);
    const attribute = (StringValue: string) => ({ messageId: { DataType: 'String', StringValue } });
    expect(arrived).toHaveLength(23);
    expect(arrived).toEqual(expect.arrayContaining(written.map(({ messageId, body }) => [attribute(messageId), body])));
  });

  it('sends 1 MiB in a batch request', async () => {
    const sqs = server.client();
    const calls = countEntries(sqs);
    const queueUrl = server.queue();
    const large = ['a', 'b', 'c', 'd', 'e'].map((messageId) => resultOf(MIB / 2, messageId));

    const verdicts = await createQueueWriter({ sqs, queueUrl }).write(large, NEVER);

    expect(calls).toEqual([2, 2, 1]);
    expect(verdicts).toEqual(large.map(() => WRITTEN));
    expect(await server.drain(queueUrl)).toHaveLength(5);
  });

  it('writes a result of exactly 1,048,576 bytes, its attribute counted', async () => {
    const queueUrl = server.queue();
    const exact = resultOf(MIB, 'exact');

    const verdicts = await createQueueWriter({ sqs: server.client(), queueUrl }).write([exact], NEVER);

    expect(verdicts).toEqual([WRITTEN]);
    expect((await server.drain(queueUrl)).map(({ Body }) => Body === exact.body)).toEqual([true]);
  });

  it('refuses a result of one byte more for good, with the sizes, and writes the others', async () => {
    const sqs = server.client();
    const calls = countEntries(sqs);
    const queueUrl = server.queue();
    const tooLarge = resultOf(MIB + 1, 'large');

    const verdicts = await createQueueWriter({ sqs, queueUrl }).write([result('a'), tooLarge, result('b')], NEVER);

    expect(verdicts).toEqual([
      WRITTEN,
      failure('RESULT_TOO_LARGE', expect.stringMatching(/at most 1048576 bytes, .*, got 1048577; /) as never),
      WRITTEN,
    ]);
    expect(calls).toEqual([2]);
    expect(await server.drain(queueUrl)).toHaveLength(2);
  });

  it('counts bytes, not characters', async () => {
    const queueUrl = server.queue();
    const body = JSON.stringify('€'.repeat(MIB / 3));

    const verdicts = await createQueueWriter({ sqs: server.client(), queueUrl }).write([result('m', body)], NEVER);

    expect(verdicts).toMatchObject([{ code: 'RESULT_TOO_LARGE' }]);
  });

  it('lets the characters that SQS refuses survive the round trip', async () => {
    const queueUrl = server.queue();
    const document = { error: 'got "\uFFFE\uFFFF" and \uFFFD, \u0000, \uD800 alone' };
    const written = result('m', JSON.stringify(document));

    const verdicts = await createQueueWriter({ sqs: server.client(), queueUrl }).write([written], NEVER);

    expect(verdicts).toEqual([WRITTEN]);
    const [arrived] = await server.drain(queueUrl);
    expect(JSON.parse(arrived?.Body ?? '')).toEqual(document);
  });

  it('counts such a character as long as it is sent', async () => {
    const { body } = resultOf(MIB, 'm');
    const grown = result('m', `"\uFFFF${body.slice(4)}`);

    const verdicts = await createQueueWriter({ sqs: server.client(), queueUrl: server.queue() }).write([grown], NEVER);

    expect(verdicts).toMatchObject([{ code: 'RESULT_TOO_LARGE', message: expect.stringContaining('got 1048579') }]);
  });

  it('has all batch requests under way at once', async () => {
    const sqs = server.client();
    const allThere = Promise.withResolvers<void>();
    let calls = 0;
    interceptSends(sqs, async (_, reach) => {
      if (++calls === 4) allThere.resolve();
      await allThere.promise;
      return reach();
    });

    const verdicts = await createQueueWriter({ sqs, queueUrl: server.queue() }).write(results(40), NEVER);

    expect(verdicts).toEqual(results(40).map(() => WRITTEN));
  });

  it('fails for good, and alone, what SQS says is the sender’s fault', async () => {
    const sqs = server.client();
    const calls = countEntries(sqs);
    const bad = { ...result('bad'), body: '\u0001' };

    const verdicts = await createQueueWriter({ sqs, queueUrl: server.queue() }).write([result('good'), bad], NEVER);

    expect(verdicts).toEqual([
      WRITTEN,
      { failed: true, code: 'WRITE_FAILED', message: expect.stringContaining('InvalidMessageContents') },
    ]);
    expect(calls).toEqual([2]);
  });

  it('ends with its time even if a connection cannot be ended', async () => {
    const sqs = server.client();
    const aborting = new AbortController();
    interceptSends(sqs, async () => {
      setImmediate(() => aborting.abort());
      return await new Promise(() => {});
    });

    const verdicts = await createQueueWriter({ sqs, queueUrl: server.queue() }).write(results(1), aborting.signal);

    expect(verdicts).toMatchObject([{ code: 'WRITE_FAILED' }]);
  });
});

describe('the queue writer on a FIFO queue', () => {
  function sentTo(sqs: SQSClient): SendMessageBatchRequestEntry[] {
    const sent: SendMessageBatchRequestEntry[] = [];
    interceptSends(sqs, (entries, reach) => {
      sent.push(...entries);
      return reach();
    });
    return sent;
  }

  it('writes in the group of the request, or in one of its own', async () => {
    const queueUrl = server.fifoQueue();
    const writer = createQueueWriter({ sqs: server.client(), queueUrl });

    await writer.write([result('a', '1', 'orders'), result('b', '2')], NEVER);

    const arrived = (await server.drain(queueUrl)).map(({ Body, Attributes }) => [Body, Attributes?.MessageGroupId]);
    expect(arrived).toEqual(
      expect.arrayContaining([
        ['1', 'orders'],
        ['2', 'b'],
      ]),
    );
  });

  it('writes the result of a redelivered message once', async () => {
    const queueUrl = server.fifoQueue();
    const writer = createQueueWriter({ sqs: server.client(), queueUrl });

    await writer.write([result('a', '1', 'orders')], NEVER);
    const again = await writer.write([result('a', '1', 'orders'), result('b', '2', 'orders')], NEVER);

    expect(again).toEqual([WRITTEN, WRITTEN]);
    expect((await server.drain(queueUrl)).map(({ Body }) => Body)).toEqual(['1', '2']);
  });

  it('sends neither group nor deduplication ID to a standard queue', async () => {
    const sqs = server.client();
    const sent = sentTo(sqs);

    await createQueueWriter({ sqs, queueUrl: server.queue() }).write([result('a', '1', 'orders')], NEVER);

    expect(Object.keys(sent[0] ?? {}).toSorted()).toEqual(['Id', 'MessageAttributes', 'MessageBody']);
  });
});
