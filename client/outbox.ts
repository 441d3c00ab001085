import { createHash } from 'node:crypto';
import {
  type BatchResultErrorEntry,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import { retryRemaining } from '../lambda/aws/sendBatches.ts';
import { MAX_MESSAGE_BYTES } from '../lambda/core/limits.ts';
import { POINTER_ATTRIBUTES, pointerBody } from '../lambda/core/record.ts';
import { RequestError, SendError } from './clientErrors.ts';
import type { ScoreRequest } from './encodeRequest.ts';
import {
  type Entry,
  packedEntry,
  type RequestsPerMessage,
  type Sent,
  type Waiting,
  WaitingMessages,
} from './packRequests.ts';
import type { Payloads } from './payloadBucket.ts';
import { idInPacked } from './readResult.ts';

/** Sends requests that share messages in one way. */
export interface Sender extends Pick<Outbox, 'room'> {
  /** @throws RequestError at once when the request cannot be encoded, or cannot be sent to such a queue */
  send(request: ScoreRequest, signal?: AbortSignal): Promise<Sent>;
}

/** Gathers the requests of all callers into messages, and messages into batch calls. */
export interface Outbox {
  /**
   * Resolves once SQS has taken the request. One whose `signal` aborts before a call holds it is not sent and rejects
   * with the signal's reason; after that, the call settles it.
   *
   * @throws RequestError at once when the queue is known not to take so much and there is no payload bucket
   */
  send(entry: Entry, perMessage: RequestsPerMessage, signal?: AbortSignal): Promise<Sent>;
  /** Resolves when less than a call's worth waits to be sent. */
  room(): Promise<void>;
}

interface OutboxOptions {
  readonly sqs: SQSClient;
  /** One for each shard, all of one kind. */
  readonly requestQueueUrls: readonly string[];
  readonly fifo: boolean;
  /** Most calls in flight; on FIFO queues for each of them. */
  readonly maxInFlight: number;
  /** Undefined without a payload bucket. */
  readonly payloads: Payloads | undefined;
  /** Aborts when the client is closed: what is not sent by then is rejected. */
  readonly closing: AbortSignal;
}

/**
 * The outbox of the request queue. The calls of standard queues take the shards in turn, so that each call is full. FIFO
 * queues have an outbox each, and each message group has its queue: what is in order stays in one.
 *
 * @returns undefined where there is no request queue
 */
export function createOutbox(options: OutboxOptions): Outbox | undefined {
  const { requestQueueUrls, fifo } = options;
  if (requestQueueUrls.length === 0) return undefined;
  if (!fifo) return new QueueOutbox(requestQueueUrls, options);
  const shards = requestQueueUrls.map((queueUrl) => ({ queueUrl, outbox: new QueueOutbox([queueUrl], options) }));
  return {
    send: (entry, perMessage, signal) => shardOf(entry.group ?? '', shards).outbox.send(entry, perMessage, signal),
    async room() {
      await Promise.all(shards.map(({ outbox }) => outbox.room()));
    },
  };
}

/** How long the first request of a call waits for others. */
const LINGER_MS = 5;

interface Outgoing {
  readonly requests: readonly Waiting[];
  readonly message: Omit<SendMessageBatchRequestEntry, 'Id'> & { readonly MessageBody: string };
  /** Why SQS did not take it the last time. */
  refused?: SendError;
}

/** A call leaves when it is full or its first request has lingered, and a place in flight is free. */
class QueueOutbox implements Outbox {
  readonly #queueUrls: readonly string[];
  readonly #options: OutboxOptions;
  readonly #waiting: WaitingMessages;
  /** Many clients that send little would else all begin with the same shard. */
  #turn: number;
  #inFlight = 0;
  #lingered = false;
  #timer: NodeJS.Timeout | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(queueUrls: readonly string[], options: OutboxOptions) {
    this.#queueUrls = queueUrls;
    this.#options = options;
    this.#waiting = new WaitingMessages(options.payloads !== undefined);
    this.#turn = Math.floor(Math.random() * queueUrls.length);
  }

  send(entry: Entry, perMessage: RequestsPerMessage, signal?: AbortSignal): Promise<Sent> {
    const { maxBytes } = this.#waiting;
    if (entry.bytes > maxBytes && this.#options.payloads === undefined) throw tooLarge(entry, maxBytes);
    return new Promise((resolve, reject) => {
      this.#waiting.add({ entry, perMessage, signal, resolve, reject });
      this.#timer ??= setTimeout(() => {
        this.#lingered = true;
        this.#launchDue();
      }, LINGER_MS);
      if (this.#waiting.isFull()) this.#launchDue();
    });
  }

  async room(): Promise<void> {
    while (this.#waiting.isFull()) await this.#changed.promise;
  }

  #launchDue(): void {
    const { maxInFlight } = this.#options;
    while (!this.#waiting.isEmpty() && this.#inFlight < maxInFlight && (this.#lingered || this.#waiting.isFull())) {
      this.#inFlight++;
      void this.#deliver(this.#waiting.takeCall(this.#lingered)).finally(() => {
        this.#inFlight--;
        this.#launchDue();
      });
    }
    if (this.#waiting.isEmpty()) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#lingered = false;
    }
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  /** Settles every request of a call, sending again what SQS did not take; or puts requests back to share other messages. */
  async #deliver(call: readonly (readonly Waiting[])[]): Promise<void> {
    const { closing } = this.#options;
    try {
      const prepared = await Promise.all(call.map((requests) => this.#prepare(requests)));
      const messages = prepared.filter((message) => message !== undefined);
      const left = await retryRemaining(messages, (unsent) => this.#sendOnce(unsent), closing);
      for (const one of left) reject(one.requests, one.refused ?? closing.reason);
    } catch (error) {
      reject(call.flat(), error);
    }
  }

  /** @returns undefined when its callers have left, or it cannot be sent, which they are told */
  async #prepare(all: readonly Waiting[]): Promise<Outgoing | undefined> {
    const requests = all.filter((request) => !refuseAborted([request]));
    if (requests.length === 0) return undefined;
    const entry = packedEntry(requests.map((request) => request.entry));
    const routing = { MessageGroupId: entry.group, MessageDeduplicationId: entry.deduplicationId };
    const { maxBytes } = this.#waiting;
    if (entry.bytes <= maxBytes) return { requests, message: { MessageBody: entry.body, ...routing } };
    const { payloads } = this.#options;
    try {
      if (payloads === undefined) throw tooLarge(entry, maxBytes);
      const MessageBody = pointerBody(await payloads.put(entry.body));
      const size = { DataType: 'Number', StringValue: String(entry.bytes) };
      return { requests, message: { MessageBody, MessageAttributes: { [POINTER_ATTRIBUTES[0]]: size }, ...routing } };
    } catch (cause) {
      reject(requests, cause instanceof RequestError ? cause : notOffloaded(cause));
      return undefined;
    }
  }

  /** @returns what is to be sent again */
  async #sendOnce(unsent: readonly Outgoing[]): Promise<readonly Outgoing[]> {
    const live = unsent.filter(({ requests }) => !refuseAborted(requests));
    if (live.length === 0) return [];
    const statuses = await sendCall(this.#options.sqs, this.#nextQueueUrl(), live);
    const bytes = live.reduce((sum, { message }) => sum + Buffer.byteLength(message.MessageBody), 0);
    let limit = Number.POSITIVE_INFINITY;
    const open: Outgoing[] = [];
    for (const [index, one] of live.entries()) {
      const status = statuses[index] as SendStatus;
      if ('messageId' in status) {
        accept(one, status.messageId);
        continue;
      }
      const { message, again, cause, maxBytes = bytes } = status;
      one.refused = new SendError(message, again, cause);
      if (bytes > maxBytes) limit = Math.min(limit, maxBytes);
      if (again || bytes > maxBytes) open.push(one);
      else reject(one.requests, one.refused);
    }
    if (limit === Number.POSITIVE_INFINITY) return open;
    // Also what is only to be sent again: on a FIFO queue it would be overtaken, or overtake.
    this.#waiting.putBack(
      open.flatMap(({ requests }) => requests),
      limit,
    );
    this.#lingered = true;
    return [];
  }

  #nextQueueUrl(): string {
    this.#turn = (this.#turn + 1) % this.#queueUrls.length;
    return this.#queueUrls[this.#turn] as string;
  }
}

