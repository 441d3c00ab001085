import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createBucketWriter } from '../../../lambda/aws/resultBucket.ts';
import { createQueueWriter } from '../../../lambda/aws/resultQueue.ts';
import { createTableWriter } from '../../../lambda/aws/resultTable.ts';
import type { RetryOptions } from '../../../lambda/aws/sendBatches.ts';
import { createSqsCaller, HOST_PATIENCE, type Patience } from '../../../lambda/aws/sqsWire.ts';
import { writeToEvery } from '../../../lambda/aws/storeEntries.ts';
import type { Result, ResultWriter, WriteStatus } from '../../../lambda/core/record.ts';
import { useDynamoDbServer, useS3Server, useSqsServer } from '../../helpers/awsServers.ts';
import {
  answersJson,
  type Exchange,
  type FrontServer,
  giveAnswer,
  hangsUp,
  meter,
  neverAnswers,
  refusesXml,
  type Step,
} from '../../helpers/frontServer.ts';

const NEVER = new AbortController().signal;
const WRITTEN = { written: true };
const AT_ONCE: RetryOptions = { random: () => 0 };
/** A pause that no test waits for: it would run into jest's time limit. */
const IN_AN_HOUR: RetryOptions = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };
/** Enough for what is answered, on a busy machine too. */
const IMPATIENT: Patience = { connectMs: 1_500, answerMs: 1_500 };
const BUSY = { code: 'WRITE_FAILED', outage: { kind: 'busy' } };
const REFUSED = { code: 'WRITE_FAILED', outage: { kind: 'refused' } };

interface Options {
  readonly retry?: RetryOptions;
  readonly patience?: Patience;
}

/** A writer to a store of its own, behind what answers requests in the store's place. */
interface Opened {
  readonly writer: ResultWriter;
  readonly front: FrontServer;
  /** The bodies of each message ID, in the order of their coming. */
  stored(): Promise<Map<string, string[]>>;
}

interface Store {
  /** In messages. */
  readonly name: string;
  /** Most results in a call. */
  readonly callHolds: number;
  open(options: Options, ...steps: readonly (Step | undefined)[]): Promise<Opened>;
  /** The message IDs of a call. */
  idsOf(exchange: Exchange): string[];
  /** Takes a call without these results, or refuses it for now where it is all or nothing. */
  leaving(...ids: readonly string[]): Step;
  /** What each call that is refused for now is answered with. */
  readonly busy: Readonly<Record<string, Step>>;
  /** Answers that trying again changes nothing about. */
  readonly refused: Readonly<Record<string, Step>>;
}

function result(messageId: string, body = JSON.stringify({ message_id: messageId })): Result {
  return { messageId, body, messageGroupId: undefined };
}

/** Results `m0`, `m1`, … */
function results(count: number): Result[] {
  return Array.from({ length: count }, (_, index) => result(`m${index}`));
}

function isWritten(status: WriteStatus | undefined): boolean {
  return status !== undefined && 'written' in status;
}

function byId(stored: Iterable<readonly [string, string]>): Map<string, string[]> {
  const bodies = new Map<string, string[]>();
  for (const [id, body] of stored) bodies.set(id, [...(bodies.get(id) ?? []), body]);
  return bodies;
}

const sqsServer = useSqsServer();
const dynamodbServer = useDynamoDbServer();
const s3Server = useS3Server();

interface SentEntry {
  readonly Id: string;
  readonly MessageAttributes: { readonly messageId: { readonly StringValue: string } };
}

const queueIdOf = ({ MessageAttributes }: SentEntry): string => MessageAttributes.messageId.StringValue;
const sqsError = (status: number, name: string): Step =>
  answersJson(status, { __type: `com.amazonaws.sqs#${name}`, message: `${name} it is` });

