import type { Message, SendMessageBatchRequestEntry } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { createPayloads } from '../../../lambda/aws/payloads.ts';
import { createQueueWriter, type QueueWriterOptions } from '../../../lambda/aws/resultQueue.ts';
import type { RetryOptions } from '../../../lambda/aws/sendBatches.ts';
import { parsePointer, type Result } from '../../../lambda/core/record.ts';
import {
  interceptSends,
  type Reach,
  type SendAnswer,
  sqsError,
  useS3Server,
  useSqsServer,
} from '../../helpers/awsServers.ts';
import { answersJson, type Exchange, refusesXml, type Step } from '../../helpers/frontServer.ts';

const server = useSqsServer();
const s3Server = useS3Server();
const NEVER = new AbortController().signal;
const WRITTEN = { written: true };
const AT_ONCE: RetryOptions = { random: () => 0 };
const KIB = 1024;
const MIB = 1_048_576;
const ATTRIBUTE_BYTES = 'messageId'.length + 'String'.length;

function resultOf(messageId: string, body: string, group?: string): Result {
  return { messageId, body, messageGroupId: group };
}

/** A result whose body has so many bytes. */
function result(messageId: string, bytes = 40, group?: string): Result {
  const empty = JSON.stringify({ message_id: messageId, x: '' });
  const body = JSON.stringify({ message_id: messageId, x: '.'.repeat(bytes - empty.length) });
  return resultOf(messageId, body, group);
}

function results(count: number, bytes?: number): Result[] {
  return Array.from({ length: count }, (_, index) => result(`m${index}`, bytes));
}

/** A result of exactly `bytes` as SQS counts them: body and attribute together. */
function exactly(bytes: number, messageId: string): Result {
  return result(messageId, bytes - ATTRIBUTE_BYTES - messageId.length);
}

/** As SQS counts a message: its body, and names, types and values of its attributes. */
function bytesOf({ Body = '', MessageAttributes = {} }: Message): number {
  return Object.entries(MessageAttributes).reduce(
    (sum, [name, { DataType = '', StringValue = '' }]) => sum + name.length + DataType.length + StringValue.length,
    Buffer.byteLength(Body),
  );
}

function idsIn(body = ''): string[] {
  return [...body.matchAll(/"message_id":"([^"]+)"/g)].map(([, id = '']) => id);
}

function writerOf(options: Partial<QueueWriterOptions>) {
  return createQueueWriter({ sqs: server.client(), queueUrl: server.queue(), retry: AT_ONCE, ...options });
}

/** A client whose n-th batch request goes through the n-th step; later ones just reach the server. */
function intercepted(...steps: ((reach: Reach) => Promise<SendAnswer>)[]) {
  const sqs = server.client();
  const calls: string[][][] = [];
  const sent: SendMessageBatchRequestEntry[] = [];
  interceptSends(sqs, (entries, reach) => {
    const step = steps[calls.length];
    calls.push(entries.map(({ MessageBody = '' }) => idsIn(MessageBody)));
    sent.push(...entries);
    return step === undefined ? reach() : step(reach);
  });
  return { sqs, calls, sent };
}

/** A payload bucket of its own. */
async function payloadBucket() {
  const bucket = await s3Server.bucket();
  return { bucket, payloads: createPayloads({ s3: s3Server.client(), bucket, maxBytes: 1, retry: AT_ONCE }) };
}

/** A bucket that answers uploads like this. */
async function payloadsBehind(step: Step) {
  const s3 = s3Server.client(await s3Server.front(step));
  return createPayloads({ s3, bucket: 'any', maxBytes: 1, retry: AT_ONCE });
}

