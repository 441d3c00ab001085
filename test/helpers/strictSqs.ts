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
 * half of an answer, no answer at all, or one that says that each entry failed for which a function says so. Messages that
 * are received as duplicates are visible at once again, so that their receipt handles are void. A promise that takes its
 * time is latency.
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
 * An SQS server in this process, for the real SDK client and the real worker. Where the other local server is kinder
 * than SQS, this one is not:
 *
 * - A long poll stays open until a message comes for it. A message is handed to one poll, the one that has waited
 *   longest; the others stay open. Messages of one batch go to as many polls as there are.
 * - A poll whose client has gone stays open like any other: what it is handed is in flight, counts as received, and
 *   nobody sees it until its visibility ends.
 * - A receipt handle is void once its message is visible again.
 * - A message that was received `maxReceiveCount` times moves to the dead-letter queue when it would be received again.
 * - Requests with unknown keys, or more than ten entries, are refused.
 *
 * A message becomes visible to the millisecond. FIFO queues keep the order of their groups; they do not deduplicate.
 *
 * @param pace how long a second of visibility takes here, or so many seconds do, so that hours pass in a test. @default 1000
 */
export async function startStrictSqs(pace: number | ((seconds: number) => number) = 1000) {
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
    if (!queues.has(name)) queues.set(name, openQueue(name, attributes, queueOf, msOf));
    return `${endpoint}/000000000000/${name}`;
  };
  const operations = operationsOn(queueOf);

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
    sendMessage: (name: string, body: string, group?: string): string =>
      queueOf(name).send({ body, group, attributes: {} }).messageId,
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
  return new Refused({ status: 400, code: 'InvalidParameterValue', message });
}

interface Sent {
  readonly body: string;
  readonly group: string | undefined;
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
  /** Of the last receive; void once the message is visible. */
  receiptHandle: string;
  visibleAt: number;
  timer: NodeJS.Timeout | undefined;
}

function countOf(messages: readonly Message[], fate: Message['fate']): number {
  return messages.filter((message) => message.fate === fate).length;
}

interface Queue {
  /** All that were ever sent. */
  readonly messages: readonly Message[];
  left(): number;
  send(sent: Sent, messageId?: string): Message;
  /** One poll. Resolves with messages, or none once `waitSeconds` are over. */
  receive(asked: z.infer<typeof RECEIVE>, accessKey: string): Promise<readonly Message[]>;
  /** The message in flight whose handle this is. */
  find(receiptHandle: string): Message | undefined;
  remove(message: Message): void;
  /** In flight for so many seconds from now, or visible at 0. */
  hide(message: Message, seconds: number): void;
  openPolls(): number;
  /** They are answered with nothing. */
  endPolls(): void;
  close(): void;
}

const REDRIVE_POLICY = z.object({ deadLetterTargetArn: z.string(), maxReceiveCount: z.coerce.number() });
const DEFAULT_VISIBILITY_SECONDS = 30;

