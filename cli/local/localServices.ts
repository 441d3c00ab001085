import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CreateTableCommand, waitUntilTableExists } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand, type S3Client } from '@aws-sdk/client-s3';
import { CreateQueueCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { buildApp } from 'fauxqs';
import * as z from 'zod';
import { createDynamoDbClient, createS3Client } from '../../lambda/aws/awsClients.ts';
import { createSqsClient, HOST_PATIENCE } from '../../lambda/aws/sqsWire.ts';
import { hasCode } from '../../lambda/core/failure.ts';
import { MAX_RECEIVES } from '../../lambda/core/limits.ts';
import { MESSAGE_ID_ATTRIBUTE } from '../../lambda/core/record.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';

interface LocalQueueOptions {
  /** TCP port on 127.0.0.1, 0–65535. 0 picks a free one. */
  readonly port: number;
  /** Number of request queues, each with its event source mapping. @default 1 */
  readonly shards?: number | undefined;
  /** True to have a queue for urgent requests. @default false */
  readonly urgent?: boolean | undefined;
  /** Number of result queues besides the first, one for each client. @default 0 */
  readonly clients?: number | undefined;
  /** Time that a received request stays hidden, in seconds, 0–43,200. */
  readonly visibilityTimeoutSeconds: number;
  /** Receives after which a request moves to the dead-letter queue, at least 1. */
  readonly maxReceiveCount: number;
}

export interface LocalServicesOptions extends Omit<LocalQueueOptions, 'visibilityTimeoutSeconds' | 'maxReceiveCount'> {
  /** Stores for results. @default only the queue */
  readonly stores?: readonly string[] | undefined;
}

export type LocalServices = Awaited<ReturnType<typeof startLocalServices>>;

export const LOCAL_TIMEOUT_SECONDS = 30;
/** Six function timeouts, as AWS recommends. */
const VISIBILITY_TIMEOUT_SECONDS = 6 * LOCAL_TIMEOUT_SECONDS;

type Cleanups = (() => Promise<void> | void)[];

/** Starts servers in this process that replace AWS. They keep everything in memory. @throws Error if the port is taken */
export async function startLocalServices(options: LocalServicesOptions) {
  const cleanups: Cleanups = [];
  const stop = async (): Promise<void> => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
  };
  try {
    return { ...(await start(options, cleanups)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function start({ stores = ['queue'], ...asked }: LocalServicesOptions, cleanups: Cleanups) {
  const queues = await startLocalQueues({
    ...asked,
    visibilityTimeoutSeconds: VISIBILITY_TIMEOUT_SECONDS,
    maxReceiveCount: MAX_RECEIVES,
  });
  cleanups.push(queues.stop);
  const { endpoint, region } = queues;
  const sqs = localSqsClient(queues);
  cleanups.push(() => sqs.destroy());
  const s3 = localBucketClient(endpoint, region);
  cleanups.push(() => s3.destroy());
  for (const Bucket of Object.values(BUCKETS)) await s3.send(new CreateBucketCommand({ Bucket }));
  const dynamodb = stores.includes('table') ? await startLocalTable(cleanups) : undefined;
  return {
    queues,
    buckets: { ...BUCKETS, endpoint },
    /** Undefined if results do not go to a table. */
    table: dynamodb?.table,
    clients: { sqs, s3: () => s3, dynamodb: dynamodb?.client },
    /** `BATCHSCORE_…` variables with the addresses. */
    environment: {
      [CONFIG_KEYS.results]: stores.join(','),
      [CONFIG_KEYS.requestQueueUrls]: urlsOf(queues),
      [CONFIG_KEYS.urgentQueueUrl]: queues.urgentQueue?.queueUrl,
      [CONFIG_KEYS.resultQueueUrl]: queues.resultQueueUrl,
      [CONFIG_KEYS.clientQueueUrls]: queues.clientQueueUrls.join(',') || undefined,
      [CONFIG_KEYS.resultTable]: dynamodb?.table.tableName,
      [CONFIG_KEYS.resultBucket]: BUCKETS.resultBucket,
      [CONFIG_KEYS.resultPrefix]: undefined,
      [CONFIG_KEYS.payloadBucket]: BUCKETS.payloadBucket,
      [CONFIG_KEYS.payloadPrefix]: undefined,
      [CONFIG_KEYS.captureBucket]: BUCKETS.payloadBucket,
      [CONFIG_KEYS.capturePrefix]: undefined,
      [CONFIG_KEYS.eventsArn]: undefined,
      [CONFIG_KEYS.maxReceiveCount]: String(MAX_RECEIVES),
    } as Readonly<Record<string, string | undefined>>,
  };
}

const BUCKETS = { resultBucket: 'batchscore-results', payloadBucket: 'batchscore-payloads' };

/** Joins the URLs of all shards in the format that the client and the host read. */
function urlsOf({ requestQueues }: LocalQueues): string {
  return requestQueues.map(({ queueUrl }) => queueUrl).join(',');
}

export interface Whereabouts extends Pick<LocalServices, 'queues' | 'buckets' | 'table' | 'environment'> {
  readonly jobs?: Readonly<Record<string, string>> | undefined;
  readonly page?: string | undefined;
}

/** Returns all addresses, with the names of the client's options as keys. */
export function whereabouts({ queues, buckets, table, environment, jobs, page }: Whereabouts): object {
  const { endpoint, region, urgentQueue, resultQueueUrl, clientQueueUrls, deadLetterQueueUrl } = queues;
  const resultsGoTo = environment[CONFIG_KEYS.results]?.split(',') ?? [];
  return {
    endpoint,
    region,
    requestQueueUrl: urlsOf(queues),
    ...(urgentQueue !== undefined && { urgentQueueUrl: urgentQueue.queueUrl }),
    resultQueueUrl,
    ...(clientQueueUrls.length > 0 && { clientQueueUrls }),
    deadLetterQueueUrl,
    payloadBucket: buckets.payloadBucket,
    s3Endpoint: buckets.endpoint,
    ...(table === undefined ? {} : { resultTable: table.tableName, dynamodbEndpoint: table.endpoint }),
    ...(resultsGoTo.includes('bucket') ? { resultBucket: buckets.resultBucket } : {}),
    ...jobs,
    ...(page === undefined ? {} : { page }),
  };
}

/** Returns the shell command that starts this repository's worker with these services. */
export function workerCommand({ queues, buckets, table, environment }: Whereabouts): string {
  const variables = {
    AWS_REGION: queues.region,
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
    AWS_ENDPOINT_URL_SQS: queues.endpoint,
    AWS_ENDPOINT_URL_S3: buckets.endpoint,
    AWS_ENDPOINT_URL_DYNAMODB: table?.endpoint,
    [CONFIG_KEYS.defaultModel]: 'digits',
    ...environment,
  };
  const given = Object.entries(variables).filter(([, value]) => value !== undefined);
  return `env ${given.map(([name, value]) => `${name}=${value}`).join(' ')} npm run -s worker`;
}

type FauxServer = ReturnType<typeof buildApp>;

export type LocalQueues = Awaited<ReturnType<typeof startLocalQueues>>;

const REGION = 'us-east-1';
const ACCOUNT = '000000000000';
const REQUESTS = 'batchscore-requests';
const URGENT = 'batchscore-urgent';
const RESULTS = 'batchscore-results';
const DEAD_LETTERS = 'batchscore-dead-letters';

/**
 * Starts an SQS server in memory on 127.0.0.1, with the request queues, their dead-letter queue and the result queues.
 *
 * @throws Error if the port is taken. The message names it and what to do.
 */
export async function startLocalQueues(options: LocalQueueOptions) {
  const names = Array.from({ length: options.shards ?? 1 }, (_, shard) =>
    shard === 0 ? REQUESTS : `${REQUESTS}-${shard + 1}`,
  );
  const results = Array.from({ length: options.clients ?? 0 }, (_, client) => `${RESULTS}-${client + 2}`);
  const server = buildApp({ logger: false });
  await beAsStrictAsSqs(server);
  refuseForeignCallers(server.server);
  takeObjectsOfAnySize(server);
  const onObject = listenToObjects(server);
  const endpoint = await listenOnLoopback(server, options.port);
  try {
    const requests = options.urgent === true ? [...names, URGENT] : names;
    await createQueues(endpoint, { requests, results: [RESULTS, ...results] }, options);
  } catch (error) {
    await server.close();
    throw error;
  }
  const placeOf = (name: string) => ({ queueUrl: queueUrl(endpoint, name), queueArn: queueArn(name) });
  return {
    /** `http://127.0.0.1:PORT`, the endpoint for SQS clients. */
    endpoint,
    region: REGION,
    /** Request queues, one for each shard. */
    requestQueues: names.map(placeOf),
    urgentQueue: options.urgent === true ? placeOf(URGENT) : undefined,
    requestQueueUrl: queueUrl(endpoint, REQUESTS),
    requestQueueArn: queueArn(REQUESTS),
    resultQueueUrl: queueUrl(endpoint, RESULTS),
    clientQueueUrls: results.map((name) => queueUrl(endpoint, name)),
    deadLetterQueueUrl: queueUrl(endpoint, DEAD_LETTERS),
    /** Registers a listener for every object that is put into a bucket of the server. */
    onObject,
    /** Stops the server. The contents of its queues are lost. */
    stop: async (): Promise<void> => server.close(),
  };
}

/** Credentials that the local servers do not check. */
export const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };

/**
 * Creates an SQS client for a local server. It skips signatures and checksums, which take a third of the time of each
 * request and are not needed on loopback.
 */
export function localSqsClient({ endpoint, region }: { endpoint: string; region: string }): SQSClient {
  return createSqsClient(HOST_PATIENCE, {
    endpoint,
    region,
    credentials,
    signer: { sign: async (request) => request },
    useQueueUrlAsEndpoint: false,
    md5: false,
  });
}

// `startFauxqs` listens on every interface, but only this machine may reach a development queue.
async function listenOnLoopback(server: FauxServer, port: number): Promise<string> {
  try {
    return await server.listen({ port, host: '127.0.0.1' });
  } catch (error) {
    await server.close();
    if (!hasCode(error, 'EADDRINUSE')) throw error;
    throw new Error(
      `port ${port} on 127.0.0.1: expected it to be free for the local queues, got another program that listens ` +
        'there; stop that program, name another port, or pass --port 0 to pick a free one',
      { cause: error },
    );
  }
}

async function createQueues(
  endpoint: string,
  { requests, results }: Readonly<Record<'requests' | 'results', readonly string[]>>,
  options: LocalQueueOptions,
): Promise<void> {
  const { visibilityTimeoutSeconds, maxReceiveCount } = options;
  const Attributes = {
    VisibilityTimeout: String(visibilityTimeoutSeconds),
    RedrivePolicy: JSON.stringify({ deadLetterTargetArn: queueArn(DEAD_LETTERS), maxReceiveCount }),
  };
  const sqs = localSqsClient({ endpoint, region: REGION });
  try {
    for (const QueueName of [DEAD_LETTERS, ...results]) await sqs.send(new CreateQueueCommand({ QueueName }));
    for (const QueueName of requests) await sqs.send(new CreateQueueCommand({ QueueName, Attributes }));
  } finally {
    sqs.destroy();
  }
}

// The server returns http://sqs.us-east-1.localhost:PORT/…, and some resolvers do not know that name. The server finds
// a queue by the last part of its URL, so the host is replaced with an address.
function queueUrl(endpoint: string, name: string): string {
  return `${endpoint}/${ACCOUNT}/${name}`;
}

function queueArn(name: string): string {
  return `arn:aws:sqs:${REGION}:${ACCOUNT}:${name}`;
}

export function localBucketClient(endpoint: string, region: string): S3Client {
  return createS3Client(HOST_PATIENCE, { endpoint, region, credentials, forcePathStyle: true });
}

/** Maximum size of one PUT in S3. @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/upload-objects.html */
const MAX_PUT_BYTES = 5 * 1024 ** 3;

/**
 * Makes the local server accept all objects that S3 accepts. Without this it accepts at most 11 MiB, and no empty
 * object without a content type. Call it before the server listens.
 */
function takeObjectsOfAnySize(server: FauxServer): void {
  server.removeContentTypeParser('*');
  server.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: MAX_PUT_BYTES }, (_request, body, done) => {
    done(null, body);
  });
  // `curl --data-binary` labels every body as a form, and the server would parse it as one.
  server.addHook('onRequest', async ({ method, headers }) => {
    const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded');
    if (method === 'PUT' && isForm) headers['content-type'] = 'application/octet-stream';
  });
  server.addHook('preHandler', async (request) => {
    if (request.method === 'PUT') request.body ??= Buffer.alloc(0);
  });
}

const TABLE = 'batchscore-results';

/** Starts a DynamoDB server in memory on a free port of 127.0.0.1, and creates the result table. */
async function startLocalTable(cleanups: Cleanups) {
  const { default: dynalite } = await import('dynalite');
  const server = dynalite({ createTableMs: 0 });
  refuseForeignCallers(server);
  const { url: endpoint } = await serveOnLoopback(server);
  cleanups.push(() => new Promise((resolve) => void server.close(() => resolve())));
  const client = createDynamoDbClient(HOST_PATIENCE, { endpoint, region: REGION, credentials });
  cleanups.push(() => client.destroy());
  await client.send(
    new CreateTableCommand({
      TableName: TABLE,
      AttributeDefinitions: [{ AttributeName: MESSAGE_ID_ATTRIBUTE, AttributeType: 'S' }],
      KeySchema: [{ AttributeName: MESSAGE_ID_ATTRIBUTE, KeyType: 'HASH' }],
      BillingMode: 'PAY_PER_REQUEST',
    }),
  );
  await waitUntilTableExists({ client, maxWaitTime: 10, minDelay: 0.05, maxDelay: 0.5 }, { TableName: TABLE });
  return { table: { endpoint, tableName: TABLE }, client };
}

/** Makes a server listen on 127.0.0.1. @param port 0 picks a free one */
export async function serveOnLoopback(server: Server, port = 0) {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** Host names that always mean this machine, for every resolver. */
const OWN_NAMES = /^(127\.0\.0\.1|\[::1\]|([\w-]+\.)*localhost)$/;
const EXPECTED = 'expected 127.0.0.1 or localhost, got another';

/**
 * Makes a local server refuse requests from pages of other sites, which may use its address or a name that resolves to
 * this machine. Call it after the server has its request listeners.
 */
export function refuseForeignCallers(server: Server): void {
  const answers = server.listeners('request');
  server.removeAllListeners('request');
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const refused = refusal(request.headers);
    if (refused === undefined) {
      for (const answer of answers) Reflect.apply(answer, server, [request, response]);
      return;
    }
    request.resume();
    response.writeHead(403, { 'content-type': 'application/json', connection: 'close' });
    response.end(JSON.stringify({ __type: 'AccessDenied', message: refused }));
  });
}

