import { createHash, randomUUID } from 'node:crypto';
import { GetObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import type { SQSClient } from '@aws-sdk/client-sqs';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import { packBatches, retryRemaining } from '../lambda/aws/sendBatches.ts';
import {
  BILLED_BYTES,
  bytesOf,
  MAX_BATCH_ENTRIES,
  type Message,
  type MessageAttributes,
  MessageSender,
  type PackedMessage,
  packedBody,
  packMessages,
  pointerMessage,
} from '../lambda/aws/sqsMessages.ts';
import { MAX_MESSAGE_BYTES } from '../lambda/core/limits.ts';
import { requestKeys } from '../lambda/core/places.ts';
import { type PayloadPointer, RESULT_QUEUE_ATTRIBUTE } from '../lambda/core/record.ts';
import { RequestError, SendError } from './clientErrors.ts';
import { type Encoding, type RequestEntry, type ScoreRequest, toEntry } from './encodeRequest.ts';
import { queueNameOf } from './optionKinds.ts';
import { createPayloadSource, idInPacked, type PayloadSource } from './readResult.ts';

/** Outbox, which gathers the requests of all callers into messages, and messages into batch calls. */
export interface Outbox {
  /**
   * Resolves when SQS has accepted the request. If its `signal` aborts before the request is part of a call, the
   * request is not sent, and the promise rejects with the signal's reason. After that, the result of the call decides.
   *
   * @throws RequestError immediately if the request cannot be encoded or cannot be sent to such a queue
   */
  send(request: ScoreRequest, signal?: AbortSignal): Promise<Sent>;
  /** Resolves when the waiting requests fill less than one call. */
  room(): Promise<void>;
  /** Aborts when the outbox is closed. */
  readonly closed: AbortSignal;
  /** Rejects the requests that are not part of a call yet. Resolves when the calls under way have ended. */
  close(reason: unknown): Promise<void>;
}

export interface Sent {
  /** ID to collect its result with. */
  readonly id: string;
  /** Number of requests in its message. */
  readonly requests: number;
}

interface OutboxOptions {
  readonly sqs: SQSClient;
  /** URLs of the shards, all standard or all FIFO. */
  readonly requestQueueUrls: readonly string[];
  /** URL of the queue for urgent requests, of the same kind. @default there is none */
  readonly urgentQueueUrl?: string | undefined;
  readonly fifo: boolean;
  /** Result queue of this client, which each message names. */
  readonly replyTo: string | undefined;
  readonly encoding: Encoding;
  /** Maximum requests in a message. */
  readonly requestsPerMessage: number;
  readonly payloads: Payloads | undefined;
}

/**
 * Returns the outbox of the request queue. On standard queues, calls take the shards in turn, so that each call is
 * full. On FIFO queues, each shard has an outbox and each message group has a shard, which keeps its order.
 *
 * @returns undefined if there is no request queue
 */
export function createOutbox(options: OutboxOptions): Outbox | undefined {
  const { requestQueueUrls, urgentQueueUrl, fifo } = options;
  const [queueUrl] = requestQueueUrls;
  if (queueUrl === undefined) return undefined;
  const closing = new AbortController();
  const { signal: closed } = closing;
  const open = (urls: readonly string[]) => new QueueOutbox(urls, options, closed);
  const urgent = urgentQueueUrl === undefined ? undefined : open([urgentQueueUrl]);
  const shards = fifo
    ? requestQueueUrls.map((url) => ({ queueUrl: url, outbox: open([url]) }))
    : [{ queueUrl, outbox: open(requestQueueUrls) }];
  const all = [...shards.map(({ outbox }) => outbox), ...(urgent === undefined ? [] : [urgent])];
  return {
    closed,
    send(request, signal) {
      const entry = toEntry(request, options);
      if (request.urgent === true) {
        if (urgent === undefined)
          throw new RequestError('urgent: expected the option urgentQueueUrl, got none; set it');
        return urgent.send(entry, signal);
      }
      return shardOf(entry.group ?? '', shards).outbox.send(entry, signal);
    },
    async room() {
      await Promise.all(all.map((outbox) => outbox.room()));
    },
    async close(reason) {
      closing.abort(reason);
      await Promise.all(all.map((outbox) => outbox.idle()));
    },
  };
}

/** Maximum calls in flight. A FIFO queue has one, to keep the order. */
const CALLS_IN_FLIGHT = 8;
/** Maximum time that the first request of a call waits for others. */
const LINGER_MS = 5;
/** Maximum bytes of requests that wait for others to share their messages. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

interface Waiting extends RequestEntry {
  /** Bytes of its body and of the attributes of a message. */
  readonly bytes: number;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (sent: Sent) => void;
  readonly reject: (reason: unknown) => void;
}

