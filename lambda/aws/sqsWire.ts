/// <reference path="./undici.d.ts" />
import { createHmac, createSecretKey, hash, type KeyObject } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type MessageAttributeValue,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  type SendMessageBatchCommandInput,
  SQSClient,
  type SQSClientConfig,
  SQSServiceException,
} from '@aws-sdk/client-sqs';
import { SignatureV4 } from '@smithy/signature-v4';
import type { HttpRequest, SourceData } from '@smithy/types';
import type { Agent, Dispatcher } from 'undici';
import { isObject, type JsonObject, parseIfJson } from '../core/json.ts';
import type { SqsCaller } from './sendBatches.ts';

/**
 * How a host calls SQS: its four frequent calls by SQS's own protocol, JSON over HTTPS, and all others by the SDK:
 *
 *     command → JSON.stringify → SignatureV4 → undici → JSON.parse → checked → answer, or an error of the SDK
 *
 * Endpoint, region, credentials and user agent are those of the SDK's client. It takes less than half the CPU of the SDK,
 * which serializes, resolves and parses along schemas in some thirty asynchronous steps: ADR 41 has the figures. Returning
 * `client` alone is the way back.
 *
 * @param patience how long a call may take; a receive as much longer as it waits for messages
 * @param config what the environment does not say
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-making-api-requests-json.html
 */
export function createSqsCaller(patience: Patience, config: SQSClientConfig = {}): SqsCaller {
  const client = createSqsClient(patience, { useQueueUrlAsEndpoint: false, ...config });
  const { credentials, region } = client.config;
  const signer = new SignatureV4({ credentials, region, sha256: Sha256, service: 'sqs' });
  // Loaded beside the models, not before them.
  const loading = createAgent(patience.connectMs);
  let template: Promise<HttpRequest> | undefined;
  /** How far SQS's clock is ahead of this machine's, in milliseconds. */
  let clockOffset = 0;

  const targetOf = (): Promise<HttpRequest> => {
    template ??= requestOf(client).catch((error) => {
      // Such as a region that is set later: it is asked for again.
      template = undefined;
      throw error;
    });
    return template;
  };
  const call = async (operation: string, input: object, signal: AbortSignal | undefined): Promise<object> => {
    if (signal?.aborted) throw named('AbortError', 'Request aborted');
    const body = JSON.stringify(input);
    const offset = clockOffset;
    let startedAt = Date.now();
    const sign = async (): Promise<Signed> => {
      const [agent, { headers, ...target }] = await Promise.all([loading, targetOf()]);
      startedAt = Date.now();
      const request = { ...target, headers: headersOf(headers, operation, body), body };
      return { agent, request: await signer.sign(request, { signingDate: new Date(startedAt + offset) }) };
    };
    const waitMs = 'WaitTimeSeconds' in input ? 1000 * Number(input.WaitTimeSeconds ?? 0) : 0;
    const answer = await exchange(sign(), body, patience.answerMs + waitMs, signal);
    clockOffset = clockOffsetBy(answer.headers, startedAt) ?? clockOffset;
    return readAnswer(answer, Math.abs(clockOffset - offset) >= SKEW_MS);
  };
  const send = (command: ReceiveMessageCommand, options: { readonly abortSignal?: AbortSignal } = {}) => {
    const operation = hasBytes(command.input) ? undefined : OPERATIONS.get(command.constructor);
    return operation === undefined
      ? client.send(command, options)
      : call(operation, command.input, options.abortSignal);
  };
  // Each command has an overload of its own.
  return { send: send as SqsCaller['send'] };
}

/** Connections are kept. Only its agent: all of undici takes 80 ms to load. */
async function createAgent(connectMs: number): Promise<Agent> {
  const { default: UndiciAgent } = await import('undici/lib/dispatcher/agent.js');
  // The time of an answer is the call's.
  const noLimits = { headersTimeout: 0, bodyTimeout: 0 };
  return new UndiciAgent({ connect: { timeout: connectMs }, keepAliveTimeout: 60_000, ...noLimits });
}

const OPERATIONS = new Map<unknown, string>([
  [ReceiveMessageCommand, 'ReceiveMessage'],
  [SendMessageBatchCommand, 'SendMessageBatch'],
  [DeleteMessageBatchCommand, 'DeleteMessageBatch'],
  [ChangeMessageVisibilityBatchCommand, 'ChangeMessageVisibilityBatch'],
]);

