import { hash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import {
  type AttributeValue,
  CreateTableCommand,
  type DynamoDBClient,
  ScanCommand,
  waitUntilTableExists,
} from '@aws-sdk/client-dynamodb';
import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import {
  type ChangeMessageVisibilityBatchRequest,
  type ChangeMessageVisibilityBatchResult,
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  type ReceiveMessageRequest,
  type ReceiveMessageResult,
  type SendMessageBatchCommandOutput,
  type SendMessageBatchRequest,
  type SendMessageBatchRequestEntry,
  type SendMessageBatchResult,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { afterAll, beforeAll } from '@jest/globals';
import dynalite from 'dynalite';
import { buildApp, startFauxqs } from 'fauxqs';
import { createDynamoDbClient, createS3Client } from '../../lambda/aws/awsClients.ts';
import {
  digestOf,
  type FetchModelsOptions,
  fetchModels,
  fileKey,
  manifestKey,
  PART_BYTES,
  partsOf,
  writeManifest,
} from '../../lambda/aws/fetchModels.ts';
import { createSqsClient, HOST_PATIENCE, type Patience } from '../../lambda/aws/sqsWire.ts';
import { type FrontServer, type Step, startFront } from './frontServer.ts';
import { afterThisTest } from './openModels.ts';
import { nameOf } from './strictSqs.ts';

const ANYONE = { region: 'us-east-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' } };

export interface SqsServer {
  /** A client of the server, or of another one; it is closed after the test. */
  client(other?: { readonly endpoint: string }, patience?: Patience): SQSClient;
  /** What answers requests in the server's place, one step after the other; stopped after the test. */
  front(...steps: readonly (Step | undefined)[]): Promise<FrontServer>;
  /** An empty queue of its own for the test that asks. @returns its URL */
  queue(attributes?: Record<string, string>): string;
  fifoQueue(attributes?: Readonly<Record<string, string>>): string;
  /** Puts messages on a queue, in order. @param groupOf the message group of each, on a FIFO queue */
  send(queueUrl: string, bodies: readonly string[], groupOf?: (index: number) => string): void;
  /** Receives once, at most ten messages, waits for the first as long as it is told, and leaves them in flight. */
  receive(queueUrl: string, timing?: { visibilitySeconds?: number; waitSeconds?: number }): Promise<Message[]>;
  /** Receives and deletes until the queue is empty; waits for a first message as long as it is told. */
  drain(queueUrl: string, timing?: { waitSeconds?: number }): Promise<Message[]>;
  /** How many messages nobody else can receive now, and how many are to be received. */
  counts(queueUrl: string): { readonly inFlight: number; readonly ready: number };
  /** Whole seconds until each message in flight comes back, by its body. */
  secondsInFlight(queueUrl: string): Record<string, number>;
  /** Seconds that each message was last hidden for, by its body, as clients of this server asked and SQS took: no clock is in it. */
  hiddenFor(queueUrl: string): Record<string, number>;
  deleteQueue(queueUrl: string): void;
}

/** What holds the queues of a `SqsServer`, and is called on 127.0.0.1. */
interface SqsEngine extends Pick<SqsServer, 'counts' | 'secondsInFlight' | 'deleteQueue'> {
  readonly endpoint: string;
  createQueue(name: string, attributes: Record<string, string>): void;
  /** @param group where the queue is a FIFO queue */
  sendMessage(queueName: string, body: string, group?: string): void;
  stop(): Promise<void>;
}

/**
 * A real SQS server in this process for the tests of a file, started before the first and stopped after the last.
 *
 * @param start fauxqs, unless a test needs what only `strictSqs.ts` does
 * @example const server = useSqsServer();
 *   const url = server.queue(); // within a test
 *   server.send(url, ['body']);
 *   expect(await server.drain(url)).toMatchObject([{ Body: 'body' }]);
 */
export function useSqsServer(start: () => Promise<SqsEngine> = startFauxqsEngine): SqsServer {
  let running: SqsEngine | undefined;
  let queues = 0;
  const server = (): SqsEngine => {
    if (running === undefined) throw new Error('the SQS server runs while tests do, not while they are defined');
    return running;
  };
  const endpoint = () => server().endpoint;

  beforeAll(async () => {
    running = await start();
  });
  afterAll(() => running?.stop());

  const create = (suffix: string, attributes: Record<string, string>): string => {
    const name = `queue-${queues++}${suffix}`;
    server().createQueue(name, attributes);
    return `${endpoint()}/000000000000/${name}`;
  };
  const bodies = new Map<string, string>();
  const hidden = new Map<string, Map<string, number>>();
  const hide = (queueUrl = '', receiptHandle = '', seconds = 0): void => {
    const ofQueue = hidden.get(queueUrl) ?? new Map<string, number>();
    hidden.set(queueUrl, ofQueue.set(bodies.get(receiptHandle) ?? '', seconds));
  };
  const noteHidden = (sqs: SQSClient): void => {
    sqs.middlewareStack.add(
      (next, { commandName }) =>
        async (args) => {
          const answer = await next(args);
          if (commandName === 'ReceiveMessageCommand') {
            const { QueueUrl, VisibilityTimeout } = args.input as ReceiveMessageRequest;
            for (const { ReceiptHandle = '', Body = '' } of (answer.output as ReceiveMessageResult).Messages ?? []) {
              bodies.set(ReceiptHandle, Body);
              hide(QueueUrl, ReceiptHandle, VisibilityTimeout);
            }
          }
          if (commandName === 'ChangeMessageVisibilityBatchCommand') {
            const { QueueUrl, Entries = [] } = args.input as ChangeMessageVisibilityBatchRequest;
            const { Successful = [] } = answer.output as ChangeMessageVisibilityBatchResult;
            for (const { Id, ReceiptHandle, VisibilityTimeout } of Entries) {
              if (Successful.some((taken) => taken.Id === Id)) hide(QueueUrl, ReceiptHandle, VisibilityTimeout);
            }
          }
          return answer;
        },
      { step: 'initialize', name: 'noteHidden' },
    );
  };
  const client: SqsServer['client'] = (other, patience = HOST_PATIENCE) => {
    const where = { ...ANYONE, endpoint: other?.endpoint ?? endpoint() };
    const sqs = createSqsClient(patience, { ...where, useQueueUrlAsEndpoint: false });
    noteHidden(sqs);
    afterThisTest(async () => sqs.destroy());
    return sqs;
  };
  const receive: SqsServer['receive'] = async (QueueUrl, { visibilitySeconds = 30, waitSeconds = 0 } = {}) => {
    const { Messages = [] } = await client().send(
      new ReceiveMessageCommand({
        QueueUrl,
        MaxNumberOfMessages: 10,
        MessageAttributeNames: ['All'],
        MessageSystemAttributeNames: ['All'],
        VisibilityTimeout: visibilitySeconds,
        WaitTimeSeconds: waitSeconds,
      }),
    );
    return Messages;
  };
  return {
    client,
    async front(...steps) {
      const front = await startFront(endpoint(), steps);
      afterThisTest(front.stop);
      return front;
    },
    queue: (attributes = {}) => create('', attributes),
    fifoQueue: (attributes = {}) => create('.fifo', { FifoQueue: 'true', ...attributes }),
    send: (queueUrl, bodies, groupOf) => {
      for (const [index, body] of bodies.entries()) server().sendMessage(nameOf(queueUrl), body, groupOf?.(index));
    },
    receive,
    drain: async (QueueUrl, timing) => {
      const drained: Message[] = [];
      for (let some = await receive(QueueUrl, timing); some.length > 0; some = await receive(QueueUrl)) {
        const Entries = some.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }));
        await client().send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
        drained.push(...some);
      }
      return drained;
    },
    counts: (queueUrl) => server().counts(nameOf(queueUrl)),
    secondsInFlight: (queueUrl) => server().secondsInFlight(nameOf(queueUrl)),
    hiddenFor: (queueUrl) => Object.fromEntries(hidden.get(queueUrl) ?? []),
    deleteQueue: (queueUrl) => server().deleteQueue(nameOf(queueUrl)),
  };
}