describe('the queue writer', () => {
  it('sends 1 MiB in a batch request', async () => {
    const { sqs, calls } = intercepted();
    const large = ['a', 'b', 'c', 'd', 'e'].map((messageId) => exactly(MIB / 2, messageId));

    expect(await writerOf({ sqs }).write(large, NEVER)).toEqual(large.map(() => WRITTEN));

    expect(calls.map((messages) => messages.length)).toEqual([2, 2, 1]);
  });

  it('takes 1,048,576 bytes, attribute counted, and refuses one more for good, with the sizes', async () => {
    const { sqs, calls } = intercepted();
    const given = [exactly(MIB, 'exact'), exactly(MIB + 1, 'large'), result('a')];

    expect(await writerOf({ sqs }).write(given, NEVER)).toMatchObject([
      WRITTEN,
      {
        code: 'RESULT_TOO_LARGE',
        message:
          'expected a result of at most 1048576 bytes, the size of a message on the result queue, got 1048577; ' +
          'ask for fewer outputs, send fewer rows in a request, or deploy a payload bucket',
      },
      WRITTEN,
    ]);
    expect(calls).toEqual([[['exact']], [['a']]]);
  });

  it.each([
    ['characters of several bytes', JSON.stringify('€'.repeat(MIB / 3))],
    ['characters that SQS refuses, as long as they are sent', `"\uFFFF${'x'.repeat(MIB - ATTRIBUTE_BYTES - 8)}"`],
  ])('counts bytes: %s', async (_, body) => {
    expect(await writerOf({}).write([resultOf('m', body)], NEVER)).toMatchObject([{ code: 'RESULT_TOO_LARGE' }]);
  });

  it('lets the characters that SQS refuses survive the round trip', async () => {
    const queueUrl = server.queue();
    const document = { error: 'got "\uFFFE\uFFFF" and \uFFFD, \u0000, \uD800 alone' };

    expect(await writerOf({ queueUrl }).write([resultOf('m', JSON.stringify(document))], NEVER)).toEqual([WRITTEN]);

    const [arrived] = await server.drain(queueUrl);
    expect(JSON.parse(arrived?.Body ?? '')).toEqual(document);
  });

  it.each([
    ['alone', 1],
    ['packed with others', 10],
  ])('fails for good, and alone, what SQS says is the sender’s fault: %s', async (_, perMessage) => {
    const bad = resultOf('bad', '{"message_id":"bad","x":"\u0001"}');
    const packing = { results: perMessage, bytes: 64 * KIB };

    expect(await writerOf({ packing }).write([result('a'), bad, result('b')], NEVER)).toEqual([
      WRITTEN,
      { failed: true, code: 'WRITE_FAILED', message: expect.stringContaining('InvalidMessageContents') },
      WRITTEN,
    ]);
  });

  it('share no message with others once the queue has refused theirs for good', async () => {
    const failing = async () => ({
      Successful: [],
      Failed: [
        { Id: '0', Code: 'InvalidMessageContents', SenderFault: true },
        { Id: '1', Code: 'InternalError', SenderFault: false },
      ],
    });
    const { sqs, calls } = intercepted(failing);
    const packing = { results: 2, bytes: 64 * KIB };

    expect(await writerOf({ sqs, packing }).write(results(4), NEVER)).toEqual(Array(4).fill(WRITTEN));
    expect(calls).toEqual([
      [
        ['m0', 'm1'],
        ['m2', 'm3'],
      ],
      [['m0'], ['m1'], ['m2', 'm3']],
    ]);
  });

  it('fails alone a result for which SQS refuses the whole request, and sends the others', async () => {
    const refusesBad = async (reach: Reach) => {
      if (calls.at(-1)?.flat().includes('bad')) throw sqsError('InvalidParameterValue', 'client');
      return await reach();
    };
    const { sqs, calls } = intercepted(...Array<typeof refusesBad>(4).fill(refusesBad));

    expect(await writerOf({ sqs }).write([result('a'), result('bad'), result('b')], NEVER)).toMatchObject([
      WRITTEN,
      { code: 'WRITE_FAILED', message: expect.stringContaining('InvalidParameterValue') },
      WRITTEN,
    ]);
    expect(calls).toEqual([[['a'], ['bad'], ['b']], [['a']], [['bad']], [['b']]]);
  });

  it('asks once for a queue that is denied, because no result is at fault', async () => {
    const { sqs, calls } = intercepted(async () => {
      throw sqsError('AccessDenied', 'client');
    });

    expect(await writerOf({ sqs }).write(results(3), NEVER)).toMatchObject(
      Array(3).fill({ code: 'WRITE_FAILED', outage: { kind: 'refused' } }),
    );
    expect(calls).toHaveLength(1);
  });

  it('ends with its time even if a connection cannot be ended', async () => {
    const aborting = new AbortController();
    const { sqs } = intercepted(async () => {
      setImmediate(() => aborting.abort());
      return await new Promise(() => {});
    });

    expect(await writerOf({ sqs }).write(results(1), aborting.signal)).toMatchObject([{ code: 'WRITE_FAILED' }]);
  });
});

