import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import * as z from 'zod';

export type StrictSqs = Awaited<ReturnType<typeof startStrictSqs>>;

/** A call before anything is done. */
export interface SqsCall {
  /** `ReceiveMessage`, as in the API. */
  readonly operation: string;
  /** Of the queue in the call, where it names one. */
  readonly queue: string | undefined;
  readonly body: string;
  /** What it is signed with. */
  readonly accessKey: string;
  readonly sessionToken: string;
}

interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

/**
 * What a call meets in place of its answer: an error, a connection that is cut before or after the call has had its effect,
 * half of an answer, no answer at all, or one that says that each entry failed for which a function says so. `duplicates` has
 * another poll receive the same messages too; each receipt handle acts on them then. A promise that takes its time is latency.
 */
export type Fault =
  | Refusal
  | 'cut before'
  | 'cut after'
  | 'half an answer'
  | 'silence'
  | 'silence after'
  | 'duplicates'
  | ((entry: number) => boolean);
export type Intercept = (call: SqsCall) => Promise<Fault | undefined> | Fault | undefined;

/** Errors as SQS words them. */
export const FAULTS = {
  throttled: { status: 400, code: 'RequestThrottled', message: 'Rate exceeded' },
  denied: { status: 403, code: 'AccessDeniedException', message: 'no identity-based policy allows the action' },
  missing: { status: 400, code: 'QueueDoesNotExist', message: 'The specified queue does not exist.' },
  unavailable: { status: 503, code: 'ServiceUnavailable', message: 'try later' },
  internal: { status: 500, code: 'InternalFailure', message: 'try later' },
  expired: { status: 400, code: 'ExpiredToken', message: 'The security token included in the request is expired' },
} as const satisfies Record<string, Fault>;

/** The attribute of a queue that sends messages to another one when they were received so many times. */
export function redrivePolicy(deadLetterQueueUrl: string, maxReceiveCount: number): string {
  return JSON.stringify({ deadLetterTargetArn: arnOf(nameOf(deadLetterQueueUrl)), maxReceiveCount });
}

/**
 * An SQS server in this process, for the real SDK client and the real worker. It is as strict as SQS where fauxqs is kinder:
 *
 * - A long poll stays open until a message comes for it. A message is handed to one poll, the one that has waited
 *   longest; the others stay open. Messages of one batch go to as many polls as there are.
 * - A poll whose client has gone stays open like any other: what it is handed is in flight, counts as received, and
 *   nobody sees it until its visibility ends.
 * - A receipt handle is void once its message is visible again: a standard queue says that a delete by it was done and does
 *   nothing, a FIFO queue refuses it. No message is hidden for more than twelve hours after its receive.
 * - A message that was received `maxReceiveCount` times moves to the dead-letter queue when it would be received again.
 * - A standard queue gives its messages in another order, and at times fewer than are asked for and there.
 * - A FIFO queue keeps the order of its groups, and drops what it has taken in the last five minutes.
 * - At most `maxInFlight` messages of a queue are in flight: then polls get none, and short polls of a standard queue an error.
 * - Calls and messages are at most 1 MiB, entries at most ten with distinct IDs, their text of the characters that SQS takes,
 *   and their attributes, groups and deduplication IDs as SQS wants them. Requests with unknown keys are refused.
 *
 * A message becomes visible to the millisecond. The order of a standard queue is the same in each run.
 *
 * @param pace how long a second of visibility takes here, or so many seconds do, so that hours pass in a test. @default 1000
 * @param maxInFlight of each queue. @default 120,000, as on SQS
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
 */