function accept({ requests }: Outgoing, messageId: string): void {
  for (const [position, { resolve }] of requests.entries()) {
    const id = requests.length === 1 ? messageId : idInPacked(messageId, position);
    resolve({ id, requests: requests.length });
  }
}

function reject(requests: readonly Waiting[], reason: unknown): void {
  for (const request of requests) request.reject(reason);
}

/** A message goes on for those of its callers that still wait. */
function refuseAborted(requests: readonly Waiting[]): boolean {
  if (!requests.every(({ signal }) => signal?.aborted === true)) return false;
  for (const request of requests) request.reject(request.signal?.reason);
  return true;
}

function tooLarge({ bytes }: Entry, maxBytes: number): RequestError {
  const raise = maxBytes < MAX_MESSAGE_BYTES ? " raise the queue's MaximumMessageSize," : '';
  return new RequestError(
    `expected a body of at most ${maxBytes} bytes, the most that the request queue takes in a message, got ${bytes}; ` +
      `set payloadBucket, the deployment's bucket for larger ones,${raise} or send fewer rows`,
  );
}

function notOffloaded(cause: unknown): SendError {
  const message = `the payload bucket did not take its body: ${describeError(cause)}`;
  return new SendError(message, !isCallersFault(cause), cause);
}

/** Why SQS did not take a message. */
interface Refusal {
  /** Names the queue, which is one of several where there are shards. */
  readonly message: string;
  /** Worth another try. */
  readonly again: boolean;
  /** The most that the queue takes, where messages were too long for it, alone or together. */
  readonly maxBytes?: number | undefined;
  readonly cause?: unknown;
}

