import { createHash } from 'node:crypto';
import {
  type BatchResultErrorEntry,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import { MAX_MESSAGE_BYTES, type RetryOptions, retryRemaining } from '../lambda/aws/sendBatches.ts';
import { deferred } from '../lambda/core/concurrency.ts';
import { SendError } from './clientErrors.ts';
import {
  createWaitingMessages,
  type Entry,
  type OffloadOptions,
  offloaded,
  type Packing,
  packedEntry,
  type Sent,
  type Waiting,
} from './packRequests.ts';
import type { Payloads } from './payloadBucket.ts';
import { idInPacked } from './readResult.ts';

interface RequestOutboxOptions extends OffloadOptions {
  readonly sqs: SQSClient;
  /** One for each shard, all of one kind. */
  readonly requestQueueUrls: readonly string[];
  readonly fifo: boolean;
  /** Most calls in flight; on FIFO queues for each of them. */
  readonly maxInFlight: number;
  readonly limit: QueueLimit;
  readonly payloads: Payloads | undefined;
  readonly closing: AbortSignal;
}

/**
 * The outbox of the request queue. The calls of standard queues take the shards in turn, so that each call is full. FIFO
 * queues have an outbox each, and each message group has its queue: what is in order stays in one.
 *
 * @returns undefined where there is no request queue
 */
export function createRequestOutbox(options: RequestOutboxOptions): Outbox | undefined {
  const { requestQueueUrls, fifo } = options;
  if (requestQueueUrls.length === 0) return undefined;
  if (!fifo) {
    const turns = inTurn(requestQueueUrls);
    return outboxTo(() => turns.next().value, options);
  }
  const shards = requestQueueUrls.map((queueUrl) => ({ queueUrl, outbox: outboxTo(() => queueUrl, options) }));
  return {
    send: (entry, packing, signal) => shardOf(entry.group ?? '', shards).outbox.send(entry, packing, signal),
    async room() {
      await Promise.all(shards.map(({ outbox }) => outbox.room()));
    },
  };
}

/** @param nextQueueUrl where the next call goes */
function outboxTo(nextQueueUrl: () => string, options: RequestOutboxOptions): Outbox {
  const { sqs, maxInFlight, limit, payloads, closing } = options;
  return createOutbox({
    pack: (requests) => {
      const entry = packedEntry(requests);
      const fits = requests.length === 1 || entry.bytes <= limit.bytes();
      return fits ? entry : offloaded(entry, options, limit.bytes());
    },
    sendCall: (entries) => sendCall(sqs, nextQueueUrl(), entries),
    offload: async ({ payload }) => {
      if (payload !== undefined) await payloads?.put(payload.pointer, payload.text);
    },
    shrink: (entry, maxBytes) => {
      limit.lower(maxBytes);
      return offloaded(entry, options, maxBytes);
    },
    maxBytes: () => limit.bytes(),
    maxInFlight,
    closing,
  });
}

interface OutboxOptions extends Omit<DeliveryOptions, 'putBack'> {
  /** Most bytes of the bodies in a call, as far as is known now. */
  readonly maxBytes: () => number;
  /** Most calls in flight. */
  readonly maxInFlight: number;
  /** How long the first request of a call waits for others, in milliseconds. @default 5 */
  readonly lingerMs?: number;
}

/** Gathers the requests of all callers into messages, and messages into batch calls. */
export interface Outbox {
  /**
   * Resolves once SQS has taken the request. One whose `signal` aborts before a call holds it is not sent and rejects
   * with the signal's reason; after that, the call settles it.
   *
   * @param packing which requests it may share a message with
   */
  send(entry: Entry, packing: Packing, signal?: AbortSignal): Promise<Sent>;
  /** Resolves when less than a call's worth waits to be sent. */
  room(): Promise<void>;
}

/** A call leaves when it is full or its first request has lingered, and a place in flight is free. */
function createOutbox(options: OutboxOptions): Outbox {
  const { maxBytes, maxInFlight, lingerMs = 5 } = options;
  const waiting = createWaitingMessages();
  let inFlight = 0;
  let lingered = false;
  let timer: NodeJS.Timeout | undefined;
  let changed = deferred();

  const isFull = (): boolean => waiting.isFull(maxBytes());
  const putBack: DeliveryOptions['putBack'] = (requests) => {
    waiting.putBack(requests);
    lingered = true;
  };
  const launchDue = (): void => {
    while (!waiting.isEmpty() && inFlight < maxInFlight && (lingered || isFull())) {
      inFlight++;
      void deliver(waiting.takeCall(maxBytes(), lingered), { ...options, putBack }).finally(() => {
        inFlight--;
        launchDue();
      });
    }
    if (waiting.isEmpty()) {
      clearTimeout(timer);
      timer = undefined;
      lingered = false;
    }
    changed.resolve();
    changed = deferred();
  };

  return {
    send: (entry, packing, signal) =>
      new Promise((resolve, reject) => {
        waiting.add({ entry, packing, signal, resolve, reject });
        timer ??= setTimeout(() => {
          lingered = true;
          launchDue();
        }, lingerMs);
        if (isFull()) launchDue();
      }),
    async room() {
      while (isFull()) await changed.promise;
    },
  };
}

interface DeliveryOptions {
  /** One message of the requests that share it. */
  readonly pack: (requests: readonly Entry[]) => Entry;
  /** Sends one call; verdicts align with `entries`. */
  readonly sendCall: (entries: readonly Entry[]) => Promise<SendVerdict[]>;
  /** Puts an entry's payload where its pointer says. */
  readonly offload: (entry: Entry) => Promise<void>;
  /** The same entry, with its body in a payload, for a queue that takes at most `maxBytes`. @throws RequestError */
  readonly shrink: (entry: Entry, maxBytes: number) => Entry;
  /** Takes requests that have to share other messages: fewer at a time. */
  readonly putBack: (requests: readonly Waiting[]) => void;
  /** Aborts when the client is closed: what is not sent by then is rejected. */
  readonly closing: AbortSignal;
  readonly retry?: RetryOptions;
}

/** The requests of one message, and the message. */
interface Outgoing {
  readonly requests: readonly Waiting[];
  entry: Entry;
}

/** Settles every request of a call, sending again what SQS did not take. */
async function deliver(messages: readonly (readonly Waiting[])[], options: DeliveryOptions): Promise<void> {
  const { sendCall, closing, retry } = options;
  const call = packAll(messages, options);
  const refusals = new Map<Outgoing, SendError>();
  try {
    const left = await retryRemaining(
      await offloadAll(call, options),
      async (unsent) => {
        const live = unsent.filter((one) => !refuseAborted(one));
        if (live.length === 0) return [];
        const verdicts = await sendCall(live.map(({ entry }) => entry));
        const fates = await Promise.all(live.map((one, index) => settle(one, verdicts[index], refusals, options)));
        return inOrder(live, fates, options);
      },
      closing,
      retry,
    );
    for (const one of left) reject(one, refusals.get(one) ?? closing.reason);
  } catch (error) {
    for (const one of call) reject(one, error);
  }
}

/** The messages of those whose callers still wait. One that has become too large is put back, with what follows it. */
function packAll(messages: readonly (readonly Waiting[])[], { pack, putBack }: DeliveryOptions): Outgoing[] {
  const packed: Outgoing[] = [];
  for (const [index, message] of messages.entries()) {
    const requests = message.filter((request) => !refuseAbortedRequest(request));
    if (requests.length === 0) continue;
    try {
      packed.push({ requests, entry: pack(requests.map(({ entry }) => entry)) });
    } catch (error) {
      if (requests.length > 1) {
        putBack(messages.slice(index).flat());
        break;
      }
      requests[0]?.reject(error);
    }
  }
  return packed;
}

/** `again`: it is to be sent again. `smaller`: its requests have to share other messages. */
type Fate = 'settled' | 'again' | 'smaller';

/**
 * Puts back the requests of messages that have become too large, and of what is to be sent again behind them: on a FIFO
 * queue they would be overtaken.
 *
 * @returns the messages that are to be sent again as they are
 */
function inOrder(sent: readonly Outgoing[], fates: readonly Fate[], { putBack }: DeliveryOptions): Outgoing[] {
  const open = (from: number, to?: number) =>
    sent.slice(from, to).filter((_, index) => fates[from + index] !== 'settled');
  const first = fates.indexOf('smaller');
  if (first < 0) return open(0);
  putBack(open(first).flatMap(({ requests }) => requests));
  return open(0, first);
}

const NO_VERDICT: Refusal = { message: 'the request queue did not take it: no verdict', again: false };

async function settle(
  one: Outgoing,
  verdict: SendVerdict = NO_VERDICT,
  refusals: Map<Outgoing, SendError>,
  options: DeliveryOptions,
): Promise<Fate> {
  if ('messageId' in verdict) {
    accept(one, verdict.messageId);
    return 'settled';
  }
  const error = toError(verdict);
  refusals.set(one, error);
  const { maxBytes } = verdict;
  if (maxBytes !== undefined && one.entry.payload === undefined) return await shrinkOne(one, maxBytes, options);
  if (!verdict.again) reject(one, error);
  return verdict.again ? 'again' : 'settled';
}

function accept({ requests }: Outgoing, messageId: string): void {
  for (const [position, { resolve }] of requests.entries()) {
    const id = requests.length === 1 ? messageId : idInPacked(messageId, position);
    resolve({ id, requests: requests.length });
  }
}

function reject({ requests }: Outgoing, reason: unknown): void {
  for (const request of requests) request.reject(reason);
}

async function shrinkOne(one: Outgoing, maxBytes: number, options: DeliveryOptions): Promise<Fate> {
  const { requests, entry } = one;
  try {
    one.entry = options.shrink(entry, maxBytes);
  } catch (error) {
    if (requests.length > 1 && entry.bytes > maxBytes) return 'smaller';
    reject(one, error);
    return 'settled';
  }
  return (await offloadOne(one, options)) ? 'again' : 'settled';
}

/** @returns those whose payload lies where their pointer says; the others are rejected */
async function offloadAll(call: readonly Outgoing[], options: DeliveryOptions): Promise<Outgoing[]> {
  const offloaded = await Promise.all(call.map((one) => offloadOne(one, options)));
  return call.filter((_, index) => offloaded[index]);
}

async function offloadOne(one: Outgoing, { offload }: DeliveryOptions): Promise<boolean> {
  if (one.entry.payload === undefined) return true;
  if (refuseAborted(one)) return false;
  try {
    await offload(one.entry);
    return true;
  } catch (cause) {
    const retryable = !isCallersFault(cause);
    const message = `the payload bucket did not take its body: ${describeError(cause)}`;
    reject(one, new SendError(message, retryable, cause));
    return false;
  }
}

/** A message goes on for those of its callers that still wait. */
function refuseAborted({ requests }: Outgoing): boolean {
  if (!requests.every(({ signal }) => signal?.aborted === true)) return false;
  for (const request of requests) refuseAbortedRequest(request);
  return true;
}

function refuseAbortedRequest({ signal, reject: refuse }: Waiting): boolean {
  if (signal?.aborted !== true) return false;
  refuse(signal.reason);
  return true;
}

function toError({ message, again, cause }: Refusal): SendError {
  return new SendError(message, again, cause);
}

/** Why SQS did not take an entry. */
interface Refusal {
  /** Names the queue, which is one of several where there are shards. */
  readonly message: string;
  /** Worth another try. */
  readonly again: boolean;
  /** The most that the queue takes, where the message was too long for it. */
  readonly maxBytes?: number | undefined;
  readonly cause?: unknown;
}

/** What became of one entry in one batch request. */
type SendVerdict = { readonly messageId: string } | Refusal;

/**
 * Sends one batch request of at most 10 entries and 1 MiB. Verdicts align with `entries` by index. A 200 answer may name
 * entries that failed, and an entry that it does not mention failed too. An error of SQS is a verdict, never thrown.
 * Entries that are too long together are sent one by one.
 */
async function sendCall(sqs: SQSClient, queueUrl: string, entries: readonly Entry[]): Promise<SendVerdict[]> {
  try {
    const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries: entries.map(toRequestEntry) });
    const { Successful = [], Failed = [] } = await sqs.send(command);
    const taken = new Map(Successful.map(({ Id, MessageId }) => [Id, MessageId]));
    const refused = new Map(Failed.map((failed) => [failed.Id, failed]));
    return entries.map((_, index): SendVerdict => {
      const messageId = taken.get(String(index));
      return messageId === undefined ? refusalOf(queueUrl, refused.get(String(index))) : { messageId };
    });
  } catch (cause) {
    const reason = describeError(cause);
    const maxBytes = limitIn(reason);
    if (maxBytes !== undefined && entries.length > 1) return await sendEach(sqs, queueUrl, entries);
    const message = notTaken(queueUrl, reason);
    return entries.map(() => ({ message, again: !isCallersFault(cause), maxBytes, cause }));
  }
}