describe('a result that is too large for the queue', () => {
  const LARGE = resultOf('large', JSON.stringify('€'.repeat(MIB / 3)), 'orders');

  it('goes to the payload bucket once, and its message, which may be sent again, points to it in its group', async () => {
    const { bucket, payloads } = await payloadBucket();
    const queueUrl = server.fifoQueue();
    const lost = async (): Promise<SendAnswer> => ({});
    const { sqs, calls } = intercepted(lost, lost);

    expect(await writerOf({ sqs, queueUrl, payloads }).write([LARGE], NEVER)).toEqual([WRITTEN]);

    expect(calls).toHaveLength(3);
    const [key = '', ...others] = await s3Server.keys(bucket);
    expect(others).toEqual([]);
    expect((await s3Server.text(bucket, key)) === LARGE.body).toBe(true);
    const [{ Body = '', MessageAttributes, Attributes } = {}] = await server.drain(queueUrl);
    expect(parsePointer(JSON.parse(Body))).toEqual({ bucket, key });
    expect(MessageAttributes).toMatchObject({
      messageId: { DataType: 'String', StringValue: 'large' },
      ExtendedPayloadSize: { DataType: 'Number', StringValue: String(Buffer.byteLength(LARGE.body)) },
    });
    expect(Attributes?.MessageGroupId).toBe('orders');
  });

  it('is a failure, and no error answer, when the payload bucket does not take it', async () => {
    const payloads = await payloadsBehind(refusesXml(403, 'AccessDenied'));

    expect(await writerOf({ payloads }).write([LARGE, result('a')], NEVER)).toMatchObject([
      { code: 'WRITE_FAILED', message: expect.stringMatching(/^payload bucket: AccessDenied/) },
      WRITTEN,
    ]);
  });

  it('neither keeps the others waiting for its upload nor waits for them', async () => {
    const uploadBegan = Promise.withResolvers<void>();
    const othersAreThere = Promise.withResolvers<void>();
    const payloads = await payloadsBehind(async ({ response }) => {
      uploadBegan.resolve();
      await othersAreThere.promise;
      response.writeHead(200).end();
    });
    const { sqs, calls } = intercepted(async (reach) => {
      await uploadBegan.promise;
      const answer = await reach();
      othersAreThere.resolve();
      return answer;
    });

    const written = [LARGE, result('a'), result('b')];
    expect(await writerOf({ sqs, payloads }).write(written, NEVER)).toEqual([WRITTEN, WRITTEN, WRITTEN]);

    expect(calls).toEqual([[['a'], ['b']], [[]]]);
  });
});

