import type { Message, SQSClient } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { createPayloads } from '../../../../lambda/aws/payloads.ts';
import { createQueueWriter, type QueueWriterOptions } from '../../../../lambda/aws/resultQueue.ts';
import type { RetryOptions } from '../../../../lambda/aws/sendBatches.ts';
import type { Result } from '../../../../lambda/core/record.ts';

import { interceptSends, type Reach, type SendAnswer, useS3Server, useSqsServer } from '../../../helpers/awsServers.ts';

const server = useSqsServer();
const s3Server = useS3Server();
const NEVER = new AbortController().signal;
const WRITTEN = { written: true };
const AT_ONCE: RetryOptions = { random: () => 0 };
const KIB = 1024;
const FILL = { results: Number.POSITIVE_INFINITY, bytes: 64 * KIB };

function result(messageId: string, bytes = 40, group?: string): Result {
  const empty = JSON.stringify({ message_id: messageId, x: '' });
  const body = JSON.stringify({ message_id: messageId, x: '.'.repeat(bytes - empty.length) });
  return { messageId, body, messageGroupId: group };
}

function results(count: number, bytes?: number): Result[] {
  return Array.from({ length: count }, (_, index) => result(`m${index}`, bytes));
}

interface Intercepted {
  readonly sqs: SQSClient;
  /** Of every batch request, the message IDs in each of its messages. */
  readonly calls: string[][][];
  readonly deduplicationIds: (string | undefined)[];
}

/** A client whose n-th batch request goes through the n-th step; later ones just reach the server. */
function intercepted(...steps: ((reach: Reach) => Promise<SendAnswer>)[]): Intercepted {
  const sqs = server.client();
  const calls: string[][][] = [];
  const deduplicationIds: (string | undefined)[] = [];
  interceptSends(sqs, (entries, reach) => {
    const step = steps[calls.length];
    calls.push(entries.map(({ MessageBody = '' }) => idsIn(MessageBody)));
    deduplicationIds.push(...entries.map(({ MessageDeduplicationId }) => MessageDeduplicationId));
    return step === undefined ? reach() : step(reach);
  });
  return { sqs, calls, deduplicationIds };
}

function idsIn(body: string): string[] {
  return [...body.matchAll(/"message_id":"([^"]+)"/g)].map(([, id = '']) => id);
}

function writerOf(options: Partial<QueueWriterOptions>) {
  return createQueueWriter({
    sqs: server.client(),
    queueUrl: server.queue(),
    packing: FILL,
    retry: AT_ONCE,
    ...options,
  });
}

/** As SQS counts a message: its body, and names, types and values of its attributes. */
function bytesOf({ Body = '', MessageAttributes = {} }: Message): number {
  const attributes = Object.entries(MessageAttributes);
  return attributes.reduce(
    (sum, [name, { DataType = '', StringValue = '' }]) => sum + name.length + DataType.length + StringValue.length,
    Buffer.byteLength(Body),
  );
}