/** Attributes of hosts are texts. Bytes, which JSON has none of, are left to the SDK. */
function hasBytes({ Entries = [] }: Partial<SendMessageBatchCommandInput>): boolean {
  return Entries.some((entry) => isBinary(entry.MessageAttributes) || isBinary(entry.MessageSystemAttributes));
}

function isBinary(attributes: Readonly<Record<string, MessageAttributeValue>> | undefined): boolean {
  for (const name in attributes) if (attributes[name]?.BinaryValue !== undefined) return true;
  return false;
}

/** What the SDK would send before it is signed: its middleware for endpoints and headers runs once, and nothing is sent. */
async function requestOf(client: SQSClient): Promise<HttpRequest> {
  const command = new ReceiveMessageCommand({ QueueUrl: '' });
  let built: unknown;
  command.middlewareStack.add(
    () => async (args) => {
      built = args.request;
      return { output: { $metadata: {} }, response: undefined };
    },
    { step: 'build', priority: 'low' },
  );
  await client.send(command);
  if (!isRequest(built)) throw new Error('expected a request of the AWS SDK for SQS, got none');
  const { protocol, hostname, port, path, headers } = built;
  return { method: 'POST', protocol, hostname, path, query: {}, headers, ...(port !== undefined && { port }) };
}

function isRequest(built: unknown): built is HttpRequest {
  return isObject(built) && typeof built.hostname === 'string' && isObject(built.headers);
}

function headersOf(template: HttpRequest['headers'], operation: string, body: string): Record<string, string> {
  const headers: Record<string, string> = {
    ...template,
    'x-amz-target': `AmazonSQS.${operation}`,
    'content-length': String(Buffer.byteLength(body)),
  };
  const trace = traceHeader();
  if (trace) headers[TRACE_HEADER] = trace;
  else delete headers[TRACE_HEADER];
  return headers;
}

const TRACE_HEADER = 'X-Amzn-Trace-Id';

/** The runtime's store of what belongs to an invocation, where it has one. */
interface WithInvokeStore {
  readonly awslambda?: { readonly InvokeStore?: { getXRayTraceId(): string | undefined } };
}

/** By which Lambda stops functions that call themselves, and X-Ray connects them. */
function traceHeader(): string | undefined {
  if (!process.env.AWS_LAMBDA_FUNCTION_NAME) return undefined;
  const { awslambda } = globalThis as WithInvokeStore;
  return awslambda?.InvokeStore?.getXRayTraceId() ?? process.env._X_AMZN_TRACE_ID;
}

/**
 * What the signer hashes with, SHA-256 or its HMAC with a secret: in one call, and the key that it derives for a day is read
 * once. The SDK's own takes 50 µs more for each request.
 */
class Sha256 {
  readonly #secret: SourceData | undefined;
  #parts: Uint8Array[] = [];

  constructor(secret?: SourceData) {
    this.#secret = secret;
  }

  update(data: SourceData): void {
    this.#parts.push(bytesOf(data));
  }