describe('a queue that takes less than SQS', () => {
  const QUEUE_BYTES = 256 * KIB;
  const smallQueue = () => server.queue({ MaximumMessageSize: String(QUEUE_BYTES) });

  it('gets pointers in place of what is larger, is not offered a second one, and gets what it takes to the byte', async () => {
    const { bucket, payloads } = await payloadBucket();
    const { sqs, calls } = intercepted();
    const queueUrl = smallQueue();
    const writer = writerOf({ sqs, queueUrl, payloads });

    expect(await writer.write([result('a'), result('large', 400_000), result('b')], NEVER)).toEqual(
      Array(3).fill(WRITTEN),
    );
    const before = calls.length;
    expect(await writer.write([result('second', 300_000), result('small')], NEVER)).toEqual([WRITTEN, WRITTEN]);
    expect(calls.slice(before)).toHaveLength(2);
    expect(await writer.write([exactly(QUEUE_BYTES, 'exact')], NEVER)).toEqual([WRITTEN]);

    const pointed = (await server.drain(queueUrl)).filter(({ Body = '' }) => parsePointer(JSON.parse(Body)));
    expect(pointed.map(({ MessageAttributes }) => MessageAttributes?.messageId?.StringValue).toSorted()).toEqual([
      'large',
      'second',
    ]);
    expect(await s3Server.keys(bucket)).toHaveLength(2);
  });

  it('refuses a result for good where there is no payload bucket, and says what it takes', async () => {
    const written = [result('a'), result('large', 400_000)];

    expect(await writerOf({ queueUrl: smallQueue() }).write(written, NEVER)).toMatchObject([
      WRITTEN,
      { code: 'RESULT_TOO_LARGE', message: expect.stringMatching(/at most 262144 bytes, .*, got 400020; /) },
    ]);
  });

  it('gets a pointer in place of what it refuses as too large, whatever size it says that it takes', async () => {
    const claims = 'Message must be shorter than 1048576 bytes.';
    const Failed = [{ Id: '0', Code: 'InvalidParameterValue', Message: claims, SenderFault: true }];
    const front = await server.front(answersJson(200, { Successful: [], Failed }));
    const { bucket, payloads } = await payloadBucket();

    expect(await writerOf({ sqs: server.client(front), payloads }).write([result('a', 1_000)], NEVER)).toEqual([
      WRITTEN,
    ]);

    expect(await s3Server.keys(bucket)).toHaveLength(1);
  });

  it('gets smaller batch requests, and a pointer in place of what is too long for one alone', async () => {
    const max = 100 * KIB;
    const bodiesIn = ({ body }: Exchange): string[] =>
      (JSON.parse(body).Entries as { MessageBody: string }[]).map(({ MessageBody }) => MessageBody);
    const refusesLong: Step = async (exchange) => {
      const bytes = bodiesIn(exchange).reduce((sum, body) => sum + Buffer.byteLength(body), 0);
      const message = `Batch requests cannot be longer than ${max} bytes. You have sent ${bytes} bytes.`;
      if (bytes > max) return answersJson(400, { __type: 'com.amazonaws.sqs#BatchRequestTooLong', message })(exchange);
      const { status, headers, body } = await exchange.reach();
      exchange.response.writeHead(status, headers).end(body);
    };
    const front = await server.front(...new Array<Step>(20).fill(refusesLong));
    const { bucket, payloads } = await payloadBucket();
    const queueUrl = server.queue();
    const writer = writerOf({ sqs: server.client(front), queueUrl, payloads });
    const six = results(6, 40_000);

    expect(await writer.write([...six, result('large', 200_000)], NEVER)).toEqual(Array(7).fill(WRITTEN));
    const before = front.requests.length;
    expect(await writer.write(six, NEVER)).toEqual(Array(6).fill(WRITTEN));

    expect(front.requests.slice(before).map((one) => bodiesIn(one).length)).toEqual([2, 2, 2]);
    expect(await s3Server.keys(bucket)).toHaveLength(1);
    expect(await server.drain(queueUrl)).toHaveLength(13);
  });
});

const PACKED = { results: 10_000, bytes: 64 * KIB };