function refusalOf(queueUrl: string, failed: BatchResultErrorEntry | undefined): Refusal {
  const reason = `${failed?.Code ?? 'no answer for this entry'}${failed?.Message ? `: ${failed.Message}` : ''}`;
  return { message: notTaken(queueUrl, reason), again: failed?.SenderFault !== true, maxBytes: limitIn(reason) };
}

function notTaken(queueUrl: string, reason: string): string {
  return `the request queue ${queueNameOf(queueUrl)} did not take it: ${reason}`;
}

/** What SQS says of entries that are too long together, and of one message alone. */
const TOO_LONG = /Batch requests cannot be longer than (\d+) bytes|Message must be shorter than (\d+) bytes/;

function limitIn(reason: string): number | undefined {
  const [, ofRequest, ofMessage] = TOO_LONG.exec(reason) ?? [];
  return ofRequest === undefined && ofMessage === undefined ? undefined : Number(ofRequest ?? ofMessage);
}

/** One after the other. On a FIFO queue none overtakes one that is refused: those behind it are to be sent again. */
async function sendEach(sqs: SQSClient, queueUrl: string, entries: readonly Entry[]): Promise<SendVerdict[]> {
  const verdicts: SendVerdict[] = [];
  for (const [index, entry] of entries.entries()) {
    const [verdict] = await sendCall(sqs, queueUrl, [entry]);
    if (verdict === undefined) throw new Error('expected one verdict on one message');
    verdicts.push(verdict);
    if (queueUrl.endsWith('.fifo') && 'message' in verdict) {
      return [...verdicts, ...entries.slice(index + 1).map((behind) => notItsTurn(queueUrl, behind, verdict))];
    }
  }
  return verdicts;
}