  async digest(): Promise<Uint8Array> {
    const [first, ...others] = this.#parts;
    const data = first === undefined || others.length > 0 ? Buffer.concat(this.#parts) : first;
    if (this.#secret === undefined) return hash('sha256', data, 'buffer');
    return createHmac('sha256', keyOf(this.#secret)).update(data).digest();
  }

  reset(): void {
    this.#parts = [];
  }
}

const derivedKeys = new WeakMap<object, KeyObject>();

function keyOf(secret: SourceData): KeyObject {
  if (typeof secret === 'string') return createSecretKey(secret, 'utf8');
  const known = derivedKeys.get(secret) ?? createSecretKey(bytesOf(secret));
  derivedKeys.set(secret, known);
  return known;
}

function bytesOf(data: SourceData): Uint8Array {
  if (typeof data === 'string') return Buffer.from(data);
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}

interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** A request, and what sends it. */
interface Signed {
  readonly agent: Agent;
  readonly request: HttpRequest;
}

/** More than ten messages of 1 MiB, and what JSON escapes in them. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/**
 * Sends one request, once it is signed.
 *
 * @throws Error that says by its name or code what happened: time is up, aborted, no connection
 */
function exchange(
  signed: Promise<Signed>,
  body: string,
  answerMs: number,
  signal: AbortSignal | undefined,
): Promise<HttpAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<HttpAnswer>();
  const chunks: Buffer[] = [];
  let bytes = 0;
  let head: Omit<HttpAnswer, 'text'> = { status: 0, headers: {} };
  let waitsFor = 'was not signed: no credentials, or no endpoint,';
  let controller: Dispatcher.DispatchController | undefined;
  let isOver = false;
  const over = (): void => {
    isOver = true;
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  };
  const giveUp = (error: Error): void => {
    over();
    reject(error);
    controller?.abort(error);
  };
  const onAbort = (): void => giveUp(named('AbortError', 'Request aborted'));
  const onTimeout = (): void => giveUp(named('TimeoutError', `SQS: the request ${waitsFor} within ${answerMs} ms`));
  const timer = setTimeout(onTimeout, answerMs);
  signal?.addEventListener('abort', onAbort);
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(own) {
      controller = own;
      waitsFor = 'got no whole answer';
      // Given up while it waited for a connection.
      if (isOver) own.abort(named('AbortError', 'Request aborted'));
    },
    onResponseStart(_, status, received) {
      head = { status, headers: received };
    },
    onResponseData(_, chunk) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > MAX_ANSWER_BYTES)
        giveUp(notHttp(`expected an answer of SQS, got more than ${MAX_ANSWER_BYTES} bytes`));
    },
    onResponseEnd() {
      over();
      resolve({ ...head, text: Buffer.concat(chunks).toString() });
    },
    onResponseError(_, error) {
      over();
      // What is no HTTP has no code.
      reject('code' in error && error.code !== undefined ? error : notHttp(error.message, error));
    },
  };
  const dispatch = ({ agent, request }: Signed): void => {
    if (isOver) return;
    const { protocol, hostname, port, path, headers } = request;
    const origin = `${protocol}//${hostname}${port === undefined ? '' : `:${port}`}`;
    waitsFor = 'did not establish a connection';
    agent.dispatch({ origin, path, method: 'POST', headers, body }, handler);
  };
  signed.then(dispatch).catch(giveUp);
  return promise;
}

/** An error with the code by which a failed connection is told from a wrong request. */
function notHttp(message: string, cause?: Error): Error {
  return Object.assign(new Error(message, { cause }), { code: 'EPROTO' });
}

/** An error of a name by which the SDK tells it. */
function named(name: string, message: string): Error {
  return Object.assign(new Error(message), { name });
}

/** A clock that is so far off is why a signature was refused; five minutes are what AWS takes. */
const SKEW_MS = 240_000;
const LONGEST_CALL_MS = 900_000;
/** A century, as of a machine that begins its time with 1970. What is further off is no clock. */
const FARTHEST_MS = 100 * 365 * 86_400_000;

/** As the SDK does it: an answer of a cache, or one that took long, says nothing of the clock. */
function clockOffsetBy({ date, age }: IncomingHttpHeaders, startedAt: number): number | undefined {
  const now = Date.now();
  const offset = Date.parse(date ?? '') - now;
  return age === undefined && Math.abs(offset) < FARTHEST_MS && now - startedAt <= LONGEST_CALL_MS ? offset : undefined;
}

/**
 * @throws SQSServiceException with the name and the fault that the SDK would give it. What is no answer of SQS at all, such
 *   as a page of a proxy, is the server's fault: it may pass, and nothing is taken for done by it.
 */
function readAnswer({ status, headers, text }: HttpAnswer, clockSkewCorrected: boolean): object {
  const requestId = headers['x-amzn-requestid'];
  const $metadata = {
    httpStatusCode: status,
    requestId: typeof requestId === 'string' ? requestId : undefined,
    attempts: 1,
    totalRetryDelay: 0,
    ...(clockSkewCorrected && { clockSkewCorrected }),
  };
  const document = parse(text);
  const isError = status < 200 || status >= 300;
  if (document !== undefined && !isError && isWhole(document)) return Object.assign(document, { $metadata });
  const name = isError ? nameOf(document, headers) : undefined;
  if (name === undefined) {
    const message = `expected an answer of SQS, got status ${status} with ${text.length} characters of ${headers['content-type'] ?? 'no type'}; check the SQS endpoint`;
    throw new SQSServiceException({ name: 'UnreadableAnswer', $fault: 'server', $metadata, message });
  }
  const message = [document?.message, document?.Message].find((one) => typeof one === 'string') ?? 'UnknownError';
  throw new SQSServiceException({ name, $fault: status < 500 ? 'client' : 'server', $metadata, message });
}