describe('packed results', () => {
  it('share a message: an array of them as they are, and how many in an attribute', async () => {
    const queueUrl = server.queue();
    const written = [...results(3), resultOf('packed', '[{"message_id":"packed"},{"message_id":"packed"}]')];

    expect(await writerOf({ queueUrl, packing: PACKED }).write(written, NEVER)).toEqual(written.map(() => WRITTEN));

    const messages = await server.drain(queueUrl);
    expect(messages.map(({ Body, MessageAttributes }) => [Body, MessageAttributes])).toEqual([
      [`[${written.map(({ body }) => body).join(',')}]`, { results: { DataType: 'Number', StringValue: '4' } }],
    ]);
  });

  it('of one alone are as if nothing were packed', async () => {
    const { sqs, sent } = intercepted();
    await writerOf({ sqs, packing: PACKED }).write([result('a')], NEVER);
    const MessageAttributes = { messageId: { DataType: 'String', StringValue: 'a' } };
    expect(sent).toEqual([{ Id: '0', MessageBody: result('a').body, MessageAttributes }]);
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

  it('leave out what is too large for a packed message, and what points to the payload bucket', async () => {
    const { payloads } = await payloadBucket();
    const queueUrl = server.queue();
    const written = [result('a'), result('b'), result('100 KB', 100_000), result('2 MB', 2_000_000), result('c')];

    expect(await writerOf({ queueUrl, payloads, packing: PACKED }).write(written, NEVER)).toEqual(
      written.map(() => WRITTEN),
    );

    const messages = await server.drain(queueUrl);
    const held = messages.map(
      ({ Body, MessageAttributes: { messageId } = {} }) => messageId?.StringValue ?? idsIn(Body),
    );
    expect(held).toHaveLength(4);
    expect(held).toEqual(expect.arrayContaining([['a', 'b'], '100 KB', '2 MB', 'c']));
  });

  it('of one message ID never share a message, so that a reader can tell them apart', async () => {
    const { sqs, calls } = intercepted();
    await writerOf({ sqs, packing: PACKED }).write([result('a'), result('a'), result('b')], NEVER);
    expect(calls).toEqual([[['a'], ['a'], ['b']]]);
  });

  it('are sent again as they were when the answer got lost, and fail together with their message', async () => {
    const failing = (id: string) => async (reach: Reach) => {
      const { Successful = [] } = await reach();
      const failed = { Id: id, Code: 'InternalError', Message: 'try later', SenderFault: false };
      return { Successful: Successful.filter(({ Id }) => Id !== id), Failed: [failed] };
    };
    const { sqs, calls } = intercepted(failing('1'), failing('0'));
    const packing = { results: 2, bytes: 64 * KIB };

    const statuses = await writerOf({ sqs, packing, retry: { ...AT_ONCE, attempts: 2 } }).write(results(6), NEVER);

    const outage = { of: 'result queue', kind: 'busy' };
    const refused = { failed: true, code: 'WRITE_FAILED', message: 'result queue: InternalError: try later', outage };
    expect(statuses).toEqual([WRITTEN, WRITTEN, refused, refused, WRITTEN, WRITTEN]);
    const second = ['m2', 'm3'];
    expect(calls).toEqual([[['m0', 'm1'], second, ['m4', 'm5']], [second]]);
  });

  it('are packed smaller when the queue takes no messages of their size', async () => {
    const queueUrl = server.queue({ MaximumMessageSize: String(16 * KIB) });
    const written = results(40, 1000);

    expect(await writerOf({ queueUrl, packing: PACKED }).write(written, NEVER)).toEqual(written.map(() => WRITTEN));

    const messages = await server.drain(queueUrl);
    expect(messages.flatMap(({ Body }) => idsIn(Body)).toSorted()).toEqual(
      written.map(({ messageId }) => messageId).toSorted(),
    );
    expect(messages).toHaveLength(3);
    expect(Math.max(...messages.map(bytesOf))).toBeLessThanOrEqual(16 * KIB);
  });
});

describe('on a standard queue', () => {
  it('packed results of a message group share no message with others, and none is written after one that is not', async () => {
    const failing = async (reach: Reach) => {
      const { Successful = [] } = await reach();
      const failed = { Id: '1', Code: 'InternalError', Message: 'try later', SenderFault: false };
      return { Successful: Successful.filter(({ Id }) => Id !== '1'), Failed: [failed] };
    };
    const { sqs, calls } = intercepted(failing);
    const packing = { results: 4, bytes: 64 * KIB };
    const writer = writerOf({ sqs, packing, retry: { ...AT_ONCE, attempts: 1 } });
    const groups = ['g', 'g', 'g', 'h', 'h', 'h', 'h', undefined, undefined];
    const written = groups.map((group, index) => result(`m${index}`, 40, group));
    expect(writer.writtenAsOne?.(written.slice(3, 7))).toBe(4);

    const statuses = await writer.write(written, NEVER);

    expect(calls).toEqual([
      [
        ['m0', 'm1', 'm2'],
        ['m3', 'm4', 'm5', 'm6'],
        ['m7', 'm8'],
      ],
    ]);
    expect(statuses.map((status) => 'written' in status)).toEqual(groups.map((group) => group !== 'h'));
  });

  it('packed results of a message group keep their order when the queue takes no messages of their size', async () => {
    const queueUrl = server.queue({ MaximumMessageSize: String(2 * KIB) });
    const written = ['a', 'b', 'c'].map((id) => result(id, 900, 'g'));

    const statuses = await writerOf({ queueUrl, packing: PACKED }).write(written, NEVER);

    expect(statuses).toMatchObject([WRITTEN, WRITTEN, { code: 'WRITE_FAILED' }]);
    expect((await server.drain(queueUrl)).map(({ Body }) => idsIn(Body))).toEqual([['a', 'b']]);
  });
});

describe('on a FIFO queue', () => {
  it('results are in the group of their request, or in one of their own; a redelivered one is written once', async () => {
    const queueUrl = server.fifoQueue();
    const writer = writerOf({ queueUrl });

    await writer.write([result('a', 40, 'orders'), result('b')], NEVER);
    expect(await writer.write([result('a', 40, 'orders'), result('c', 40, 'orders')], NEVER)).toEqual([
      WRITTEN,
      WRITTEN,
    ]);

    const arrived = (await server.drain(queueUrl)).map(({ Body, Attributes }) => [
      ...idsIn(Body),
      Attributes?.MessageGroupId,
    ]);
    expect(arrived.toSorted()).toEqual([
      ['a', 'orders'],
      ['b', 'b'],
      ['c', 'orders'],
    ]);
  });

  it('results that are sent alone, because SQS refused them together, do not overtake one that is sent again', async () => {
    const refused = async () => {
      throw sqsError('InvalidParameterValue', 'client');
    };
    const busy = async () => ({ Successful: [], Failed: [{ Id: '0', Code: 'InternalError', SenderFault: false }] });
    const { sqs, calls } = intercepted(refused, busy);
    const given = ['a', 'b'].map((id) => result(id, 40, 'g'));

    expect(await writerOf({ sqs, queueUrl: server.fifoQueue() }).write(given, NEVER)).toEqual([WRITTEN, WRITTEN]);

    expect(calls).toEqual([[['a'], ['b']], [['a']], [['a'], ['b']]]);
  });

  it('packed results share messages within their group, in order; those without a group share none', async () => {
    const { sqs, calls } = intercepted();
    const written = ['a', 'b', 'a', 'b', undefined, 'a', undefined].map((group, index) =>
      result(`m${index}`, 40, group),
    );

    await writerOf({ sqs, queueUrl: server.fifoQueue(), packing: PACKED }).write(written, NEVER);

    expect(calls).toEqual([[['m0', 'm2', 'm5'], ['m1', 'm3'], ['m4'], ['m6']]]);
  });

  it('packed results arrive once when packed as before, and are never dropped when packed otherwise', async () => {
    const queueUrl = server.fifoQueue();
    const { sqs, sent } = intercepted();
    const writer = writerOf({ sqs, queueUrl, packing: PACKED });
    const [a, b, c] = ['a', 'b', 'c'].map((id) => result(id, 40, 'orders')) as [Result, Result, Result];

    for (const written of [[a, b], [a, b], [a, b, c], [b], [b]]) await writer.write(written, NEVER);

    const arrived = (await server.drain(queueUrl)).map(({ Body }) => idsIn(Body));
    expect(arrived).toEqual([['a', 'b'], ['a', 'b', 'c'], ['b']]);
    const hash = expect.stringMatching(/^[0-9a-f]{64}$/);
    expect(sent.map(({ MessageDeduplicationId }) => MessageDeduplicationId)).toEqual([hash, hash, hash, 'b', 'b']);
  });

  it('packed results are said to be written as one as far as they fit a message', () => {
    const writer = writerOf({ queueUrl: server.fifoQueue(), packing: { results: 3, bytes: 64 * KIB } });
    const large = result('large', 100_000, 'g');
    const small = ['a', 'b', 'c', 'd'].map((id) => result(id, 40, 'g'));
    expect(writer.writtenAsOne?.(small)).toBe(3);
    expect(writer.writtenAsOne?.([...small.slice(0, 2), large])).toBe(2);
    expect(writer.writtenAsOne?.([large, ...small])).toBe(1);
  });

  it('packed results keep their order when the queue takes no messages of their size', async () => {
    const queueUrl = server.fifoQueue({ MaximumMessageSize: String(2 * KIB) });
    const written = ['a', 'b', 'c'].map((id) => result(id, 900, 'g'));

    const statuses = await writerOf({ queueUrl, packing: PACKED }).write(written, NEVER);

    const message = 'result queue: results of its message group before it go first';
    expect(statuses).toEqual([WRITTEN, WRITTEN, { failed: true, code: 'WRITE_FAILED', message }]);
    expect((await server.drain(queueUrl)).map(({ Body }) => idsIn(Body))).toEqual([['a', 'b']]);
  });
});
