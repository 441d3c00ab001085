import assert from 'node:assert/strict';
import { S3 } from '@aws-sdk/client-s3';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { SQSEvent } from 'aws-lambda';
import { build } from 'esbuild';
import { toSqsRecord } from '../../../cli/local/localMapping.ts';
import { type ConsumeOptions, consumeResults, type Delivery, type SingleResult } from '../../../client/consumer.ts';
import { createPayloads } from '../../../lambda/aws/payloads.ts';
import { createQueueWriter, type ResultPacking } from '../../../lambda/aws/resultQueue.ts';
import { pointerBody, type Result } from '../../../lambda/core/record.ts';
import { useS3Server, useSqsServer } from '../../helpers/awsServers.ts';
import { REPOSITORY } from '../../helpers/command.ts';
import { ALIVE, resultOf } from '../../helpers/deployment.ts';
import { sqsRecord } from '../../helpers/handler.ts';

const server = useSqsServer();
const s3Server = useS3Server();
const PACKED: ResultPacking = { results: 10_000, bytes: 64 * 1024 };
const SINGLE: ResultPacking = { results: 1, bytes: 0 };
const PACKED_REQUEST: Result = {
  ...resultOf('p'),
  body: '[{"message_id":"p","predictions":[[1]]},{"message_id":"p","code":"INVALID_DATA","error":"no"}]',
};

/** The event that Lambda is given for these results, written by the real writer. */
async function eventOf(writes: readonly (readonly [ResultPacking, readonly Result[]])[]): Promise<SQSEvent> {
  const fifo = writes.some(([, results]) => results.some(({ messageGroupId }) => messageGroupId !== undefined));
  const queueUrl = fifo ? server.fifoQueue() : server.queue();
  for (const [packing, results] of writes) {
    await createQueueWriter({ sqs: server.client(), queueUrl, packing }).write(results, ALIVE);
  }
  return await receiveFrom(queueUrl);
}

async function receiveFrom(queueUrl: string): Promise<SQSEvent> {
  const queueArn = `arn:aws:sqs:us-east-1:000000000000:${queueUrl.slice(queueUrl.lastIndexOf('/') + 1)}`;
  const messages = await server.drain(queueUrl);
  return { Records: messages.map((message) => toSqsRecord(message, { queueArn, region: 'us-east-1' })) };
}

function s3Client(): S3 {
  return new S3({
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: s3Server.endpoint(),
    forcePathStyle: true,
  });
}

function recordIds({ Records }: SQSEvent): string[] {
  return Records.map(({ messageId }) => messageId);
}

/** A consumer that notes what it is given, and throws at the results of `failing`. */
function noting(failing: readonly string[] = [], options: ConsumeOptions = {}) {
  const seen: [SingleResult, Delivery][] = [];
  const failures: [string, string][] = [];
  const consume = async (result: SingleResult, delivery: Delivery): Promise<void> => {
    seen.push([result, delivery]);
    if (failing.includes(result.messageId)) throw new Error(`cannot take ${result.messageId}`);
  };
  const onFailure = (error: unknown, recordId: string) => void failures.push([String(error), recordId]);
  return { handler: consumeResults(consume, { onFailure, ...options }), seen, failures };
}

afterEach(() => {
  jest.restoreAllMocks();
});