describe('packed results', () => {
  it('share a message: an array of them as they are, and how many in an attribute', async () => {
    const queueUrl = server.queue();
    const written = [...results(3), { ...result('packed'), body: '[{"message_id":"packed"},{"message_id":"packed"}]' }];

    expect(await writerOf({ queueUrl }).write(written, NEVER)).toEqual(written.map(() => WRITTEN));

    const messages = await server.drain(queueUrl);
    expect(messages.map(({ Body, MessageAttributes }) => [Body, MessageAttributes])).toEqual([
      [`[${written.map(({ body }) => body).join(',')}]`, { results: { DataType: 'Number', StringValue: '4' } }],
    ]);
  });

  it('of one alone are as if nothing were packed', async () => {
    const queueUrl = server.queue();
    await writerOf({ queueUrl }).write([result('a')], NEVER);
    const [{ Body, MessageAttributes } = {}] = await server.drain(queueUrl);
    expect([Body, MessageAttributes]).toEqual([
      result('a').body,
      { messageId: { DataType: 'String', StringValue: 'a' } },
    ]);
  });

  it.each([
    [3, 10, [3, 3, 3, 1]],
    [100, 100, [100]],
    [1, 3, [1, 1, 1]],
  ])('are at most %d to a message', async (max, count, expected) => {
    const { sqs, calls } = intercepted();
    await writerOf({ sqs, packing: { results: max, bytes: 64 * KIB } }).write(results(count), NEVER);
    expect(calls).toHaveLength(1);
    expect(calls.flat().map((ids) => ids.length)).toEqual(expected);
  });

  it('fill a message to the byte, and take not one byte more', async () => {
    const queueUrl = server.queue();
    // '[' + 64 × 1,000 + 63 commas + ']' and the attribute 'results', 'Number', '64'.
    const exact = 64 * 1000 + 65 + 15;
    for (const [bytes, expected] of [
      [exact, [exact]],
      [exact - 1, [exact - 1001, 1000 + 18]],
    ] as const) {
      await writerOf({ queueUrl, packing: { results: 100, bytes } }).write(results(64, 1000), NEVER);
      expect((await server.drain(queueUrl)).map(bytesOf).toSorted((a, b) => b - a)).toEqual(expected);
    }
  });

  it('of 64 KiB messages fill batch requests of ten', async () => {
    const { sqs, calls } = intercepted();
    await writerOf({ sqs }).write(results(700, 1000), NEVER);
    expect(calls.map((messages) => messages.length)).toEqual([10, 1]);
  });

  it('leave out what is too large for a packed message, and what points to the payload bucket', async () => {
    const bucket = await s3Server.bucket();
    const payloads = createPayloads({ s3: s3Server.client(), bucket, maxBytes: 1, retry: AT_ONCE });
    const queueUrl = server.queue();
    const written = [result('a'), result('b'), result('100 KB', 100_000), result('2 MB', 2_000_000), result('c')];

    expect(await writerOf({ queueUrl, payloads }).write(written, NEVER)).toEqual(written.map(() => WRITTEN));

    const messages = await server.drain(queueUrl);
    const held = messages.map(({ Body = '', MessageAttributes: { messageId } = {} }) =>
      messageId === undefined ? idsIn(Body) : messageId.StringValue,
    );
    expect(held).toHaveLength(4);
    expect(held).toEqual(expect.arrayContaining([['a', 'b'], '100 KB', '2 MB', 'c']));
  });

  it('of one message ID never share a message, so that a reader can tell them apart', async () => {
    const { sqs, calls } = intercepted();
    await writerOf({ sqs }).write([result('a'), result('a'), result('b')], NEVER);
    expect(calls).toEqual([[['a'], ['a', 'b']]]);
  });
});

describe('packed results whose batch request failed', () => {
  const lost = async (reach: Reach): Promise<SendAnswer> => {
    await reach();
    throw new Error('the connection broke');
  };

  it('are sent again as they were when the answer got lost', async () => {
    const { sqs, calls } = intercepted(lost);
    const queueUrl = server.queue();
    const written = results(4);
    const packing = { results: 2, bytes: 64 * KIB };
    expect(await writerOf({ sqs, queueUrl, packing }).write(written, NEVER)).toEqual(written.map(() => WRITTEN));
    const messages = [
      ['m0', 'm1'],
      ['m2', 'm3'],
    ];
    expect(calls).toEqual([messages, messages]);
    const bodies = (await server.drain(queueUrl)).map(({ Body }) => Body);
    expect([bodies.length, new Set(bodies).size]).toEqual([4, 2]);
  });

  it('fail together with their message, and no others with them', async () => {
    const failing = async (reach: Reach): Promise<SendAnswer> => {
      const { Successful = [] } = await reach();
      const failed = { Id: '1', Code: 'InternalError', Message: 'try later', SenderFault: false };
      return { Successful: Successful.filter(({ Id }) => Id !== '1'), Failed: [failed] };
    };
    const always = (reach: Reach): Promise<SendAnswer> =>
      reach().then(() => ({ Failed: [{ Id: '0', Code: 'InternalError', Message: 'try later', SenderFault: false }] }));
    const { sqs, calls } = intercepted(failing, always);
    const packing = { results: 2, bytes: 64 * KIB };

    const verdicts = await writerOf({ sqs, packing, retry: { ...AT_ONCE, attempts: 2 } }).write(results(6), NEVER);

    const outage = { of: 'result queue', kind: 'busy' };
    const refused = { failed: true, code: 'WRITE_FAILED', message: 'result queue: InternalError: try later', outage };
    expect(verdicts).toEqual([WRITTEN, WRITTEN, refused, refused, WRITTEN, WRITTEN]);
    expect(calls).toEqual([
      [
        ['m0', 'm1'],
        ['m2', 'm3'],
        ['m4', 'm5'],
      ],
      [['m2', 'm3']],
    ]);
  });

  it('go alone when SQS refuses them for good, so that only the culprit fails', async () => {
    const { sqs } = intercepted();
    const bad = { ...result('bad'), body: '{"message_id":"bad","x":"\u0001"}' };

    const verdicts = await writerOf({ sqs }).write([result('a'), bad, result('b')], NEVER);

    expect(verdicts).toEqual([
      WRITTEN,
      { failed: true, code: 'WRITE_FAILED', message: expect.stringContaining('InvalidMessageContents') },
      WRITTEN,
    ]);
  });

  it('are packed smaller when the queue takes no messages of their size', async () => {
    const queueUrl = server.queue({ MaximumMessageSize: String(16 * KIB) });
    const written = results(40, 1000);

    expect(await writerOf({ queueUrl }).write(written, NEVER)).toEqual(written.map(() => WRITTEN));

    const messages = await server.drain(queueUrl);
    expect(messages.flatMap(({ Body = '' }) => idsIn(Body)).toSorted()).toEqual(
      written.map(({ messageId }) => messageId).toSorted(),
    );
    expect(messages).toHaveLength(3);
    expect(Math.max(...messages.map(bytesOf))).toBeLessThanOrEqual(16 * KIB);
  });
});