const QUEUE: Store = {
  name: 'result queue',
  callHolds: 10,
  async open({ retry = AT_ONCE, patience = HOST_PATIENCE }, ...steps) {
    const front = await sqsServer.front(...steps);
    const queueUrl = sqsServer.queue();
    const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
    const sqs = createSqsCaller(patience, { endpoint: front.endpoint, region: 'us-east-1', credentials });
    const writer = createQueueWriter({ sqs, queueUrl, retry });
    const stored = async () => {
      const messages = await sqsServer.drain(queueUrl);
      return byId(
        messages.map(({ Body = '', MessageAttributes }) => [MessageAttributes?.messageId?.StringValue ?? '', Body]),
      );
    };
    return { writer, front, stored };
  },
  idsOf: ({ body }) => (JSON.parse(body).Entries as SentEntry[]).map(queueIdOf),
  leaving:
    (...ids) =>
    async (exchange) => {
      const { Entries, ...rest }: { Entries: SentEntry[] } = JSON.parse(exchange.body);
      const [left, taken] = [true, false].map((is) => Entries.filter((entry) => ids.includes(queueIdOf(entry)) === is));
      const body = JSON.stringify({ ...rest, Entries: taken });
      const { Successful = [] } = taken?.length ? JSON.parse(String((await exchange.reach(body)).body)) : {};
      // A failure is named, or the entry is not mentioned at all.
      const Failed = left?.slice(1).map(({ Id }) => ({ Id, Code: 'InternalError', SenderFault: false }));
      answersJson(200, { Successful, Failed })(exchange);
    },
  busy: {
    RequestThrottled: sqsError(400, 'RequestThrottled'),
    KmsThrottled: sqsError(400, 'KmsThrottled'),
    InternalFailure: sqsError(500, 'InternalFailure'),
    'a page of a proxy': ({ response }) => void response.writeHead(200).end('<html>'),
  },
  refused: { AccessDenied: sqsError(403, 'AccessDenied'), QueueDoesNotExist: sqsError(400, 'QueueDoesNotExist') },
};

type Puts = readonly { readonly PutRequest: { readonly Item: { readonly messageId: { readonly S: string } } } }[];

function putsOf({ body }: Exchange): { readonly table: string; readonly puts: Puts } {
  const [[table = '', puts] = ['', []]]: [string, Puts][] = Object.entries(JSON.parse(body).RequestItems);
  return { table, puts };
}

const tableIdOf = ({ PutRequest }: Puts[number]): string => PutRequest.Item.messageId.S;
const dynamodbError = (status: number, name: string): Step =>
  answersJson(status, { __type: `com.amazonaws.dynamodb.v20120810#${name}`, message: `${name} it is` });

const TABLE: Store = {
  name: 'result table',
  callHolds: 25,
  async open({ retry = AT_ONCE, patience }, ...steps) {
    const front = await dynamodbServer.front(...steps);
    const tableName = await dynamodbServer.table();
    const dynamodb = dynamodbServer.client(front, patience);
    const writer = createTableWriter({ dynamodb, tableName, ttlSeconds: 60, retry });
    const stored = async () => {
      const items = Object.entries(await dynamodbServer.items(tableName));
      return byId(items.map(([id, { body }]) => [id, body?.S ?? '']));
    };
    return { writer, front, stored };
  },
  idsOf: (exchange) => putsOf(exchange).puts.map(tableIdOf),
  leaving:
    (...ids) =>
    async (exchange) => {
      const { table, puts } = putsOf(exchange);
      const left = puts.filter((put) => ids.includes(tableIdOf(put)));
      const taken = puts.filter((put) => !left.includes(put));
      if (taken.length > 0) await exchange.reach(JSON.stringify({ RequestItems: { [table]: taken } }));
      answersJson(200, { UnprocessedItems: left.length > 0 ? { [table]: left } : {} })(exchange);
    },
  busy: {
    ProvisionedThroughputExceededException: dynamodbError(400, 'ProvisionedThroughputExceededException'),
    ThrottlingException: dynamodbError(400, 'ThrottlingException'),
    RequestLimitExceeded: dynamodbError(400, 'RequestLimitExceeded'),
    InternalServerError: dynamodbError(500, 'InternalServerError'),
  },
  refused: {
    AccessDeniedException: dynamodbError(400, 'AccessDeniedException'),
    ResourceNotFoundException: dynamodbError(400, 'ResourceNotFoundException'),
  },
};