describe('a function behind the result queue', () => {
  it('is given every answer once, typed, of single, packed and nested results', async () => {
    const outputs = [{ name: 'y', datatype: 'INT64', shape: [1], data: ['9007199254740993'] }];
    const typed = { ...resultOf('typed'), body: JSON.stringify({ message_id: 'typed', id: 'order-1', outputs }) };
    const event = await eventOf([
      [SINGLE, [resultOf('a'), PACKED_REQUEST]],
      [
        PACKED,
        [
          resultOf('b'),
          { ...PACKED_REQUEST, messageId: 'q', body: PACKED_REQUEST.body.replaceAll('"p"', '"q"') },
          typed,
        ],
      ],
    ]);
    const { handler, seen } = noting();

    expect(await handler(event)).toEqual({ batchItemFailures: [] });

    const given = seen.map(([{ messageId }, { position }]) => `${messageId}#${position}`);
    expect(given.toSorted()).toEqual(['a#0', 'b#0', 'p#0', 'p#1', 'q#0', 'q#1', 'typed#0']);
    const [answer] = seen.find(([{ messageId }]) => messageId === 'typed') ?? [];
    expect(answer).toMatchObject({ id: 'order-1', outputs: { y: { data: BigInt64Array.of(9007199254740993n) } } });
    expect(seen.find(([, { position }]) => position === 1)?.[0]).toMatchObject({ error: { code: 'INVALID_DATA' } });
  });

  it('knows how often a result came, in which message, and in which group', async () => {
    const event = await eventOf([[PACKED, [{ ...resultOf('a'), messageGroupId: 'orders' }]]]);
    const { handler, seen } = noting();
    await handler(event);
    expect(seen[0]?.[1]).toEqual({
      position: 0,
      receiveCount: 1,
      messageGroupId: 'orders',
      recordId: event.Records[0]?.messageId,
    });
  });

  it('hands back the message of a result that it throws at, and no other', async () => {
    const event = await eventOf([
      [PACKED, ['a', 'b', 'c'].map(resultOf)],
      [PACKED, ['d', 'e'].map(resultOf)],
      [SINGLE, [resultOf('f')]],
    ]);
    const { handler, seen, failures } = noting(['b', 'f']);

    const { batchItemFailures } = await handler(event);

    const [packed, , single] = recordIds(event);
    expect(batchItemFailures).toEqual([packed, single].map((itemIdentifier) => ({ itemIdentifier })));
    expect(seen.map(([{ messageId }]) => messageId).toSorted()).toEqual(['a', 'b', 'd', 'e', 'f']);
    expect(failures.toSorted()).toEqual([
      ['Error: cannot take b', packed],
      ['Error: cannot take f', single],
    ]);
  });

  it('says of each message behind it in its group that it goes back, and why', async () => {
    const inGroup = (id: string) => ({ ...resultOf(id), messageGroupId: 'orders' });
    const event = await eventOf([[SINGLE, ['a', 'b', 'c'].map(inGroup)]]);
    const { handler, failures } = noting(['a']);

    const { batchItemFailures } = await handler(event);

    const [first, ...behind] = recordIds(event);
    expect(batchItemFailures).toHaveLength(3);
    expect(failures).toEqual([
      ['Error: cannot take a', first],
      ...behind.map((id) => [expect.stringContaining(`behind ${first} of its message group`), id]),
    ]);
  });

  it.each([
    ['throws', () => assert.fail('no log')],
    ['rejects', () => Promise.reject(new Error('no log'))],
  ])('hands back no other message where onFailure %s', async (_, onFailure) => {
    const logged: unknown[] = [];
    jest.spyOn(console, 'error').mockImplementation((...values) => void logged.push(values.join(' ')));
    const event = await eventOf([[SINGLE, ['a', 'b', 'c'].map(resultOf)]]);
    const { handler } = noting(['b'], { onFailure });

    const { batchItemFailures } = await handler(event);

    expect(batchItemFailures).toHaveLength(1);
    expect(logged).toEqual([expect.stringContaining('cannot take b'), expect.stringContaining('no log')]);
  });

  it('logs one line for a message that is no result', async () => {
    const logged: unknown[][] = [];
    jest.spyOn(console, 'error').mockImplementation((...values) => void logged.push(values));
    const handler = consumeResults(() => {});
    expect((await handler({ Records: [sqsRecord('{"order":1}')] })).batchItemFailures).toHaveLength(1);
    expect(logged).toEqual([
      [
        expect.stringContaining('goes back to its queue:'),
        expect.stringMatching(/^expected the message attribute .*$/),
      ],
    ]);
  });

  it('reads what points to the payload bucket, and hands back what it cannot read there', async () => {
    const bucket = await s3Server.bucket();
    const payloads = createPayloads({ s3: s3Server.client(), bucket, maxBytes: 10_000_000 });
    const queueUrl = server.queue();
    const large = {
      ...resultOf('large'),
      body: JSON.stringify({ message_id: 'large', predictions: ['x'.repeat(2 ** 20)] }),
    };
    const writer = createQueueWriter({ sqs: server.client(), queueUrl, packing: PACKED, payloads });
    await writer.write([large], ALIVE);
    const event = await receiveFrom(queueUrl);
    const s3 = s3Client();

    const reading = noting([], { s3, payloadBucket: bucket });
    expect(await reading.handler(event)).toEqual({ batchItemFailures: [] });
    expect(reading.seen[0]?.[0]).toMatchObject({ predictions: ['x'.repeat(2 ** 20)] });
    s3.destroy();

    const blind = noting();
    expect((await blind.handler(event)).batchItemFailures).toHaveLength(1);
    expect([blind.seen, blind.failures[0]?.[0]]).toEqual([[], expect.stringContaining('set payloadBucket')]);
  });

  it('reads nothing of the payload bucket but results under its prefix', async () => {
    const bucket = await s3Server.bucket();
    const s3 = s3Client();
    const read = async (key: string) => {
      await s3Server.put(bucket, key, resultOf('a').body);
      const event = await eventOf([[SINGLE, [{ ...resultOf('a'), body: pointerBody({ bucket, key }) }]]]);
      const { handler, seen, failures } = noting([], { s3, payloadBucket: bucket, payloadPrefix: 'fraud/' });
      const { batchItemFailures } = await handler(event);
      return { seen: seen.length, handedBack: batchItemFailures.length, why: failures[0]?.[0] };
    };

    expect(await read('fraud/results/1')).toEqual({ seen: 1, handedBack: 0, why: undefined });
    for (const key of ['fraud/requests/1', 'fraud-2/results/1', 'results/1']) {
      const why = expect.stringContaining(`it lies at '${key}' in the payload bucket, and results lie under`);
      expect(await read(key)).toEqual({ seen: 0, handedBack: 1, why });
    }
    s3.destroy();
  });

  it.each([
    ['no message of results', sqsRecord('hello'), 'expected the message attribute messageId or results, got neither'],
    ['cut short', packedRecord('[{"message_id":"a"', '2'), 'expected a JSON array of 2 results, got 18 characters'],
    ['of another count', packedRecord('[{"message_id":"a","predictions":[]}]', '2'), 'expected 2 results, got 1'],
    ['no results', packedRecord('[{"message_id":"a"},{"message_id":"b"}]', '2'), 'got a JSON document of another form'],
  ])('hands back a message that is %s, and is given nothing of it', async (_, record, problem) => {
    const { handler, seen, failures } = noting();
    expect(await handler({ Records: [record] })).toEqual({ batchItemFailures: [{ itemIdentifier: record.messageId }] });
    expect([seen, failures]).toEqual([[], [[expect.stringContaining(problem), record.messageId]]]);
  });

  it('consumes as many messages at a time as it was told', async () => {
    const event = await eventOf([[SINGLE, ['a', 'b', 'c', 'd', 'e'].map(resultOf)]]);
    let atATime = 0;
    let max = 0;
    const handler = consumeResults(
      async () => {
        max = Math.max(max, ++atATime);
        await new Promise((resolve) => setImmediate(resolve));
        atATime -= 1;
      },
      { concurrency: 2 },
    );
    await handler(event);
    expect(max).toBe(2);
  });

  it('refuses options that are wrong', () => {
    expect(() => consumeResults(() => {}, { concurrency: 0 })).toThrow(
      'concurrency: expected a whole number from 1, got 0',
    );
    expect(() => consumeResults(() => {}, { payloadBucket: 'b' })).toThrow(
      'expected payloadBucket and s3, or neither, got payloadBucket alone; set s3 too',
    );
    expect(() => consumeResults(() => {}, { payloadPrefix: 'fraud' })).toThrow(
      "payloadPrefix: expected a path that ends in '/', of at most 512 letters, digits and . _ -, " +
        'with no part called requests or results, got "fraud"; take the deployment\'s',
    );
  });
});