function refusal({ host = '', origin }: IncomingHttpHeaders): string | undefined {
  if (!isOwn(`http://${host}`)) return `Host: ${EXPECTED}; call the address that npm run dev prints`;
  if (origin === undefined || isOwn(origin)) return undefined;
  return `Origin: ${EXPECTED}; only pages of this machine may call`;
}

function isOwn(url: string): boolean {
  return OWN_NAMES.test(URL.parse(url)?.hostname ?? '');
}

type Listener = (bucket: string, key: string) => void;

/**
 * Makes the local server report objects that are put, in one request or in several. The server has no notifications
 * itself.
 */
function listenToObjects(server: FauxServer): (listener: Listener) => void {
  const listeners: Listener[] = [];
  server.addHook('onResponse', async (request, reply) => {
    if (reply.statusCode !== 200) return;
    const { pathname, searchParams } = new URL(request.url, 'http://local');
    const [, bucket = '', ...steps] = pathname.split('/');
    const key = decodeURIComponent(steps.join('/'));
    // A multipart upload creates its object when it is completed.
    const isPut = request.method === (searchParams.has('uploadId') ? 'POST' : 'PUT');
    if (bucket === '' || key === '' || !isPut) return;
    for (const listener of listeners) listener(bucket, key);
  });
  return (listener) => void listeners.push(listener);
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html */
const REFUSED_BY_SQS = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/u;
const MAX_ATTRIBUTES = 10;
const ATTRIBUTE = z
  .object({ StringValue: z.string().optional(), BinaryValue: z.string().optional() })
  .refine((value) => value.StringValue || value.BinaryValue, 'must contain a non-empty message attribute value');
const GROUP = z
  .string()
  .regex(/^[!-~]{1,128}$/, 'can only include alphanumeric and punctuation characters. 1 to 128 in length')
  .optional();
const DELAY = 'must be >= 0 and <= 900';
const MESSAGE = z.object({
  MessageBody: z.string().min(1, 'must be in the request'),
  MessageAttributes: z
    .record(z.string(), ATTRIBUTE)
    .refine((all) => Object.keys(all).length <= MAX_ATTRIBUTES, `exceeds the allowed maximum [${MAX_ATTRIBUTES}]`)
    .optional(),
  DelaySeconds: z.int().min(0, DELAY).max(900, DELAY).optional(),
  MessageGroupId: GROUP,
  MessageDeduplicationId: GROUP,
});
const MESSAGE_ON_STANDARD_QUEUE = MESSAGE.extend({
  MessageDeduplicationId: z.never('is not valid for this queue type').optional(),
});
const SENT = z.object({ QueueUrl: z.string(), Entries: z.array(z.unknown()).optional() });
/**
 * Receipt handle of SQS: a UUID as base64. Extended Clients put text with hyphens before a handle and remove it again.
 */
const HANDLE = /^[A-Za-z0-9+/]{48}$/;
const WITH_HANDLE = z.looseObject({ Id: z.string().optional(), ReceiptHandle: z.string() });
const HANDLES_TOGETHER = z.looseObject({ Entries: z.array(WITH_HANDLE) });
const RECEIVED = z.looseObject({ Messages: z.array(WITH_HANDLE) });
const BATCH_ANSWER = z.looseObject({
  Successful: z.array(z.looseObject({ Id: z.string() })),
  Failed: z.array(z.unknown()),
});

/**
 * Makes fauxqs accept and refuse the same messages as SQS. Receipt handles look like those of SQS, and invalid ones are
 * refused. Call it before the server listens.
 */
async function beAsStrictAsSqs(server: FauxServer): Promise<void> {
  // The package exports only its application. Its own expression refuses characters beyond U+FFFF, such as emoji.
  const types: { readonly INVALID_MESSAGE_BODY_CHAR: RegExp } = await import(
    new URL('sqs/sqsTypes.js', import.meta.resolve('fauxqs')).href
  );
  types.INVALID_MESSAGE_BODY_CHAR.test = (text) => REFUSED_BY_SQS.test(text);
  const refused = new WeakMap<object, readonly (string | undefined)[]>();
  server.addHook('preHandler', async (request, reply) => {
    const operation = operationOf(request);
    if (operation === undefined) return;
    const refusal = refusedMessage(operation, request.body);
    if (refusal !== undefined) return reply.status(400).send(refusal);
    const entries = HANDLES_TOGETHER.safeParse(request.body).data?.Entries;
    const single = WITH_HANDLE.safeParse(request.body).data;
    const invalid = (entries ?? [single]).filter((entry) => entry !== undefined && !HANDLE.test(entry.ReceiptHandle));
    const [first] = invalid;
    if (first !== undefined && first === single) return reply.status(400).send(sqsError(...INVALID_HANDLE));
    if (first !== undefined)
      refused.set(
        request,
        invalid.map((entry) => entry?.Id),
      );
    if (single !== undefined) request.body = withHandle(single, 'base64', 'utf8');
    const decoded = entries?.map((entry) => withHandle(entry, 'base64', 'utf8'));
    if (decoded !== undefined) request.body = { ...Object(request.body), Entries: decoded };
  });
  server.addHook('preSerialization', async (request, _reply, answer) => {
    if (operationOf(request) === undefined) return answer;
    const received = RECEIVED.safeParse(answer).data;
    if (received !== undefined) {
      return { ...received, Messages: received.Messages.map((message) => withHandle(message, 'utf8', 'base64')) };
    }
    const [ids, answered] = [refused.get(request), BATCH_ANSWER.safeParse(answer).data];
    if (ids === undefined || answered === undefined) return answer;
    const [Code, Message] = INVALID_HANDLE;
    const Failed = ids.map((Id) => ({ Id, SenderFault: true, Code, Message }));
    return {
      ...answered,
      Successful: answered.Successful.filter(({ Id }) => !ids.includes(Id)),
      Failed: [...answered.Failed, ...Failed],
    };
  });
}

/** Returns the SQS operation, or undefined for an S3 call. */
function operationOf({ headers }: { readonly headers: IncomingHttpHeaders }): string | undefined {
  return /^AmazonSQS\.(\w+)$/.exec(String(headers['x-amz-target']))?.[1];
}

const INVALID_HANDLE = ['ReceiptHandleIsInvalid', 'The input receipt handle is not a valid receipt handle.'] as const;

/**
 * Returns the error of SQS for a call that sends messages. If one message is invalid, SQS refuses the whole call.
 */
function refusedMessage(operation: string, body: unknown): object | undefined {
  const { data } = SENT.safeParse(body);
  if (data === undefined || !['SendMessage', 'SendMessageBatch'].includes(operation)) return undefined;
  const schema = data.QueueUrl.endsWith('.fifo') ? MESSAGE : MESSAGE_ON_STANDARD_QUEUE;
  const [issue] = (data.Entries ?? [body]).flatMap((message) => schema.safeParse(message).error?.issues ?? []);
  if (issue === undefined) return undefined;
  const [name] = issue.path;
  return sqsError(
    name === 'MessageBody' ? 'MissingParameter' : 'InvalidParameterValue',
    `The parameter ${issue.path.join('.')} is invalid. Reason: ${String(name)} ${issue.message}.`,
  );
}

function sqsError(code: string, message: string): object {
  return { __type: `com.amazonaws.sqs#${code}`, message };
}

function withHandle<M extends { ReceiptHandle: string }>(message: M, from: BufferEncoding, to: BufferEncoding): M {
  return { ...message, ReceiptHandle: Buffer.from(message.ReceiptHandle, from).toString(to) };
}