function parse(text: string): Record<string, unknown> | undefined {
  const document = parseIfJson(text);
  return isObject(document) ? document : undefined;
}

/** Returns true if it tells of no error, and its lists are lists, those of what was done of objects. Null is none, as to the SDK. */
function isWhole(document: Record<string, unknown>): boolean {
  for (const name of ['Successful', 'Failed', 'Messages']) if (document[name] === null) delete document[name];
  const { Messages = [], Successful = [], Failed = [], __type: type, message } = document;
  if (type !== undefined || message !== undefined || !Array.isArray(Messages)) return false;
  return [Successful, Failed].every((list) => Array.isArray(list) && list.every(isObject));
}

/**
 * An error is named by its shape, in a header or in the body, and by its older name in another header: the SDK prefers
 * that, where it has no dot.
 */
function nameOf({ code, __type: type }: JsonObject = {}, headers: IncomingHttpHeaders): string | undefined {
  const [older = ''] = String(headers['x-amzn-query-error'] ?? '').split(';');
  if (older !== '' && !older.includes('.')) return older;
  const name = [headers['x-amzn-errortype'], code, type].find((one) => typeof one === 'string');
  const [beforeColon = ''] = name?.split(/[,:]/) ?? [];
  const shape = beforeColon.split('#');
  return (shape[1] ?? shape[0]) || undefined;
}

/** How long a client waits: no request goes without a time of its own, whatever becomes of the network. */
export interface Patience {
  /** Milliseconds until there is a connection. */
  readonly connectMs: number;
  /**
   * Milliseconds until SQS or DynamoDB has answered, more than the longest poll; until S3, whose objects may be large,
   * makes some progress.
   */
  readonly answerMs: number;
}

/** Within AWS, where answers take milliseconds; six attempts end within an invocation of 30 s. */
export const HOST_PATIENCE: Patience = { connectMs: 3_000, answerMs: 4_000 };
/** From anywhere: a slow line sends 1 MiB in this time, and the longest poll of SQS, 20 s, ends in it. */
export const CLIENT_PATIENCE: Patience = { connectMs: 10_000, answerMs: 30_000 };

/** Retries are up to the caller, who knows which entries are left and how much time: the SDK's would multiply them. */
export const ATTEMPTS = { maxAttempts: 1 };
/** More than there are requests in flight: the wait for a free socket would count as time to connect. */
const AGENT = { keepAlive: true, maxSockets: 128 };

/**
 * Over TLS, which proves that texts arrive as they were sent, the checksums in SQS's answers are not compared.
 *
 * @param queueUrls whose hosts the SDK may send to in place of the endpoint
 */
export function createSqsClient(
  patience: Patience,
  config: SQSClientConfig = {},
  queueUrls: readonly string[] = [],
): SQSClient {
  const allTls = isTls(config.endpoint, 'SQS') && queueUrls.every((url) => url.startsWith('https:'));
  const checks = allTls ? { md5: false as const } : {};
  const requestHandler = answeredWithin(patience);
  return new SQSClient({ ...ATTEMPTS, ...checks, ...config, requestHandler });
}

/** Returns true if it is certain: AWS's own endpoints are, others when they say so. */
export function isTls(endpoint: unknown, service: 'SQS' | 'S3'): boolean {
  const { [`AWS_ENDPOINT_URL_${service}`]: forService, AWS_ENDPOINT_URL: forAll } = process.env;
  const url = endpoint ?? forService ?? forAll ?? 'https:';
  return typeof url === 'string' && url.startsWith('https:');
}

/** The SDK only warns of an exceeded `requestTimeout`, and it ends with the headers; `socketTimeout` sees to the rest. */
export function answeredWithin(patience: Patience) {
  return { ...progressingWithin(patience), requestTimeout: patience.answerMs, throwOnRequestTimeout: true };
}

export function progressingWithin({ connectMs, answerMs }: Patience) {
  return { connectionTimeout: connectMs, socketTimeout: answerMs, httpAgent: AGENT, httpsAgent: AGENT };
}