describe('behind a FIFO result queue', () => {
  const inGroup = (messageId: string, messageGroupId: string): Result => ({ ...resultOf(messageId), messageGroupId });

  it('consumes a group in order, and after a failure nothing of it; other groups go on', async () => {
    const packing = { ...PACKED, results: 2 };
    const event = await eventOf([
      [packing, [inGroup('a1', 'a'), inGroup('a2', 'a')]],
      [packing, [inGroup('b1', 'b')]],
      [packing, [inGroup('a3', 'a'), inGroup('a4', 'a')]],
      [packing, [inGroup('a5', 'a')]],
      [packing, [inGroup('b2', 'b')]],
    ]);
    const { handler, seen } = noting(['a3']);

    const { batchItemFailures } = await handler(event);

    const given = (group: string) => seen.map(([{ messageId }]) => messageId).filter((id) => id.startsWith(group));
    expect([given('a'), given('b')]).toEqual([
      ['a1', 'a2', 'a3'],
      ['b1', 'b2'],
    ]);
    const failed = event.Records.filter(({ body }) => /"a[345]"/.test(body)).map(({ messageId }) => messageId);
    expect(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)).toEqual(failed);
  });
});

describe('the module for consumers', () => {
  it('needs no AWS SDK', async () => {
    const { metafile } = await build({
      entryPoints: [`${REPOSITORY}/client/consumer.ts`],
      bundle: true,
      write: false,
      metafile: true,
      platform: 'node',
      format: 'esm',
    });
    const packages = Object.keys(metafile.inputs).map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]);
    expect([...new Set(packages.filter((name) => name !== undefined))].toSorted()).toEqual([
      'p-limit',
      'yocto-queue',
      'zod',
    ]);
  });
});

function packedRecord(body: string, count: string) {
  const results = { stringValue: count, stringListValues: [], binaryListValues: [], dataType: 'Number' };
  return sqsRecord(body, { messageAttributes: { results } });
}
