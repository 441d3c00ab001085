import { createHmac, createSecretKey, hash, type KeyObject } from 'node:crypto';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { SQSClient } from '@aws-sdk/client-sqs';
import type { MiddlewareStack, Provider, UserAgent } from '@smithy/types';

interface Command {
  resolveMiddleware(stack: object, config: object, options: object): Handler;
}

type Handler = (command: Command) => Promise<{ readonly output: object }>;

/**
 * Makes a client resolve its middleware once for all commands of a kind that are sent with the same signal, as those of
 * an invocation are; the SDK does so again for each command that comes with a signal. What commands share is where they
 * are sent and how they are signed, so this is not for S3, where it depends on the bucket. ADR 16 has the figures.
 */
export function keepHandlers(client: SQSClient | DynamoDBClient): void {
  const { config, middlewareStack, send } = client;
  const kept = new WeakMap<AbortSignal, Map<unknown, Handler>>();
  const layOutAnew = createLayout(config);

  const handlerOf = (command: Command, abortSignal: AbortSignal): Handler => {
    const handlers = kept.get(abortSignal) ?? new Map<unknown, Handler>();
    kept.set(abortSignal, handlers);
    const known = handlers.get(command.constructor);
    if (known !== undefined) return known;
    const handler = command.resolveMiddleware(middlewareStack, config, { abortSignal });
    handlers.set(command.constructor, handler);
    return handler;
  };
  Object.assign(client, {
    async send(command: Command, ...rest: unknown[]): Promise<unknown> {
      const signal = onlySignalIn(rest);
      layOutAnew();
      if (signal === undefined) return Reflect.apply(send, client, [command, ...rest]);
      return (await handlerOf(command, signal)(command)).output;
    },
  });
}

function onlySignalIn([options, ...more]: readonly unknown[]): AbortSignal | undefined {
  if (typeof options !== 'object' || options === null || more.length > 0) return undefined;
  const { abortSignal, ...others } = options as { readonly abortSignal?: unknown };
  return abortSignal instanceof AbortSignal && Object.keys(others).length === 0 ? abortSignal : undefined;
}

/**
 * The SDK copies its configuration four times in each call, and V8 keeps an object that was put together as it is as a
 * hash table: 14 µs a copy. It lays an object out anew once something was looked up in it as a prototype: 1.5 µs.
 */
function createLayout(config: object): () => void {
  const heir: { readonly missing?: unknown } = Object.create(config);
  return () => void heir.missing;
}

/** The parts of an AWS client that this file deals with. */
interface LeanClient<I extends object, O extends object> {
  readonly middlewareStack: MiddlewareStack<I, O>;
  readonly config: {
    readonly defaultUserAgentProvider: Provider<UserAgent>;
    readonly userAgentAppId: Provider<string | undefined>;
  };
}

/**
 * Takes from each call of a client what nobody uses: the log object that the SDK makes of every input and output, for
 * a logger that drops it; retries, where there is one attempt; and the spelling of the user agent, which is the same
 * every time. ADR 16 has the figures.
 */
export function leaveOutIdleWork<I extends object, O extends object>(
  { middlewareStack, config }: LeanClient<I, O>,
  { retries }: { readonly retries: boolean },
): void {
  middlewareStack.remove('loggerMiddleware');
  middlewareStack.add(spellUserAgentOnce(config), {
    name: 'getUserAgentMiddleware',
    step: 'build',
    priority: 'low',
    override: true,
  });
  // Kept by name: the SDK signs behind it.
  if (!retries) {
    middlewareStack.add((next) => next, {
      name: 'retryMiddleware',
      step: 'finalizeRequest',
      priority: 'high',
      override: true,
    });
  }
}

function spellUserAgentOnce({ defaultUserAgentProvider, userAgentAppId }: LeanClient<object, object>['config']) {
  const spell = async (): Promise<string> => {
    const sections = await defaultUserAgentProvider();
    const appId = await userAgentAppId();
    return [...sections, ...(appId ? [['app', appId] as const] : [])].map(spellSection).join(' ');
  };
  let spelled: Promise<string> | undefined;
  return <A extends { readonly request: unknown }, R>(next: (args: A) => Promise<R>) =>
    async (args: A): Promise<R> => {
      spelled ??= spell();
      if (hasHeaders(args.request)) args.request.headers['user-agent'] = await spelled;
      return next(args);
    };
}