/** Message to send. Its requests stay together, because SQS may have accepted the message even if no answer arrived. */
interface Outgoing extends PackedMessage<Waiting> {
  readonly message: Message;
  /** Reason of the last refusal by SQS. */
  refused?: SendError;
}

/**
 * Outbox of one queue, or of all shards in turn. A call is sent when it is full or its first request has waited long
 * enough, and there are fewer than the maximum calls in flight.
 */
class QueueOutbox {
  readonly #queueUrls: readonly string[];
  readonly #options: OutboxOptions;
  readonly #closed: AbortSignal;
  readonly #attributes: MessageAttributes;
  readonly #attributeBytes: number;
  readonly #sender: MessageSender<Outgoing>;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  /** The first shard is random, so that clients that send little do not all begin with the same one. */
  #turn: number;
  #inFlight = 0;
  #lingered = false;
  #timer: NodeJS.Timeout | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(queueUrls: readonly string[], options: OutboxOptions, closed: AbortSignal) {
    const { sqs, fifo: isFifo, replyTo } = options;
    this.#queueUrls = queueUrls;
    this.#options = options;
    this.#closed = closed;
    this.#attributes =
      replyTo === undefined
        ? {}
        : { [RESULT_QUEUE_ATTRIBUTE]: { DataType: 'String', StringValue: queueNameOf(replyTo) } };
    this.#attributeBytes = bytesOf(this.#attributes);
    this.#sender = new MessageSender({ sqs, isFifo, format: ({ message }) => message, onTaken: accept });
    this.#turn = Math.floor(Math.random() * queueUrls.length);
  }

  /** @throws RequestError immediately if the request is too large for the queue and there is no payload bucket */
  send(entry: RequestEntry, signal?: AbortSignal): Promise<Sent> {
    const bytes = entry.bodyBytes + this.#attributeBytes;
    if (bytes > this.#sender.maxBytes && this.#options.payloads === undefined) throw this.#tooLarge(entry);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...entry, bytes, signal, resolve, reject });
      this.#waitingBytes += bytes;
      this.#timer ??= setTimeout(() => {
        this.#lingered = true;
        this.#launchDue();
      }, LINGER_MS);
      if (this.#isFull()) this.#launchDue();
    });
  }

  async room(): Promise<void> {
    while (this.#isFull()) await this.#changed.promise;
  }

  /** Resolves when no request waits and no call is under way. */
  async idle(): Promise<void> {
    while (this.#waiting.length > 0 || this.#inFlight > 0) await this.#changed.promise;
  }

  #isFull(): boolean {
    const { requestsPerMessage: most } = this.#options;
    const maxBytes = most === 1 ? this.#sender.maxBytes : MAX_WAITING_BYTES;
    return this.#waiting.length >= MAX_BATCH_ENTRIES * most || this.#waitingBytes >= maxBytes;
  }

  #launchDue(): void {
    const maxInFlight = this.#options.fifo ? 1 : CALLS_IN_FLIGHT;
    while (this.#waiting.length > 0 && this.#inFlight < maxInFlight && (this.#lingered || this.#isFull())) {
      this.#inFlight++;
      void this.#deliver(this.#takeCall()).finally(() => {
        this.#inFlight--;
        this.#launchDue();
      });
    }
    if (this.#waiting.length === 0) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#lingered = false;
    }
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  /** Takes the requests of the first messages that fit in one call. */
  #takeCall(): readonly PackedMessage<Waiting>[] {
    const most = MAX_BATCH_ENTRIES * this.#options.requestsPerMessage;
    const next = this.#waiting.slice(0, most);
    const live = next.filter((request) => !rejectAborted([request]));
    const [call = []] = packBatches(
      this.#pack(live).slice(0, MAX_BATCH_ENTRIES),
      MAX_BATCH_ENTRIES,
      this.#sender.maxBytes,
    );
    const taken = new Set(call.flatMap(({ entries }) => entries));
    const left = live.filter((request) => !taken.has(request));
    this.#waiting = left.concat(this.#waiting.slice(most));
    this.#waitingBytes += sumOf(left) - sumOf(next);
    return call;
  }

  #pack(requests: readonly Waiting[]): PackedMessage<Waiting>[] {
    return packMessages(requests, {
      most: this.#options.requestsPerMessage,
      bytes: Math.min(BILLED_BYTES, this.#sender.maxBytes),
      attributeBytes: () => this.#attributeBytes,
      groupOf: ({ group }) => group,
      isOrdered: this.#options.fifo,
    });
  }

  /** Settles all requests of a call. Sends messages again that SQS did not accept. */
  async #deliver(call: readonly PackedMessage<Waiting>[]): Promise<void> {
    try {
      const messages = call.map((packed) => this.#toOutgoing(packed));
      const left = await retryRemaining(messages, (unsent) => this.#sendOnce(unsent), this.#closed);
      for (const { entries, refused } of left) reject(entries, refused ?? this.#closed.reason);
    } catch (error) {
      for (const { entries } of call) reject(entries, error);
    }
  }

  /**
   * Sends messages in as few calls as possible, one after the other.
   *
   * @returns the messages to send again, in their order
   */
  async #sendOnce(unsent: readonly Outgoing[]): Promise<readonly Outgoing[]> {
    const live = unsent.filter(({ entries }) => !rejectAborted(entries));
    const fitting = await Promise.all(live.map((one) => this.#fit(one)));
    const left: Outgoing[] = [];
    for (const messages of packBatches(fitting.flat(), MAX_BATCH_ENTRIES, this.#sender.maxBytes)) {
      // On a FIFO queue, the messages after a failed one wait, because they would overtake it.
      if (this.#options.fifo && left.length > 0) left.push(...messages);
      else left.push(...(await this.#sendCall(messages)));
    }
    return left;
  }

  /** Makes one call. Rejects the requests that SQS cannot accept. @returns the other refused messages, to send again */
  async #sendCall(messages: readonly Outgoing[]): Promise<readonly Outgoing[]> {
    this.#turn = (this.#turn + 1) % this.#queueUrls.length;
    const queueUrl = this.#queueUrls[this.#turn] as string;
    const refusals = await this.#sender.send(queueUrl, messages);
    return refusals.flatMap(({ entry: one, reason, again, isTooLarge, cause }) => {
      const text = `the request queue ${queueNameOf(queueUrl)} did not take it: ${reason}`;
      one.refused = new SendError(text, again, cause);
      if (again || isTooLarge) return [one];
      reject(one.entries, one.refused);
      return [];
    });
  }

  /** Fits a message that is too large to the queue: splits it, or stores its body in the payload bucket. */
  async #fit(one: Outgoing): Promise<readonly Outgoing[]> {
    const { entries, bytes, message } = one;
    if (bytes <= this.#sender.maxBytes) return [one];
    const [first, ...others] = entries as readonly [Waiting, ...Waiting[]];
    if (others.length > 0) {
      const smaller = this.#pack(entries).map((packed) => this.#fit(this.#toOutgoing(packed)));
      return (await Promise.all(smaller)).flat();
    }
    const { payloads } = this.#options;
    try {
      if (payloads === undefined) throw this.#tooLarge(first);
      const { body, attribute } = pointerMessage(await payloads.put(first.body), first.bodyBytes);
      const MessageAttributes = { ...this.#attributes, ...attribute };
      const pointing = { ...message, MessageBody: body, MessageAttributes };
      return [{ ...one, bytes: body.length + bytesOf(MessageAttributes), message: pointing }];
    } catch (cause) {
      reject(entries, cause instanceof RequestError ? cause : notOffloaded(cause));
      return [];
    }
  }

  #toOutgoing(packed: PackedMessage<Waiting>): Outgoing {
    const [{ group, deduplicationId }] = packed.entries as readonly [Waiting, ...Waiting[]];
    const message = {
      MessageBody: packedBody(packed.entries),
      MessageGroupId: group,
      MessageDeduplicationId: deduplicationId,
      ...(this.#attributeBytes > 0 && { MessageAttributes: this.#attributes }),
    };
    return { ...packed, message };
  }

  #tooLarge({ bodyBytes }: RequestEntry): RequestError {
    const { maxBytes } = this.#sender;
    const raise = maxBytes < MAX_MESSAGE_BYTES ? " raise the queue's MaximumMessageSize," : '';
    return new RequestError(
      `expected a body of at most ${maxBytes - this.#attributeBytes} bytes, the most that the request queue takes in a ` +
        `message, got ${bodyBytes}; set payloadBucket, the deployment's bucket for larger ones,${raise} or send fewer rows`,
    );
  }
}

function accept({ entries }: Outgoing, messageId: string): void {
  for (const [position, { resolve }] of entries.entries()) {
    const id = entries.length === 1 ? messageId : idInPacked(messageId, position);
    resolve({ id, requests: entries.length });
  }
}

function reject(requests: readonly Waiting[], reason: unknown): void {
  for (const request of requests) request.reject(reason);
}

/** Rejects a message's requests if all their callers have aborted. Otherwise the message is still sent. */
function rejectAborted(requests: readonly Waiting[]): boolean {
  if (!requests.every(({ signal }) => signal?.aborted === true)) return false;
  for (const request of requests) request.reject(request.signal?.reason);
  return true;
}

function sumOf(requests: readonly Waiting[]): number {
  return requests.reduce((sum, { bytes }) => sum + bytes, 0);
}

function notOffloaded(cause: unknown): SendError {
  const message = `the payload bucket did not take its body: ${describeError(cause)}`;
  return new SendError(message, !isCallersFault(cause), cause);
}

/** Payload bucket, for bodies too large for SQS and results too large for their store. */
export interface Payloads extends PayloadSource {
  /** Stores the body of a request under a new key. */
  put(body: string): Promise<PayloadPointer>;
}

/**
 * @param s3 client that makes its own retries
 * @param prefix of the deployment's keys in the bucket
 */
export function createPayloads(s3: S3Client, bucket: string, prefix: string): Payloads {
  return {
    ...createPayloadSource(bucket, prefix, (object) => s3.send(new GetObjectCommand(object))),
    async put(Body) {
      const key = `${requestKeys(prefix)}${randomUUID()}`;
      await s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body, ContentType: 'application/json' }));
      return { bucket, key };
    },
  };
}

/**
 * Returns the shard of a message group by rendezvous hashing: the shard whose hash with the group is the highest. The
 * result does not depend on the client or the order of the shards. An additional shard takes only its share of the
 * groups.
 *
 * @param shards at least one
 * @see https://en.wikipedia.org/wiki/Rendezvous_hashing
 */
export function shardOf<S extends { readonly queueUrl: string }>(group: string, shards: readonly S[]): S {
  if (shards.length === 1) return shards[0] as S;
  const ranked = shards.map((shard) => ({ shard, rank: rankOf(shard.queueUrl, group) }));
  return ranked.reduce((highest, one) => (one.rank > highest.rank ? one : highest)).shard;
}

function rankOf(queueUrl: string, group: string): string {
  return createHash('sha256')
    .update(`${queueNameOf(queueUrl)}/${group}`)
    .digest('hex');
}