async function startFauxqsEngine(): Promise<SqsEngine> {
  const server = await startFauxqs({ port: 0, logger: false });
  let sent = 0;
  return {
    endpoint: `http://127.0.0.1:${server.port}`,
    createQueue: (name, attributes) => void server.createQueue(name, { attributes }),
    deleteQueue: (name) => server.deleteQueue(name),
    sendMessage(name, body, group) {
      const fifo = { messageGroupId: group ?? '', messageDeduplicationId: `${name} ${sent++}` };
      server.sendMessage(name, body, group === undefined ? {} : fifo);
    },
    counts(name) {
      const { inflight = [], ready = [] } = server.inspectQueue(name)?.messages ?? {};
      return { inFlight: inflight.length, ready: ready.length };
    },
    secondsInFlight(name) {
      const inFlight = server.inspectQueue(name)?.messages.inflight ?? [];
      return Object.fromEntries(
        inFlight.map(({ message, visibilityDeadline }) => [
          message.body,
          Math.ceil((visibilityDeadline - Date.now()) / 1000),
        ]),
      );
    },
    stop: () => server.stop(),
  };
}

/** The answer to a batch send; real ones always hold both lists. */
export type SendAnswer = Partial<SendMessageBatchResult>;

/** Sends the call to the server and gives the server's answer. */
export type Reach = () => Promise<SendMessageBatchResult>;