/** What became of one message in one batch request. */
type SendStatus = { readonly messageId: string } | Refusal;

/**
 * Sends one batch request of at most 10 messages and 1 MiB. Statuses align with `messages` by index. A 200 answer may name
 * messages that failed, and one that it does not mention failed too. An error of SQS is a status, never thrown.
 */
async function sendCall(sqs: SQSClient, QueueUrl: string, messages: readonly Outgoing[]): Promise<SendStatus[]> {
  try {
    const Entries = messages.map(({ message }, index) => ({ Id: String(index), ...message }));
    const { Successful = [], Failed = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    const taken = new Map(Successful.map(({ Id, MessageId }) => [Id, MessageId]));
    const refused = new Map(Failed.map((failed) => [failed.Id, failed]));
    return Entries.map(({ Id }): SendStatus => {
      const messageId = taken.get(Id);
      return messageId === undefined ? refusalOf(QueueUrl, refused.get(Id)) : { messageId };
    });
  } catch (cause) {
    const reason = describeError(cause);
    const refusal = { ...notTaken(QueueUrl, reason), again: !isCallersFault(cause), cause };
    return messages.map(() => refusal);
  }
}

function refusalOf(queueUrl: string, failed: BatchResultErrorEntry | undefined): Refusal {
  const reason = `${failed?.Code ?? 'no answer for this entry'}${failed?.Message ? `: ${failed.Message}` : ''}`;
  return { ...notTaken(queueUrl, reason), again: failed?.SenderFault !== true };
}

/** What SQS says of messages that are too long together, and of one alone. */
const TOO_LONG = /(?:Batch requests cannot be longer|Message must be shorter) than (\d+) bytes/;

function notTaken(queueUrl: string, reason: string): Omit<Refusal, 'again'> {
  const [, limit] = TOO_LONG.exec(reason) ?? [];
  return {
    message: `the request queue ${queueNameOf(queueUrl)} did not take it: ${reason}`,
    maxBytes: limit === undefined ? undefined : Number(limit),
  };
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

function rankOf(queueUrl: string, group: string): string {
  return createHash('sha256')
    .update(`${queueNameOf(queueUrl)}/${group}`)
    .digest('hex');
}

/** A queue's name is the same whatever endpoint its URL has. */
function queueNameOf(queueUrl: string): string {
  return queueUrl.slice(queueUrl.lastIndexOf('/') + 1);
}