function notItsTurn(queueUrl: string, { bytes }: Entry, { maxBytes = bytes }: Refusal): Refusal {
  const message = notTaken(queueUrl, 'a message before it goes first');
  return { message, again: true, maxBytes: bytes > maxBytes ? maxBytes : undefined };
}

function toRequestEntry(
  { body, attributes, group, deduplicationId }: Entry,
  index: number,
): SendMessageBatchRequestEntry {
  return {
    Id: String(index),
    MessageBody: body,
    MessageAttributes: attributes === undefined ? undefined : { ...attributes },
    MessageGroupId: group,
    MessageDeduplicationId: deduplicationId,
  };
}

/**
 * The shards one after the other, over and over.
 *
 * @param shards at least one
 * @param random says which is the first: many clients that send little would else all begin with the same one
 */
export function* inTurn<T>(shards: readonly T[], random: () => number = Math.random): Generator<T, never> {
  const first = Math.floor(random() * shards.length);
  const order = [...shards.slice(first), ...shards.slice(0, first)];
  for (;;) yield* order;
}

/**
 * The shard of a message group: the one whose name and the group's have the highest hash. It is the same for every client,
 * in whatever order it has the shards; one shard more takes its share of the groups, and leaves the others where they are.
 *
 * @param shards at least one
 * @see https://en.wikipedia.org/wiki/Rendezvous_hashing
 */
export function shardOf<S extends { readonly queueUrl: string }>(group: string, shards: readonly S[]): S {
  const ranked = shards.map((shard) => ({ shard, rank: rankOf(shard.queueUrl, group) }));
  return ranked.reduce((highest, one) => (one.rank > highest.rank ? one : highest)).shard;
}

/** A queue's name is the same whatever endpoint its URL has. */
function queueNameOf(queueUrl: string): string {
  return queueUrl.slice(queueUrl.lastIndexOf('/') + 1);
}

function rankOf(queueUrl: string, group: string): string {
  return createHash('sha256')
    .update(`${queueNameOf(queueUrl)}/${group}`)
    .digest('hex');
}

/** The most that a queue takes in a message. Older queues, and some deployers, set less than the 1 MiB of SQS. */
interface QueueLimit {
  /** 1 MiB until a message was refused. */
  bytes(): number;
  /** Notes what a refusal said. */
  lower(maxBytes: number): void;
}

export function createQueueLimit(): QueueLimit {
  let limit = MAX_MESSAGE_BYTES;
  return {
    bytes: () => limit,
    lower(maxBytes) {
      limit = Math.min(limit, maxBytes);
    },
  };
}