const BUCKET: Store = {
  name: 'result bucket',
  callHolds: Number.POSITIVE_INFINITY,
  async open({ retry = AT_ONCE, patience }, ...steps) {
    const front = await s3Server.front(...steps);
    const bucket = await s3Server.bucket();
    let writes = 0;
    const newId = () => `0${String(writes++).padStart(6, '0')}`;
    const s3 = s3Server.client(front, patience);
    const writer = createBucketWriter({ s3, bucket, retry, now: () => Date.parse('2026-11-21T04:05:06Z'), newId });
    const stored = async () => {
      const texts = await Promise.all((await s3Server.keys(bucket)).map((key) => s3Server.text(bucket, key)));
      const lines = texts.flatMap((text) => text.trimEnd().split('\n'));
      return byId(lines.map((line) => [JSON.parse(line).message_id, line]));
    };
    return { writer, front, stored };
  },
  idsOf: ({ body }) => [...body.matchAll(/"message_id":"(.*?)"/g)].map(([, id = '']) => id),
  leaving: () => refusesXml(503, 'SlowDown'),
  busy: {
    SlowDown: refusesXml(503, 'SlowDown'),
    InternalError: refusesXml(500, 'InternalError'),
    RequestTimeout: refusesXml(400, 'RequestTimeout'),
  },
  refused: { AccessDenied: refusesXml(403, 'AccessDenied'), NoSuchBucket: refusesXml(404, 'NoSuchBucket') },
};

/** A queue and the two others: what goes wrong does so at the queue, and a result is stored where all three have it. */
const EVERY: Store = {
  ...QUEUE,
  async open(options, ...steps) {
    const stores = [await QUEUE.open(options, ...steps), await TABLE.open({}), await BUCKET.open({})] as const;
    const [{ front }] = stores;
    const stored = async () => {
      const [first, ...others] = await Promise.all(stores.map((store) => store.stored()));
      return new Map([...(first ?? [])].filter(([id]) => others.every((other) => other.has(id))));
    };
    return { writer: writeToEvery(stores.map(({ writer }) => writer)), front, stored };
  },
};