/**
 * Stands between a client's batch sends and the server: sees the entries of every call, and may rewrite the answer,
 * throw in its place, or hold it.
 */
export function interceptSends(
  sqs: SQSClient,
  between: (entries: readonly SendMessageBatchRequestEntry[], reach: Reach) => Promise<SendAnswer>,
): void {
  sqs.middlewareStack.add(
    (next) => async (args) => {
      const { Entries = [] } = args.input as SendMessageBatchRequest;
      let response: unknown;
      const answer = await between(Entries, async () => {
        const reply = await next(args);
        response = reply.response;
        return reply.output as SendMessageBatchCommandOutput;
      });
      return { response, output: { $metadata: {}, ...answer } as SendMessageBatchCommandOutput };
    },
    { step: 'initialize', name: 'betweenClientAndServer' },
  );
}

/** An error as the SDK throws it for an answer of SQS. */
export function sqsError(name: string, fault: 'client' | 'server'): Error {
  return Object.assign(new Error(`${name} from SQS`), { name, $fault: fault, $metadata: {} });
}

type S3Server = ReturnType<typeof useS3Server>;

/** A real S3 server in this process for the tests of a file, started before the first and stopped after the last. */
export function useS3Server() {
  const app = buildApp({ logger: false });
  let endpoint = '';
  let buckets = 0;

  beforeAll(async () => {
    endpoint = await app.listen({ port: 0, host: '127.0.0.1' });
  });
  afterAll(async () => {
    await app.close();
  });

  /** A client of the server, or of what is in front of it; it is closed after the test. */
  const client = (other?: { readonly endpoint: string }, patience: Patience = HOST_PATIENCE): S3Client => {
    const where = { ...ANYONE, endpoint: other?.endpoint ?? endpoint };
    const s3 = createS3Client(patience, { ...where, forcePathStyle: true });
    afterThisTest(async () => s3.destroy());
    return s3;
  };
  return {
    client,
    endpoint: () => endpoint,
    /** What answers requests in the server's place, one step after the other; stopped after the test. */
    async front(...steps: readonly (Step | undefined)[]): Promise<FrontServer> {
      const front = await startFront(endpoint, steps);
      afterThisTest(front.stop);
      return front;
    },
    /** An empty bucket of its own for the test that asks, with a name of its own unless one is given. @returns its name */
    async bucket(Bucket = `bucket-${buckets++}`) {
      await client().send(new CreateBucketCommand({ Bucket }));
      return Bucket;
    },
    async put(Bucket: string, Key: string, Body: string | Uint8Array): Promise<void> {
      await client().send(new PutObjectCommand({ Bucket, Key, Body, ContentLength: Buffer.byteLength(Body) }));
    },
    /** The keys of a bucket's objects, in order. */
    async keys(Bucket: string): Promise<string[]> {
      const { Contents = [] } = await client().send(new ListObjectsV2Command({ Bucket }));
      return Contents.map(({ Key }) => Key ?? '');
    },
    async text(Bucket: string, Key: string): Promise<string> {
      const { Body } = await client().send(new GetObjectCommand({ Bucket, Key }));
      return (await Body?.transformToString()) ?? '';
    },
  };
}

type Item = Readonly<Record<string, AttributeValue>>;

