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
import type { SqsCaller } from './sqsMessages.ts';

/**
 * Creates the host's SQS client. Four frequent calls use SQS's own protocol, JSON over HTTPS; the SDK makes all others:
 *
 * command → JSON.stringify → SignatureV4 → undici → JSON.parse → checked → answer, or an SDK error
 *
 * The SDK's client provides endpoint, region, credentials and user agent. The four calls take less than half the CPU of
 * the SDK, which serializes, resolves and parses along schemas in about thirty asynchronous steps: see ADR 41. To go
 * back to the SDK, return `client`.
 *
 * @param patience limit for a call; a receive may take its wait longer
 * @param config settings that are not in the environment
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-making-api-requests-json.html
 */
export function createSqsCaller(patience: Patience, config: SQSClientConfig = {}): SqsCaller {
  const client = createSqsClient(patience, { useQueueUrlAsEndpoint: false, ...config });
  const { credentials, region } = client.config;
  const signer = new SignatureV4({ credentials, region, sha256: Sha256, service: 'sqs' });
  // Starts loading here, while the models load.
  const loading = createAgent(patience.connectMs);
  let template: Promise<HttpRequest> | undefined;
  /** Milliseconds that SQS's clock is ahead of this machine's. */
  let clockOffset = 0;

  const targetOf = (): Promise<HttpRequest> => {
    template ??= requestOf(client).catch((error) => {
      // The error may pass: a region may be set later.
      template = undefined;
      throw error;
    });
    return template;
  };
  const call = async (operation: string, input: object, signal: AbortSignal | undefined): Promise<object> => {
    if (signal?.aborted) throw createNamedError('AbortError', 'Request aborted');
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

/** Creates the agent, which keeps connections. It imports only the agent, because all of undici takes 80 ms to load. */
async function createAgent(connectMs: number): Promise<Agent> {
  const { default: UndiciAgent } = await import('undici/lib/dispatcher/agent.js');
  // The call has its own time limit.
  const noLimits = { headersTimeout: 0, bodyTimeout: 0 };
  return new UndiciAgent({ connect: { timeout: connectMs }, keepAliveTimeout: 60_000, ...noLimits });
}

const OPERATIONS = new Map<unknown, string>([
  [ReceiveMessageCommand, 'ReceiveMessage'],
  [SendMessageBatchCommand, 'SendMessageBatch'],
  [DeleteMessageBatchCommand, 'DeleteMessageBatch'],
  [ChangeMessageVisibilityBatchCommand, 'ChangeMessageVisibilityBatch'],
]);

/** Returns true if an attribute is binary, which JSON cannot hold. The SDK sends such entries. */
function hasBytes({ Entries = [] }: Partial<SendMessageBatchCommandInput>): boolean {
  return Entries.some((entry) => isBinary(entry.MessageAttributes) || isBinary(entry.MessageSystemAttributes));
}

function isBinary(attributes: Readonly<Record<string, MessageAttributeValue>> | undefined): boolean {
  for (const name in attributes) if (attributes[name]?.BinaryValue !== undefined) return true;
  return false;
}

/** Builds the SDK's request before signing: runs its middleware for endpoints and headers without sending it. */
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

/** Lambda runtime's store for the current invocation, if it has one. */
interface WithInvokeStore {
  readonly awslambda?: { readonly InvokeStore?: { getXRayTraceId(): string | undefined } };
}

/** Returns the trace header. Lambda uses it to stop recursive functions, and X-Ray to connect calls. */
function traceHeader(): string | undefined {
  if (!process.env.AWS_LAMBDA_FUNCTION_NAME) return undefined;
  const { awslambda } = globalThis as WithInvokeStore;
  return awslambda?.InvokeStore?.getXRayTraceId() ?? process.env._X_AMZN_TRACE_ID;
}

/**
 * Hash of the signer: SHA-256 or HMAC-SHA-256. It hashes in one call and creates the day's key once. The SDK's own
 * takes 50 µs more for each request.
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

interface Signed {
  readonly agent: Agent;
  readonly request: HttpRequest;
}

/** Maximum response size: more than ten escaped messages of 1 MiB. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/**
 * Sends one request when it is signed.
 *
 * @throws Error with a name or code for: timeout, abort, no connection
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
  const onAbort = (): void => giveUp(createNamedError('AbortError', 'Request aborted'));
  const onTimeout = (): void =>
    giveUp(createNamedError('TimeoutError', `SQS: the request ${waitsFor} within ${answerMs} ms`));
  const timer = setTimeout(onTimeout, answerMs);
  signal?.addEventListener('abort', onAbort);
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(own) {
      controller = own;
      waitsFor = 'got no whole answer';
      // The call was given up while it waited for a connection.
      if (isOver) own.abort(createNamedError('AbortError', 'Request aborted'));
    },
    onResponseStart(_, status, received) {
      head = { status, headers: received };
    },
    onResponseData(_, chunk) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > MAX_ANSWER_BYTES)
        giveUp(createProtocolError(`expected an answer of SQS, got more than ${MAX_ANSWER_BYTES} bytes`));
    },
    onResponseEnd() {
      over();
      resolve({ ...head, text: Buffer.concat(chunks).toString() });
    },
    onResponseError(_, error) {
      over();
      // An error that is not HTTP has no code.
      reject('code' in error && error.code !== undefined ? error : createProtocolError(error.message, error));
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

function createProtocolError(message: string, cause?: Error): Error {
  return Object.assign(new Error(message, { cause }), { code: 'EPROTO' });
}

function createNamedError(name: string, message: string): Error {
  return Object.assign(new Error(message), { name });
}

/** Clock skew above which a signature is refused for it. AWS accepts five minutes. */
const SKEW_MS = 240_000;
const LONGEST_CALL_MS = 900_000;
/** A century, for a machine whose clock starts in 1970. A larger offset is invalid. */
const FARTHEST_MS = 100 * 365 * 86_400_000;

/** Computes the clock offset like the SDK: a cached or slow response does not count. */
function clockOffsetBy({ date, age }: IncomingHttpHeaders, startedAt: number): number | undefined {
  const now = Date.now();
  const offset = Date.parse(date ?? '') - now;
  return age === undefined && Math.abs(offset) < FARTHEST_MS && now - startedAt <= LONGEST_CALL_MS ? offset : undefined;
}

/**
 * Parses a response.
 * @throws SQSServiceException with the SDK's name and fault. A response that is not from SQS, such as a proxy's page,
 *   counts as a server fault: it is retried, and no entry counts as done.
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

/** Returns true if the response has no error and its lists are valid. Like the SDK, it treats null as missing. */
function isWhole(document: Record<string, unknown>): boolean {
  for (const name of ['Successful', 'Failed', 'Messages']) if (document[name] === null) delete document[name];
  const { Messages = [], Successful = [], Failed = [], __type: type, message } = document;
  if (type !== undefined || message !== undefined || !Array.isArray(Messages)) return false;
  return [Successful, Failed].every((list) => Array.isArray(list) && list.every(isObject));
}

/**
 * Returns the error's name. Its shape is in a header or in the body, its older name in another header. Like the SDK, it
 * prefers the older name if that has no dot.
 */
function nameOf({ code, __type: type }: JsonObject = {}, headers: IncomingHttpHeaders): string | undefined {
  const [older = ''] = String(headers['x-amzn-query-error'] ?? '').split(';');
  if (older !== '' && !older.includes('.')) return older;
  const name = [headers['x-amzn-errortype'], code, type].find((one) => typeof one === 'string');
  const [beforeColon = ''] = name?.split(/[,:]/) ?? [];
  const shape = beforeColon.split('#');
  return (shape[1] ?? shape[0]) || undefined;
}

/** Time limits of a client. Every request has one. */
export interface Patience {
  readonly connectMs: number;
  /**
   * Milliseconds until SQS or DynamoDB has answered, more than the longest poll. For S3, whose objects may be large,
   * milliseconds without progress.
   */
  readonly answerMs: number;
}

/** Limits within AWS, where responses take milliseconds. Six attempts fit into an invocation of 30 s. */
export const HOST_PATIENCE: Patience = { connectMs: 3_000, answerMs: 4_000 };
/** Limits from anywhere: a slow line sends 1 MiB in this time, and it exceeds the longest SQS poll of 20 s. */
export const CLIENT_PATIENCE: Patience = { connectMs: 10_000, answerMs: 30_000 };

/** The caller retries, because it knows the remaining entries and time. SDK retries would multiply the attempts. */
export const ATTEMPTS = { maxAttempts: 1 };
/** More sockets than concurrent requests: the wait for a free socket would count as time to connect. */
const AGENT = { keepAlive: true, maxSockets: 128 };

/**
 * Creates the SDK's SQS client. It does not verify the checksums of responses over TLS, which already protects them.
 *
 * @param queueUrls queues whose hosts the SDK may send to instead of the endpoint
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

/** Returns true if the connection certainly uses TLS: AWS's own endpoints do, others if their URL says so. */
export function isTls(endpoint: unknown, service: 'SQS' | 'S3'): boolean {
  const { [`AWS_ENDPOINT_URL_${service}`]: forService, AWS_ENDPOINT_URL: forAll } = process.env;
  const url = endpoint ?? forService ?? forAll ?? 'https:';
  return typeof url === 'string' && url.startsWith('https:');
}

/**
 * Returns request handler options. The SDK only warns of an exceeded `requestTimeout`, and that timer ends with the
 * headers; `socketTimeout` limits the rest.
 */
export function answeredWithin(patience: Patience) {
  return { ...progressingWithin(patience), requestTimeout: patience.answerMs, throwOnRequestTimeout: true };
}

export function progressingWithin({ connectMs, answerMs }: Patience) {
  return { connectionTimeout: connectMs, socketTimeout: answerMs, httpAgent: AGENT, httpsAgent: AGENT };
}