describe.each([
  ['the queue writer', QUEUE],
  ['the table writer', TABLE],
  ['the bucket writer', BUCKET],
  ['a writer to every store', EVERY],
] as const)('%s', (_, store) => {
  const { name, callHolds, open, idsOf, leaving } = store;
  const isWhole = callHolds === Number.POSITIVE_INFINITY;
  /** Two results more than one call holds, or some. */
  const MANY = isWhole ? 30 : callHolds + 2;

  it('stores every result as it is, in as few calls as hold them, and says so', async () => {
    const { writer, front, stored } = await open({});
    const given = results(MANY).toReversed();

    expect(await writer.write(given, NEVER)).toEqual(given.map(() => WRITTEN));

    expect(front.requests.map((request) => idsOf(request).length).toSorted((a, b) => a - b)).toEqual(
      isWhole ? [MANY] : [2, callHolds],
    );
    expect(await stored()).toEqual(new Map(given.map(({ messageId, body }) => [messageId, [body]])));
  });

  it('sends nothing for nothing', async () => {
    const { writer, front } = await open({});

    expect(await writer.write([], NEVER)).toEqual([]);
    expect(front.requests).toEqual([]);
  });

  it('stores what a redelivery brings again', async () => {
    const { writer, stored } = await open({});
    const later = '{"message_id":"m0","again":true}';

    await writer.write([result('m0')], NEVER);
    expect(await writer.write([result('m0', later)], NEVER)).toEqual([WRITTEN]);

    expect((await stored()).get('m0')?.at(-1)).toBe(later);
  });

  it('sends again what was left undone, it alone, and no call waits for another', async () => {
    const steps = [leaving('m0', 'm1'), leaving('m0', 'm1')];
    const { writer, front, stored } = await open({}, ...steps);

    const statuses = await writer.write(results(MANY), NEVER);

    expect(statuses).toEqual(results(MANY).map(() => WRITTEN));
    const calls = front.requests.map(idsOf);
    const again = calls.filter((ids) => ids.every((id) => ['m0', 'm1'].includes(id)));
    expect(isWhole ? calls : again).toHaveLength(isWhole ? 3 : 1);
    expect([...(await stored()).keys()].toSorted()).toEqual(
      results(MANY)
        .map(({ messageId }) => messageId)
        .toSorted(),
    );
  });

  it('fails in the end what is never taken, and it alone, as what a busy store did', async () => {
    const { writer, stored } = await open({ retry: { ...AT_ONCE, attempts: 3 } }, ...Array(3).fill(leaving('m1')));

    const statuses = await writer.write(results(3), NEVER);

    expect(statuses[1]).toMatchObject({ ...BUSY, message: expect.stringMatching(`^${name}: `) });
    expect(statuses.map(isWritten)).toEqual(isWhole ? [false, false, false] : [true, false, true]);
    expect([...(await stored()).keys()].toSorted()).toEqual(isWhole ? [] : ['m0', 'm2']);
  });

  it.each(Object.entries({ ...store.busy, 'a broken connection': hangsUp }))(
    'makes a call again that met %s',
    async (_, step) => {
      const { writer, front, stored } = await open({}, step, step);

      expect(await writer.write(results(2), NEVER)).toEqual([WRITTEN, WRITTEN]);

      expect(front.requests).toHaveLength(3);
      expect((await stored()).size).toBe(2);
    },
  );

  it.each(Object.entries(store.refused))('does not make a call again that met %s', async (error, step) => {
    const { writer, front, stored } = await open({ retry: IN_AN_HOUR }, step);

    const statuses = await writer.write(results(MANY), NEVER);

    const failed = statuses.filter((status) => !isWritten(status));
    const message = expect.stringMatching(`^${name}: ${error}: ${error} it is`);
    expect(failed).toEqual(
      failed.map(() => expect.objectContaining({ ...REFUSED, outage: { of: name, kind: 'refused' }, message })),
    );
    expect(front.requests).toHaveLength(isWhole ? 1 : 2);
    expect((await stored()).size).toBe(MANY - failed.length);
  });

  it('makes a call again that is not answered, and holds up no other', async () => {
    let silent = true;
    const step: Step = async (exchange) => {
      if (!idsOf(exchange).includes('m0') || !silent) return giveAnswer(exchange);
      silent = false;
      return neverAnswers(exchange);
    };
    const { writer, front } = await open({ patience: IMPATIENT }, ...Array<Step>(9).fill(step));

    expect(await writer.write(results(MANY), NEVER)).toEqual(results(MANY).map(() => WRITTEN));

    expect(front.requests).toHaveLength(isWhole ? 2 : 3);
  });

  it('says what it knows when the time is up: what was answered by then is written', async () => {
    const aborting = new AbortController();
    const step: Step = async (exchange) => {
      if (!idsOf(exchange).includes('m0')) return giveAnswer(exchange);
      if (isWhole) aborting.abort();
      return neverAnswers(exchange);
    };
    const { writer, front } = await open({ retry: IN_AN_HOUR }, ...Array<Step>(9).fill(step));
    const writing = writer.write(results(MANY), aborting.signal);
    if (!isWhole) {
      while (front.requests.filter(({ response }) => response.writableFinished).length === 0) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      // The answer is on its way to a client in this process.
      for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
      aborting.abort();
    }

    const statuses = await writing;

    const message = `${name}: expected an answer before the deadline, got none`;
    expect(statuses[0]).toMatchObject({ ...BUSY, message });
    expect(statuses.filter(isWritten)).toHaveLength(isWhole ? 0 : MANY - callHolds);
  });

  it('stops waiting for the next attempt when the time is up, and says what the last one met', async () => {
    const aborting = new AbortController();
    const random = () => {
      setImmediate(() => aborting.abort());
      return 1;
    };
    const [[error = '', step] = []] = Object.entries(store.busy);
    const { writer, front } = await open({ retry: { ...IN_AN_HOUR, random } }, step);

    const statuses = await writer.write(results(1), aborting.signal);

    expect(statuses).toMatchObject([{ ...BUSY, message: expect.stringMatching(`^${name}: ${error}`) }]);
    expect(front.requests).toHaveLength(1);
  });

  it('claims nothing and sends nothing when the time was up before', async () => {
    const { writer, front } = await open({});

    expect((await writer.write(results(2), AbortSignal.abort())).map(isWritten)).toEqual([false, false]);
    expect(front.requests).toEqual([]);
  });

  it('never says that a result is written that is not in the store, whatever calls meet', async () => {
    const faults: readonly Step[] = [
      giveAnswer,
      giveAnswer,
      leaving('m0', 'm3'),
      leaving('m1'),
      hangsUp,
      ...Object.values(store.busy),
      ...Object.values(store.refused),
    ];
    const script = fc.array(fc.constantFrom(...faults), { maxLength: 8 });
    const order = fc.shuffledSubarray(results(MANY), { minLength: 1 });
    await fc.assert(
      fc.asyncProperty(order, script, fc.integer({ min: 1, max: 3 }), async (given, steps, attempts) => {
        const { writer, stored } = await open({ retry: { ...AT_ONCE, attempts } }, ...steps);

        const statuses = await writer.write(given, NEVER);

        expect(statuses).toHaveLength(given.length);
        const there = await stored();
        for (const [index, { messageId, body }] of given.entries()) {
          if (isWritten(statuses[index])) expect(there.get(messageId)).toContain(body);
          else expect(statuses[index]).toMatchObject({ failed: true, code: 'WRITE_FAILED' });
        }
      }),
      { numRuns: 25 },
    );
  }, 60_000);
});