/** A DynamoDB server in this process for the tests of a file, started before the first and stopped after the last. */
export function useDynamoDbServer() {
  const server = dynalite({ createTableMs: 0 });
  let endpoint = '';
  let tables = 0;

  beforeAll(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('expected a TCP address');
    endpoint = `http://127.0.0.1:${address.port}`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  const client = (other?: { readonly endpoint: string }, patience: Patience = HOST_PATIENCE): DynamoDBClient => {
    const dynamodb = createDynamoDbClient(patience, { ...ANYONE, endpoint: other?.endpoint ?? endpoint });
    afterThisTest(async () => dynamodb.destroy());
    return dynamodb;
  };
  return {
    client,
    endpoint: () => endpoint,
    async front(...steps: readonly (Step | undefined)[]): Promise<FrontServer> {
      const front = await startFront(endpoint, steps);
      afterThisTest(front.stop);
      return front;
    },
    /** An empty table of its own, of the partition key `messageId`, for the test that asks. @returns its name */
    async table(): Promise<string> {
      const TableName = `table-${tables++}`;
      await client().send(
        new CreateTableCommand({
          TableName,
          AttributeDefinitions: [{ AttributeName: 'messageId', AttributeType: 'S' }],
          KeySchema: [{ AttributeName: 'messageId', KeyType: 'HASH' }],
          BillingMode: 'PAY_PER_REQUEST',
        }),
      );
      await waitUntilTableExists({ client: client(), maxWaitTime: 5, minDelay: 0.01, maxDelay: 0.1 }, { TableName });
      return TableName;
    },
    /** The items of a table by their message ID. */
    async items(TableName: string): Promise<Record<string, Item>> {
      const items: Record<string, Item> = {};
      let ExclusiveStartKey: Item | undefined;
      do {
        const page = await client().send(new ScanCommand({ TableName, ExclusiveStartKey }));
        for (const item of page.Items ?? []) items[item.messageId?.S ?? ''] = item;
        ExclusiveStartKey = page.LastEvaluatedKey;
      } while (ExclusiveStartKey !== undefined);
      return items;
    },
  };
}

type Files = Readonly<Record<string, Uint8Array>>;

/** Bytes of which no two parts are alike, and no part is a whole one. */
export function someBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let index = 0; index < length; index++) bytes[index] = (index * 2_654_435_761) >>> 24;
  return bytes;
}

/** Two parts, of which the last is short: the local server takes no more than 10 MiB at once. */
export const LARGE = someBytes(PART_BYTES + 1234);

/**
 * A model repository in a bucket of its own, with the manifest that describes it, or with another text in its place.
 *
 * @returns where it lies; its folder is the prefix and the digest
 */
export async function publish(server: S3Server, files: Files, manifest = manifestOf(files)) {
  const bucket = await server.bucket();
  const digest = digestOf(manifest);
  const folder = `team/models/${digest}`;
  for (const [path, bytes] of Object.entries(files)) await server.put(bucket, fileKey(folder, path), bytes);
  await server.put(bucket, manifestKey(folder), manifest);
  return { bucket, folder, digest, uri: `s3://${bucket}/${folder}` };
}

export function manifestOf(files: Files): string {
  const described = Object.entries(files).map(([path, bytes]) => ({
    path,
    bytes: bytes.length,
    parts: partsOf(bytes.length).map(({ start, end }) => hash('sha256', bytes.subarray(start, end))),
  }));
  return writeManifest(described);
}

interface FetchingOptions {
  readonly patience?: Patience;
  /** What answers the n-th request in the server's place. */
  readonly steps?: readonly (Step | undefined)[];
  /** Where repositories are fetched to. @default an empty one */
  readonly directory?: string;
}

/** Fetches through a server in front, which is gone after the test. */
export async function fetching(server: S3Server, { patience, steps = [], directory }: FetchingOptions = {}) {
  const into = directory ?? (await emptyFolder());
  const front = await server.front(...steps);
  const s3 = server.client(front, patience);
  return {
    directory: into,
    /** The paths of the requests so far, without the query, and the ranges that they asked for. */
    requests: () =>
      front.requests.map(({ path, headers }) => ({ path: path.split('?')[0] ?? '', range: headers.range })),
    fetch: (uri: string, options: Partial<FetchModelsOptions> = {}) =>
      fetchModels({ s3, uri, directory: into, retry: { random: () => 0 }, ...options }),
  };
}

/** A folder that only this user can write to; it is gone after the test. */
export async function emptyFolder(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'batchscore-fetched-'));
  afterThisTest(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** Waits until a start has noted `count` parts as fetched. */
export async function untilPartsAre(directory: string, count: number): Promise<void> {
  for (let noted = 0; noted < count; ) {
    const paths = await readdir(directory, { recursive: true }).catch((): string[] => []);
    const notes = paths.find((path) => path.endsWith('/notes'));
    const text = notes === undefined ? '' : await readFile(join(directory, notes), 'utf8').catch(() => '');
    noted = text.split('\n').length - 1;
  }
}

/** What lies in a folder, by path. */
export async function filesIn(folder: string): Promise<Record<string, Uint8Array>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const read = paths.map(async (path) => [relative(folder, path), new Uint8Array(await readFile(path))] as const);
  return Object.fromEntries(await Promise.all(read));
}

/** What stands for a file's content, where the content itself would fill the screen. */
export function digests(files: Files): Record<string, string> {
  return Object.fromEntries(
    Object.entries(files).map(([path, bytes]) => [path, `${bytes.length} ${hash('sha256', bytes)}`]),
  );
}