/** `aws-sdk-js/3.1169.0`, `os/linux#6.1`, `lang/js` */
function spellSection([name, version]: readonly [string, string?]): string {
  const plain = (name.startsWith('api/') ? name.toLowerCase() : name).replace(/[^\w!$%&'*+\-.^`|~/]/g, '-');
  if (version === undefined) return plain;
  return `${plain}${plain.includes('/') ? '#' : '/'}${version.replace(/[^\w!$%&'*+\-.^`|~#]/g, '-')}`;
}

function hasHeaders(request: unknown): request is { readonly headers: Record<string, string> } {
  return typeof request === 'object' && request !== null && 'headers' in request;
}

/** Operations whose inputs hold texts and numbers alone, unless an attribute is binary: their JSON is the request's body. */
const PLAIN = new Set(['SendMessageBatch', 'DeleteMessageBatch', 'ChangeMessageVisibilityBatch', 'BatchWriteItem']);

interface Protocol {
  serializeRequest(operation: { readonly name: string }, input: object, context: object): Promise<object>;
}

/**
 * Makes a client of SQS or DynamoDB spell large inputs with `JSON.stringify`. The SDK writes them character by character
 * along a schema, which for a packed message takes longer than to score what is in it. ADR 16 has the figures.
 */
export function spellPlainJson({ config: { protocol } }: { readonly config: { readonly protocol?: unknown } }): void {
  if (!isProtocol(protocol)) throw new Error('expected a client with a protocol, got one without');
  const serialize = protocol.serializeRequest.bind(protocol);
  protocol.serializeRequest = async (operation, input, context) => {
    if (!PLAIN.has(operation.name) || holdsBytes(input)) return serialize(operation, input, context);
    const request = await serialize(operation, {}, context);
    return Object.assign(request, { body: Buffer.from(JSON.stringify(input)) });
  };
}

/** Bytes go as base64, which `JSON.stringify` knows nothing of. */
function holdsBytes(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  // The keys of an array would be texts, made anew each time: they took longer than all the rest.
  if (Array.isArray(value)) return value.some(holdsBytes);
  if (ArrayBuffer.isView(value)) return true;
  for (const key in value) if (holdsBytes((value as Record<string, unknown>)[key])) return true;
  return false;
}

function isProtocol(protocol: unknown): protocol is Protocol {
  return typeof protocol === 'object' && protocol !== null && 'serializeRequest' in protocol;
}

type Bytes = string | ArrayBuffer | ArrayBufferView;

/**
 * What the SDK signs with, SHA-256 of bytes or their HMAC with a secret, for its option `sha256`. Its own makes two
 * objects where one call does, and has Node read the secret anew each time: 15 µs more for each request.
 */
export class Sha256 {
  readonly #secret: Bytes | undefined;
  #parts: Uint8Array[] = [];

  constructor(secret?: Bytes) {
    this.#secret = secret;
  }

  update(data: Bytes): void {
    this.#parts.push(toBytes(data));
  }

  async digest(): Promise<Uint8Array> {
    const data = this.#parts.length === 1 ? (this.#parts[0] as Uint8Array) : Buffer.concat(this.#parts);
    if (this.#secret === undefined) return hash('sha256', data, 'buffer');
    return createHmac('sha256', keyOf(this.#secret)).update(data).digest();
  }

  reset(): void {
    this.#parts = [];
  }
}

/** Of the keys derived from a secret, which the SDK keeps for a day and region. */
const derivedKeys = new WeakMap<object, KeyObject>();
let lastSecret: { readonly text: string; readonly key: KeyObject } | undefined;

function keyOf(secret: Bytes): KeyObject {
  if (typeof secret === 'string') {
    if (lastSecret?.text !== secret) lastSecret = { text: secret, key: createSecretKey(secret, 'utf8') };
    return lastSecret.key;
  }
  const known = derivedKeys.get(secret);
  if (known !== undefined) return known;
  const key = createSecretKey(toBytes(secret));
  derivedKeys.set(secret, key);
  return key;
}

function toBytes(data: Bytes): Uint8Array {
  if (typeof data === 'string') return Buffer.from(data);
  if (data instanceof Uint8Array) return data;
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}