it.each([
  ['queue', QUEUE],
  ['table', TABLE],
] as const)('sixteen calls to the %s are under way at once, those of all writes together', async (_, store) => {
  const { step, max } = meter(16);
  const { writer } = await store.open({}, ...Array<Step>(40).fill(step));
  const given = results(20 * store.callHolds);

  await Promise.all([writer.write(given, NEVER), writer.write(given, NEVER)]);

  expect(max()).toBe(16);
});

describe('a result that one of several stores can never hold', () => {
  it.each([
    ['409,600 bytes, as DynamoDB counts an item', 409_600, [QUEUE, TABLE]],
    ['409,600 bytes, be the bucket the other store', 409_600, [BUCKET, TABLE]],
    ['1 MiB, as SQS counts a message', 1_048_576, [BUCKET, QUEUE]],
  ])('is in none of them: beyond %s', async (_, bytes, kinds) => {
    const stores = await Promise.all(kinds.map((kind) => kind.open({})));
    const large = result('large', JSON.stringify({ message_id: 'large', x: 'x'.repeat(bytes) }));

    const statuses = await writeToEvery(stores.map(({ writer }) => writer)).write([large, result('a')], NEVER);

    expect(statuses).toMatchObject([{ code: 'RESULT_TOO_LARGE' }, WRITTEN]);
    const stored = await Promise.all(stores.map((store) => store.stored()));
    expect(stored.map((bodies) => [...bodies.keys()])).toEqual([['a'], ['a']]);
  });
});