export async function startStrictSqs(
  pace: number | ((seconds: number) => number) = 1000,
  { maxInFlight = 120_000 }: { readonly maxInFlight?: number } = {},
) {
  const msOf = typeof pace === 'number' ? (seconds: number) => pace * seconds : pace;
  const queues = new Map<string, Queue>();
  let between: Intercept = () => undefined;
  let aheadMs = 0;

  const queueOf = (name: string): Queue => {
    const queue = queues.get(name);
    if (queue === undefined) throw new Refused(FAULTS.missing);
    return queue;
  };
  const createQueue = (name: string, attributes: Readonly<Record<string, string>> = {}): string => {
    if (!queues.has(name)) queues.set(name, openQueue(name, attributes, { queueOf, msOf, maxInFlight }));
    return `${endpoint}/000000000000/${name}`;
  };
  const operations = operationsOn(queueOf, msOf);

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await text(request);
    const operation = String(request.headers['x-amz-target']).replace(/^AmazonSQS\./, '');
    const named = NAMED_QUEUE.safeParse(JSON.parse(body)).data?.QueueUrl;
    const accessKey = /Credential=([^/]+)/.exec(String(request.headers.authorization))?.[1] ?? '';
    const fault = await between({
      operation,
      queue: named && nameOf(named),
      body,
      accessKey,
      sessionToken: String(request.headers['x-amz-security-token']),
    });
    if (fault === 'silence') return;
    if (fault === 'cut before') return void response.destroy();
    if (typeof fault === 'object') throw new Refused(fault);
    if (Math.abs(signedAt(request) - aheadMs - Date.now()) > MAX_SKEW_MS) throw new Refused(SKEWED);
    const perform = operations[operation];
    if (perform === undefined) throw invalid(`operation ${operation}: this server does not have it`);
    const call = {
      accessKey,
      fails: typeof fault === 'function' ? fault : () => false,
      isTwice: fault === 'duplicates',
    };
    const output = await perform(JSON.parse(body), call);
    if (fault === 'silence after') return;
    if (fault === 'cut after') return void response.destroy();
    if (fault === 'half an answer') {
      const whole = JSON.stringify(output);
      response.writeHead(200, { ...JSON_TYPE, 'content-length': whole.length });
      return void response.write(whole.slice(0, whole.length / 2), () => response.destroy());
    }
    answerWith(response, 200, output);
  };
  const server = createServer((request, response) => {
    response.setHeader('date', new Date(Date.now() + aheadMs).toUTCString());
    answer(request, response).catch((error: unknown) => {
      // The client has gone while it was sending.
      if (request.errored) return;
      const { status, code, message } =
        error instanceof Refused ? error.fault : { status: 500, code: 'InternalFailure', message: String(error) };
      if (code === FAULTS.missing.code) {
        response.setHeader('x-amzn-query-error', 'AWS.SimpleQueueService.NonExistentQueue;Sender');
      }
      answerWith(response, status, { __type: `com.amazonaws.sqs#${code}`, message });
    });
  });
  // A poll may be open for longer than Node lets a request take.
  server.requestTimeout = 0;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('expected a TCP address');
  const endpoint = `http://127.0.0.1:${address.port}`;

  return {
    endpoint,
    /** @returns its URL */
    createQueue,
    /** From now on calls to it fail with `QueueDoesNotExist`, those that are open too. */
    deleteQueue(name: string): void {
      queueOf(name).close();
      queues.delete(name);
    },
    /** @returns its message ID */
    sendMessage(name: string, body: string, group?: string): string {
      const deduplicationId = name.endsWith('.fifo') ? randomUUID() : undefined;
      return queueOf(name).send({ body, group, deduplicationId, attributes: {} }).messageId;
    },
    /** How many messages nobody else can receive now, and how many are to be received. */
    counts(name: string) {
      const { messages } = queueOf(name);
      return { inFlight: countOf(messages, 'in flight'), ready: countOf(messages, 'ready') };
    },
    /** Whole seconds until each message in flight comes back, by its body. */
    secondsInFlight: (name: string): Record<string, number> =>
      Object.fromEntries(
        queueOf(name)
          .messages.filter(({ fate }) => fate === 'in flight')
          .map(({ body, visibleAt }) => [body, Math.ceil((visibleAt - performance.now()) / msOf(1))]),
      ),
    /** Every message that was sent to a queue, in the order of sending, or those from a place on. */
    history: (name: string, from = 0) =>
      queueOf(name)
        .messages.slice(from)
        .map(({ messageId, body, group, attributes, sentAt, receives, fate, ownReceives }) => {
          return { messageId, body, group, attributes, sentAt, receives, fate, ownReceives };
        }),
    /** Ends open polls, and the visibility timeout of all that is in flight, as time does once its host has gone. */
    expire(name: string): void {
      const { messages, hide, endPolls } = queueOf(name);
      endPolls();
      for (const message of messages) if (message.fate === 'in flight') hide(message, 0);
    },
    /** Polls that wait for a message, those included whose client has gone. */
    openPolls: (name: string): number => queueOf(name).openPolls(),
    /** How many messages are neither deleted nor dead. */
    left: (name: string): number => queueOf(name).left(),
    /** Sets the clock of this server: calls that are signed by another one are refused. */
    setClock(ms: number): void {
      aheadMs = ms;
    },
    /** Asks about every call from now on, in place of whoever was asked before. Nobody: every call is answered. */
    intercept(asked: Intercept = () => undefined): void {
      between = asked;
    },
    async stop(): Promise<void> {
      for (const queue of queues.values()) queue.close();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export function nameOf(queueUrl: string): string {
  return queueUrl.slice(queueUrl.lastIndexOf('/') + 1);
}

function arnOf(name: string): string {
  return `arn:aws:sqs:us-east-1:000000000000:${name}`;
}

const MAX_SKEW_MS = 300_000;
const SKEWED: Refusal = { status: 403, code: 'InvalidSignatureException', message: 'Signature not yet current' };

/** @returns when a call was signed, by the clock of its client */
function signedAt({ headers }: IncomingMessage): number {
  const [, ...parts] = /^(....)(..)(..T..)(..)(..Z)$/.exec(String(headers['x-amz-date'])) ?? [];
  const [year, month, hour, minute, second] = parts;
  return Date.parse(`${year}-${month}-${hour}:${minute}:${second}`);
}

const JSON_TYPE = { 'content-type': 'application/x-amz-json-1.0' };

function answerWith(response: ServerResponse, status: number, document: object): void {
  response.writeHead(status, JSON_TYPE).end(JSON.stringify(document));
}

class Refused extends Error {
  readonly fault: Refusal;

  constructor(fault: Refusal) {
    super(fault.message);
    this.fault = fault;
  }
}

function invalid(message: string): Refused {
  return refused('InvalidParameterValue', message);
}

function refused(code: string, message: string): Refused {
  return new Refused({ status: 400, code, message });
}

interface Sent {
  readonly body: string;
  readonly group: string | undefined;
  readonly deduplicationId: string | undefined;
  readonly attributes: Readonly<Record<string, z.infer<typeof ATTRIBUTE>>>;
}

interface Message extends Sent {
  readonly messageId: string;
  /** In the order of sending. */
  readonly place: number;
  readonly sentAt: number;
  firstReceivedAt: number | undefined;
  receives: number;
  /** Of them, those by who had made it visible at once before: a host that hands back what its own polls take again. */
  ownReceives: number;
  handedBackBy: string | undefined;
  /** `dead`: it has gone to the dead-letter queue, where it has a history of its own. */
  fate: 'ready' | 'in flight' | 'deleted' | 'dead';
  /** Of its receives; void once the message is visible. */
  readonly handles: Set<string>;
  receivedAt: number;
  visibleAt: number;
  /** True if it is in flight, and to be received by another all the same. */
  isCopied: boolean;
  timer: NodeJS.Timeout | undefined;
}

function countOf(messages: readonly Message[], fate: Message['fate']): number {
  return messages.filter((message) => message.fate === fate).length;
}

interface Received {
  readonly message: Message;
  readonly receiptHandle: string;
}

interface Queue {
  /** All that were ever sent. */
  readonly messages: readonly Message[];
  left(): number;
  /** @throws Refused if SQS would not take it */
  send(sent: Sent, messageId?: string): Message;
  /** One poll. Resolves with messages, or none once `waitSeconds` are over. */
  receive(asked: z.infer<typeof RECEIVE>, accessKey: string): Promise<readonly Received[]>;
  /** The message in flight whose handle this is. @throws Refused on a FIFO queue, if it was and is not deleted */
  find(receiptHandle: string): Message | undefined;
  remove(message: Message): void;
  /** In flight for so many seconds from now, or visible at 0. */
  hide(message: Message, seconds: number): void;
  /** To be received by another too, while it is in flight. */
  copy(message: Message): void;
  openPolls(): number;
  /** They are answered with nothing. */
  endPolls(): void;
  close(): void;
}

interface QueueOptions {
  readonly queueOf: (name: string) => Queue;
  readonly msOf: (seconds: number) => number;
  readonly maxInFlight: number;
}

const REDRIVE_POLICY = z.object({ deadLetterTargetArn: z.string(), maxReceiveCount: z.coerce.number() });
const DEFAULT_VISIBILITY_SECONDS = 30;
export const MAX_HIDDEN_SECONDS = 43_200;
const DEDUPLICATION_SECONDS = 300;
/** From so many of the messages that are ready a standard queue takes the next. */
const REACH = 20;
/** Of the receives of a standard queue, those that bring fewer messages than there are. */
const PARTIAL_SHARE = 0.25;

function openQueue(
  name: string,
  attributes: Readonly<Record<string, string>>,
  { queueOf, msOf, maxInFlight }: QueueOptions,
): Queue {
  const { RedrivePolicy, VisibilityTimeout = DEFAULT_VISIBILITY_SECONDS, MaximumMessageSize = MAX_BYTES } = attributes;
  const redrive = RedrivePolicy === undefined ? undefined : REDRIVE_POLICY.parse(JSON.parse(RedrivePolicy));
  const messages: Message[] = [];
  const ready: Message[] = [];
  let over = 0;
  /** By receipt handle. */
  const inFlight = new Map<string, Message>();
  const expired = new Map<string, Message>();
  const sentBefore = new Map<string, { readonly message: Message; readonly at: number }>();
  const polls: {
    readonly serve: () => boolean;
    readonly end: () => void;
    readonly refuse: (error: Error) => void;
  }[] = [];
  const isFifo = name.endsWith('.fifo');
  const random = randomOf(0);

  const offer = (message: Message): void => {
    // A message group comes in order, and so does what comes back to it.
    const at = isFifo ? ready.findIndex(({ place }) => place > message.place) : -1;
    ready.splice(at === -1 ? ready.length : at, 0, message);
    serve();
  };
  const release = (message: Message): void => {
    for (const handle of message.handles) {
      inFlight.delete(handle);
      if (isFifo) expired.set(handle, message);
    }
    message.handles.clear();
  };
  const show = (message: Message): void => {
    release(message);
    message.fate = 'ready';
    const isThere = message.isCopied;
    message.isCopied = false;
    if (isThere) serve();
    else offer(message);
  };
  const serve = (): void => {
    while (polls[0]?.serve()) polls.shift();
  };
  const hide: Queue['hide'] = (message, seconds) => {
    clearTimeout(message.timer);
    if (seconds === 0) return show(message);
    message.visibleAt = performance.now() + msOf(seconds);
    message.timer = setTimeout(() => show(message), msOf(seconds)).unref();
  };
  const bury = (message: Message, { deadLetterTargetArn }: z.infer<typeof REDRIVE_POLICY>): void => {
    message.fate = 'dead';
    over += 1;
    queueOf(deadLetterTargetArn.slice(deadLetterTargetArn.lastIndexOf(':') + 1)).send(message, message.messageId);
  };
  const take = (asked: z.infer<typeof RECEIVE>, accessKey: string): readonly Received[] => {
    const all = asked.MaxNumberOfMessages;
    const max = isFifo || random() > PARTIAL_SHARE ? all : 1 + Math.floor(random() * all);
    const held = new Set(isFifo ? Array.from(inFlight.values(), ({ group }) => group) : []);
    const taken: Received[] = [];
    for (let place = 0; taken.length < max && place < ready.length && inFlight.size < maxInFlight; ) {
      const at = isFifo ? place : Math.floor(random() * Math.min(ready.length, REACH));
      const message = ready[at] as Message;
      if (held.has(message.group)) {
        place += 1;
        continue;
      }
      ready.splice(at, 1);
      const { isCopied } = message;
      message.isCopied = false;
      if (redrive !== undefined && message.receives >= redrive.maxReceiveCount) {
        // The other receive of a copy may still have it deleted.
        if (!isCopied) bury(message, redrive);
        continue;
      }
      message.receives += 1;
      if (message.handedBackBy === accessKey) message.ownReceives += 1;
      message.handedBackBy = undefined;
      message.firstReceivedAt ??= Date.now();
      message.receivedAt = performance.now();
      message.fate = 'in flight';
      const receiptHandle = randomUUID();
      message.handles.add(receiptHandle);
      inFlight.set(receiptHandle, message);
      taken.push({ message, receiptHandle });
    }
    for (const { message } of taken) hide(message, asked.VisibilityTimeout ?? Number(VisibilityTimeout));
    return taken;
  };
  return {
    messages,
    send(sent, messageId = randomUUID()) {
      checkMessage(sent, isFifo, Number(MaximumMessageSize));
      const { body, group, deduplicationId, attributes } = sent;
      const known = sentBefore.get(deduplicationId ?? '');
      if (known !== undefined && performance.now() < known.at + msOf(DEDUPLICATION_SECONDS)) return known.message;
      const fresh = { messageId, place: messages.length, sentAt: Date.now(), firstReceivedAt: undefined, receives: 0 };
      const unheld = { ownReceives: 0, handedBackBy: undefined, receivedAt: 0, visibleAt: 0, timer: undefined };
      const free = { handles: new Set<string>(), isCopied: false, fate: 'ready' as const };
      const message: Message = { body, group, deduplicationId, attributes, ...fresh, ...unheld, ...free };
      messages.push(message);
      if (deduplicationId !== undefined) sentBefore.set(deduplicationId, { message, at: performance.now() });
      offer(message);
      return message;
    },
    left: () => messages.length - over,
    async receive(asked, accessKey) {
      const atOnce = take(asked, accessKey);
      if (atOnce.length > 0) return atOnce;
      if (asked.WaitTimeSeconds === 0) {
        if (isFifo || inFlight.size < maxInFlight) return atOnce;
        throw refused('OverLimit', `Too many messages in flight: at most ${maxInFlight}.`);
      }
      const { promise, resolve, reject } = Promise.withResolvers<readonly Received[]>();
      const poll = {
        serve() {
          const taken = take(asked, accessKey);
          if (taken.length > 0) resolve(taken);
          return taken.length > 0;
        },
        end: () => resolve([]),
        refuse: reject,
      };
      polls.push(poll);
      const timer = setTimeout(() => {
        polls.splice(polls.indexOf(poll), 1);
        resolve([]);
      }, 1000 * asked.WaitTimeSeconds).unref();
      return await promise.finally(() => clearTimeout(timer));
    },
    find(receiptHandle) {
      const fate = expired.get(receiptHandle)?.fate;
      if (fate === 'ready' || fate === 'in flight') {
        throw invalid(`Value ${receiptHandle} for parameter ReceiptHandle is invalid. Reason: it has expired.`);
      }
      return inFlight.get(receiptHandle);
    },
    remove(message) {
      clearTimeout(message.timer);
      release(message);
      if (message.isCopied) ready.splice(ready.indexOf(message), 1);
      message.fate = 'deleted';
      over += 1;
      // The next of its message group may be received now.
      serve();
    },
    hide,
    copy(message) {
      if (message.fate !== 'in flight' || message.isCopied) return;
      message.isCopied = true;
      offer(message);
    },
    openPolls: () => polls.length,
    endPolls() {
      for (const { end } of polls.splice(0)) end();
    },
    close() {
      for (const { timer } of messages) clearTimeout(timer);
      for (const { refuse } of polls.splice(0)) refuse(new Refused(FAULTS.missing));
    },
  };
}

const MAX_BYTES = 1_048_576;
const MAX_ATTRIBUTES = 10;
/** Of `MessageGroupId` and `MessageDeduplicationId`. */
const FIFO_ID = /^[\w!"#$%&'()*+,./:;<=>?@[\]^`{|}~\\-]{1,128}$/;
const ATTRIBUTE_NAME = /^(?!(?:aws|amazon)\.)(?!\.)(?!.*\.(?:\.|$))[\w.-]{1,256}$/i;
const ATTRIBUTE_TYPE = /^(?:String|Number|Binary)(?:\..+)?$/;
const NOT_ALLOWED = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/u;

/** @throws Refused, worded as SQS does */
function checkMessage(sent: Sent, isFifo: boolean, maxBytes: number): void {
  const { body, group, deduplicationId, attributes } = sent;
  const texts = [body, ...Object.values(attributes).map(({ StringValue = '' }) => StringValue)];
  if (texts.some((one) => NOT_ALLOWED.test(one))) {
    const allowed = '#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF';
    throw refused('InvalidMessageContents', `Invalid characters found. Valid unicode characters are ${allowed}`);
  }
  if (bytesOf(sent) > maxBytes) {
    throw invalid(`One or more parameters are invalid. Reason: Message must be shorter than ${maxBytes} bytes.`);
  }
  const named = Object.entries(attributes);
  if (named.length > MAX_ATTRIBUTES)
    throw invalid(`Number of message attributes [${named.length}] exceeds the allowed`);
  for (const [name, { DataType, StringValue = '', BinaryValue = '' }] of named) {
    const isValue = DataType.startsWith('Number') ? Number.isFinite(Number(StringValue || 'none')) : StringValue !== '';
    const isValid = ATTRIBUTE_NAME.test(name) && ATTRIBUTE_TYPE.test(DataType) && (isValue || BinaryValue !== '');
    if (!isValid) throw invalid(`The message attribute '${name}' is invalid.`);
  }
  for (const [parameter, id] of Object.entries({ MessageGroupId: group, MessageDeduplicationId: deduplicationId })) {
    if (id !== undefined && !FIFO_ID.test(id)) throw invalid(`Value ${id} for parameter ${parameter} is invalid.`);
  }
  if (isFifo && group === undefined) {
    throw refused('MissingParameter', 'The request must contain the parameter MessageGroupId.');
  }
  if (isFifo && deduplicationId === undefined) {
    throw invalid('The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided');
  }
  if (!isFifo && deduplicationId !== undefined) {
    throw invalid('The request includes a parameter that is not valid for this queue type: MessageDeduplicationId.');
  }
}

/** As SQS counts them. */
function bytesOf({ body, attributes }: Sent): number {
  return Object.entries(attributes).reduce(
    (sum, [name, { DataType, StringValue = '', BinaryValue = '' }]) =>
      sum + Buffer.byteLength(name + DataType + StringValue) + Buffer.byteLength(BinaryValue, 'base64'),
    Buffer.byteLength(body),
  );
}

const MAX_ENTRIES = 10;
const NAMED_QUEUE = z.object({ QueueUrl: z.string() });
const QUEUE = { QueueUrl: z.string() };
const NAMES = z.array(z.string()).default([]);
const ATTRIBUTE = z.strictObject({
  DataType: z.string(),
  StringValue: z.string().optional(),
  BinaryValue: z.string().optional(),
});
const MESSAGE = {
  MessageBody: z.string().min(1),
  MessageAttributes: z.record(z.string(), ATTRIBUTE).default({}),
  MessageGroupId: z.string().optional(),
  MessageDeduplicationId: z.string().optional(),
};
const HANDLE = { ReceiptHandle: z.string() };
const VISIBILITY = { ...HANDLE, VisibilityTimeout: z.int().min(0).max(MAX_HIDDEN_SECONDS) };
const RECEIVE = z.strictObject({
  ...QUEUE,
  MaxNumberOfMessages: z.int().min(1).max(MAX_ENTRIES).default(1),
  WaitTimeSeconds: z.int().min(0).max(20).default(0),
  VisibilityTimeout: z.int().min(0).max(MAX_HIDDEN_SECONDS).optional(),
  AttributeNames: NAMES,
  MessageSystemAttributeNames: NAMES,
  MessageAttributeNames: NAMES,
});

function batchOf<S extends z.ZodRawShape>(entry: S) {
  return z.strictObject({ ...QUEUE, Entries: z.array(z.strictObject({ Id: z.string(), ...entry })) });
}

/** @throws Refused for the whole call */
function checkEntries(entries: readonly { readonly Id: string }[]): void {
  if (entries.length === 0) throw refused('EmptyBatchRequest', 'There should be at least one entry in the request.');
  if (entries.length > MAX_ENTRIES) {
    const message = `Maximum number of entries per request are ${MAX_ENTRIES}. You have sent ${entries.length}.`;
    throw refused('TooManyEntriesInBatchRequest', message);
  }
  const ids = entries.map(({ Id }) => Id);
  const odd = ids.find((id) => !/^[\w-]{1,80}$/.test(id));
  if (odd !== undefined) throw refused('InvalidBatchEntryId', `Id ${odd} is not a valid batch entry ID.`);
  if (new Set(ids).size < ids.length)
    throw refused('BatchEntryIdsNotDistinct', 'Two or more entries have the same Id.');
}

/** What an operation is told besides: who calls, and what is to go wrong. */
interface Call {
  readonly accessKey: string;
  readonly fails: (entry: number) => boolean;
  /** True if what is received is to be received by others too. */
  readonly isTwice: boolean;
}

type Operations = Readonly<Record<string, (input: unknown, call: Call) => object | Promise<object>>>;

function operationsOn(queueOf: (name: string) => Queue, msOf: (seconds: number) => number): Operations {
  const at = (url: string): Queue => queueOf(nameOf(url));
  const parse = <S extends z.ZodType>(schema: S, input: unknown): z.infer<S> => {
    const { data, error } = schema.safeParse(input);
    if (error !== undefined) throw invalid(z.prettifyError(error));
    return data as z.infer<S>;
  };
  return {
    SendMessageBatch(input, { fails }) {
      const { QueueUrl, Entries } = parse(batchOf(MESSAGE), input);
      const queue = at(QueueUrl);
      checkEntries(Entries);
      const entries = Entries.map((entry) => ({ ...entry, sent: sentBy(entry) }));
      const bytes = entries.reduce((sum, { sent }) => sum + bytesOf(sent), 0);
      if (bytes > MAX_BYTES) {
        const message = `Batch requests cannot be longer than ${MAX_BYTES} bytes. You have sent ${bytes} bytes.`;
        throw refused('BatchRequestTooLong', message);
      }
      return eachOf(entries, fails, ({ sent }) => {
        const { messageId, place } = queue.send(sent);
        const order = sent.deduplicationId === undefined ? {} : { SequenceNumber: String(place) };
        return { MessageId: messageId, MD5OfMessageBody: md5(sent.body), ...order };
      });
    },
    async ReceiveMessage(input, { accessKey, isTwice }) {
      const asked = parse(RECEIVE, input);
      const queue = at(asked.QueueUrl);
      const messages = await queue.receive(asked, accessKey);
      const Messages = messages.map((one) => received(one, asked));
      if (isTwice) for (const { message } of messages) queue.copy(message);
      return messages.length === 0 ? {} : { Messages };
    },
    DeleteMessageBatch(input, { fails }) {
      const { QueueUrl, Entries } = parse(batchOf(HANDLE), input);
      const queue = at(QueueUrl);
      checkEntries(Entries);
      return eachOf(Entries, fails, ({ ReceiptHandle }) => {
        const message = queue.find(ReceiptHandle);
        if (message !== undefined) queue.remove(message);
        return undefined;
      });
    },
    ChangeMessageVisibilityBatch(input, { accessKey, fails }) {
      const { QueueUrl, Entries } = parse(batchOf(VISIBILITY), input);
      const queue = at(QueueUrl);
      checkEntries(Entries);
      return eachOf(Entries, fails, ({ ReceiptHandle, VisibilityTimeout }) => {
        const message = queue.find(ReceiptHandle);
        if (message === undefined) throw refused('MessageNotInflight', 'The message is not in flight.');
        const sinceReceive = performance.now() - message.receivedAt;
        if (VisibilityTimeout > 0 && sinceReceive + msOf(VisibilityTimeout) > msOf(MAX_HIDDEN_SECONDS)) {
          throw invalid(`Total VisibilityTimeout for the message is beyond the limit [${MAX_HIDDEN_SECONDS} seconds].`);
        }
        if (VisibilityTimeout === 0) message.handedBackBy = accessKey;
        queue.hide(message, VisibilityTimeout);
        return undefined;
      });
    },
  };
}

function sentBy(entry: z.infer<z.ZodObject<typeof MESSAGE>>): Sent {
  const { MessageBody, MessageAttributes, MessageGroupId, MessageDeduplicationId } = entry;
  return {
    ...{ body: MessageBody, attributes: MessageAttributes },
    ...{ group: MessageGroupId, deduplicationId: MessageDeduplicationId },
  };
}

/** Does something to every entry; one that is refused fails alone. */
function eachOf<E extends { readonly Id: string }>(
  entries: readonly E[],
  fails: (entry: number) => boolean,
  perform: (entry: E) => object | undefined,
): object {
  const Successful: object[] = [];
  const Failed: object[] = [];
  for (const [index, entry] of entries.entries()) {
    if (fails(index)) {
      Failed.push({ Id: entry.Id, Code: 'InternalError', Message: 'try later', SenderFault: false });
      continue;
    }
    try {
      Successful.push({ Id: entry.Id, ...perform(entry) });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const { code, message } = error.fault;
      Failed.push({ Id: entry.Id, Code: code, Message: message, SenderFault: true });
    }
  }
  return { Successful, Failed };
}

function received({ message, receiptHandle }: Received, asked: z.infer<typeof RECEIVE>): object {
  const { messageId, body, place, group, deduplicationId, attributes, receives, sentAt, firstReceivedAt } = message;
  const system: Record<string, string> = {
    ApproximateReceiveCount: String(receives),
    ApproximateFirstReceiveTimestamp: String(firstReceivedAt),
    SentTimestamp: String(sentAt),
    SenderId: 'test',
    ...(group !== undefined && { MessageGroupId: group }),
    ...(deduplicationId !== undefined && { MessageDeduplicationId: deduplicationId, SequenceNumber: String(place) }),
  };
  return {
    MessageId: messageId,
    ReceiptHandle: receiptHandle,
    Body: body,
    MD5OfBody: md5(body),
    Attributes: pick(system, [...asked.AttributeNames, ...asked.MessageSystemAttributeNames]),
    MessageAttributes: pick(attributes, asked.MessageAttributeNames),
  };
}

function pick<V>(all: Readonly<Record<string, V>>, names: readonly string[]): Readonly<Record<string, V>> {
  if (names.includes('All') || names.includes('.*')) return all;
  return Object.fromEntries(Object.entries(all).filter(([name]) => names.includes(name)));
}

function md5(body: string): string {
  return createHash('md5').update(body).digest('hex');
}

export const MAX_SEED = 2_147_483_645;

/** Numbers from 0 to below 1 that are the same for a seed, from 0 to `MAX_SEED`. */
export function randomOf(seed: number): () => number {
  let state = seed + 1;
  const next = (): number => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  for (let warm = 0; warm < 8; warm++) next();
  return next;
}