function openQueue(
  name: string,
  attributes: Readonly<Record<string, string>>,
  queueOf: (name: string) => Queue,
  msOf: (seconds: number) => number,
): Queue {
  const { RedrivePolicy, VisibilityTimeout = DEFAULT_VISIBILITY_SECONDS } = attributes;
  const redrive = RedrivePolicy === undefined ? undefined : REDRIVE_POLICY.parse(JSON.parse(RedrivePolicy));
  const messages: Message[] = [];
  const ready: Message[] = [];
  let over = 0;
  const inFlight = new Map<string, Message>();
  const polls: {
    readonly serve: () => boolean;
    readonly end: () => void;
    readonly refuse: (error: Error) => void;
  }[] = [];
  const isFifo = name.endsWith('.fifo');

  const show = (message: Message): void => {
    inFlight.delete(message.receiptHandle);
    message.fate = 'ready';
    // A message group comes in order, and so does what comes back to it.
    const at = isFifo ? ready.findIndex(({ place }) => place > message.place) : -1;
    ready.splice(at === -1 ? ready.length : at, 0, message);
    serve();
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
  const take = (asked: z.infer<typeof RECEIVE>, accessKey: string): readonly Message[] => {
    const max = asked.MaxNumberOfMessages;
    const held = new Set(isFifo ? Array.from(inFlight.values(), ({ group }) => group) : []);
    const taken: Message[] = [];
    for (let place = 0; taken.length < max && place < ready.length; ) {
      const message = ready[place] as Message;
      if (isFifo && held.has(message.group)) {
        place += 1;
        continue;
      }
      ready.splice(place, 1);
      if (redrive !== undefined && message.receives >= redrive.maxReceiveCount) {
        bury(message, redrive);
        continue;
      }
      message.receives += 1;
      if (message.handedBackBy === accessKey) message.ownReceives += 1;
      message.handedBackBy = undefined;
      message.firstReceivedAt ??= Date.now();
      message.fate = 'in flight';
      message.receiptHandle = randomUUID();
      inFlight.set(message.receiptHandle, message);
      taken.push(message);
    }
    for (const message of taken) hide(message, asked.VisibilityTimeout ?? Number(VisibilityTimeout));
    return taken;
  };
  return {
    messages,
    send(sent, messageId = randomUUID()) {
      const { body, group, attributes } = sent;
      const fresh = { messageId, place: messages.length, sentAt: Date.now(), firstReceivedAt: undefined, receives: 0 };
      const unheld = { ownReceives: 0, handedBackBy: undefined, receiptHandle: '', visibleAt: 0, timer: undefined };
      const message: Message = { body, group, attributes, ...fresh, ...unheld, fate: 'ready' };
      messages.push(message);
      show(message);
      return message;
    },
    left: () => messages.length - over,
    async receive(asked, accessKey) {
      const atOnce = take(asked, accessKey);
      if (atOnce.length > 0 || asked.WaitTimeSeconds === 0) return atOnce;
      const { promise, resolve, reject } = Promise.withResolvers<readonly Message[]>();
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
    find: (receiptHandle) => inFlight.get(receiptHandle),
    remove(message) {
      clearTimeout(message.timer);
      inFlight.delete(message.receiptHandle);
      message.fate = 'deleted';
      over += 1;
      // The next of its message group may be received now.
      serve();
    },
    hide,
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
const VISIBILITY = { ...HANDLE, VisibilityTimeout: z.int().min(0).max(43_200) };
const RECEIVE = z.strictObject({
  ...QUEUE,
  MaxNumberOfMessages: z.int().min(1).max(MAX_ENTRIES).default(1),
  WaitTimeSeconds: z.int().min(0).max(20).default(0),
  VisibilityTimeout: z.int().min(0).max(43_200).optional(),
  AttributeNames: NAMES,
  MessageSystemAttributeNames: NAMES,
  MessageAttributeNames: NAMES,
});

function batchOf<S extends z.ZodRawShape>(entry: S) {
  return z.strictObject({
    ...QUEUE,
    Entries: z
      .array(z.strictObject({ Id: z.string(), ...entry }))
      .min(1)
      .max(MAX_ENTRIES),
  });
}

/** What an operation is told besides: who calls, and what is to go wrong. */
interface Call {
  readonly accessKey: string;
  readonly fails: (entry: number) => boolean;
  /** True if what is received is to be received by others too. */
  readonly isTwice: boolean;
}

type Operations = Readonly<Record<string, (input: unknown, call: Call) => object | Promise<object>>>;

function operationsOn(queueOf: (name: string) => Queue): Operations {
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
      return eachOf(Entries, fails, ({ MessageBody, MessageAttributes, MessageGroupId }) => {
        const sent = { body: MessageBody, group: MessageGroupId, attributes: MessageAttributes };
        return { MessageId: queue.send(sent).messageId, MD5OfMessageBody: md5(MessageBody) };
      });
    },
    async ReceiveMessage(input, { accessKey, isTwice }) {
      const asked = parse(RECEIVE, input);
      const queue = at(asked.QueueUrl);
      const messages = await queue.receive(asked, accessKey);
      const Messages = messages.map((message) => received(message, asked));
      if (isTwice) for (const message of messages) queue.hide(message, 0);
      return messages.length === 0 ? {} : { Messages };
    },
    DeleteMessageBatch(input, { fails }) {
      const { QueueUrl, Entries } = parse(batchOf(HANDLE), input);
      const queue = at(QueueUrl);
      return eachOf(Entries, fails, ({ ReceiptHandle }) => {
        const message = queue.find(ReceiptHandle);
        // SQS says that a delete by an old handle was done, and does nothing.
        if (message !== undefined) queue.remove(message);
        return undefined;
      });
    },
    ChangeMessageVisibilityBatch(input, { accessKey, fails }) {
      const { QueueUrl, Entries } = parse(batchOf(VISIBILITY), input);
      const queue = at(QueueUrl);
      return eachOf(Entries, fails, ({ ReceiptHandle, VisibilityTimeout }) => {
        const message = queue.find(ReceiptHandle);
        if (message === undefined) {
          throw new Refused({ status: 400, code: 'MessageNotInflight', message: 'The message is not in flight.' });
        }
        if (VisibilityTimeout === 0) message.handedBackBy = accessKey;
        queue.hide(message, VisibilityTimeout);
        return undefined;
      });
    },
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

function received(message: Message, asked: z.infer<typeof RECEIVE>): object {
  const { messageId, receiptHandle, body, group, attributes, receives, sentAt, firstReceivedAt } = message;
  const system: Record<string, string> = {
    ApproximateReceiveCount: String(receives),
    ApproximateFirstReceiveTimestamp: String(firstReceivedAt),
    SentTimestamp: String(sentAt),
    SenderId: 'test',
    ...(group === undefined ? {} : { MessageGroupId: group }),
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