describe('packed results on a FIFO queue', () => {
  it('share messages within their group, in order', async () => {
    const queueUrl = server.fifoQueue();
    const written = ['a', 'b', 'a', 'b', 'a'].map((group, index) => result(`m${index}`, 40, group));
    expect(await writerOf({ queueUrl }).write(written, NEVER)).toEqual(written.map(() => WRITTEN));
    const messages = await server.drain(queueUrl);
    expect(messages.map(({ Attributes, Body = '' }) => [Attributes?.MessageGroupId, idsIn(Body)]).toSorted()).toEqual([
      ['a', ['m0', 'm2', 'm4']],
      ['b', ['m1', 'm3']],
    ]);
  });

  it('of requests without a group share none', async () => {
    const { sqs, calls } = intercepted();
    await writerOf({ sqs, queueUrl: server.fifoQueue() }).write(results(3), NEVER);
    expect(calls).toEqual([[['m0'], ['m1'], ['m2']]]);
  });

  it('arrive once when they are packed as before, and are never dropped when they are packed otherwise', async () => {
    const queueUrl = server.fifoQueue();
    const writer = writerOf({ queueUrl });
    const [a, b, c] = ['a', 'b', 'c'].map((id) => result(id, 40, 'orders')) as [Result, Result, Result];
    for (const written of [[a, b], [a, b], [a, b, c], [b], [b]]) await writer.write(written, NEVER);
    const arrived = (await server.drain(queueUrl)).map(({ Body = '' }) => idsIn(Body));
    expect(arrived).toEqual([['a', 'b'], ['a', 'b', 'c'], ['b']]);
  });

  it('carry the message ID of a result alone, and a hash of all of them of several, as deduplication ID', async () => {
    const { sqs, deduplicationIds } = intercepted();
    const writer = writerOf({ sqs, queueUrl: server.fifoQueue() });
    await writer.write([result('a', 40, 'one'), result('b', 40, 'two'), result('c', 40, 'two')], NEVER);
    expect(deduplicationIds).toEqual(['a', expect.stringMatching(/^[0-9a-f]{64}$/)]);
  });

  it('are told to be written as one as far as they fit a message', () => {
    const writer = writerOf({ queueUrl: server.fifoQueue(), packing: { results: 3, bytes: 64 * KIB } });
    const large = result('large', 100_000, 'g');
    const small = ['a', 'b', 'c', 'd'].map((id) => result(id, 40, 'g'));
    expect(writer.writtenAsOne?.(small)).toBe(3);
    expect(writer.writtenAsOne?.([...small.slice(0, 2), large])).toBe(2);
    expect(writer.writtenAsOne?.([large, ...small])).toBe(1);
  });

  it('keep their order when the queue takes no messages of their size: what follows waits for its next turn', async () => {
    const queueUrl = server.fifoQueue({ MaximumMessageSize: String(2 * KIB) });
    const written = ['a', 'b', 'c'].map((id) => result(id, 900, 'g'));

    const verdicts = await writerOf({ queueUrl }).write(written, NEVER);

    const message = 'result queue: results of its message group before it go first';
    expect(verdicts).toEqual([WRITTEN, WRITTEN, { failed: true, code: 'WRITE_FAILED', message }]);
    expect((await server.drain(queueUrl)).map(({ Body = '' }) => idsIn(Body))).toEqual([['a', 'b']]);
  });
});
