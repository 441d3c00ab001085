import { createHash, randomUUID } from 'node:crypto';
import { GetObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import {
  type MessageAttributeValue,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import {
  allRefused,
  bytesOf,
  limitIn,
  MAX_BATCH_ENTRIES,
  packBatches,
  type Refusal,
  refusalsIn,
  retryRemaining,
} from '../lambda/aws/sendBatches.ts';
import { MAX_MESSAGE_BYTES } from '../lambda/core/limits.ts';
import { requestKeys, resultKeys } from '../lambda/core/places.ts';
import { type PayloadPointer, POINTER_ATTRIBUTES, pointerBody, RESULT_QUEUE_ATTRIBUTE } from '../lambda/core/record.ts';
import { RequestError, SendError } from './clientErrors.ts';
import type { ScoreRequest } from './encodeRequest.ts';
import { type Entry, packedEntry, type Sent, splitMessage, type Waiting, WaitingMessages } from './packRequests.ts';
import { idInPacked, type PayloadSource } from './readResult.ts';

/** Sender of requests with a fixed maximum of requests per message. */
export interface Sender extends Pick<Outbox, 'room'> {
  /** @throws RequestError immediately if the request cannot be encoded, or cannot be sent to such a queue */
  send(request: ScoreRequest, signal?: AbortSignal): Promise<Sent>;
}

/** Outbox, which gathers the requests of all callers into messages, and messages into batch calls. */
export interface Outbox {
  /**
   * Resolves when SQS has accepted the request. If its `signal` aborts before the request is part of a call, the
   * request is not sent, and the promise rejects with the signal's reason. After that, the result of the call decides.
   *
   * @throws RequestError immediately if the request is known to be too large for the queue and there is no payload
   * bucket
   */
  send(entry: Entry, perMessage: number, signal?: AbortSignal): Promise<Sent>;
  /** Resolves when the waiting requests fill less than one call. */
  room(): Promise<void>;
}

interface OutboxOptions {
  readonly sqs: SQSClient;
  /** URLs of the shards, all standard or all FIFO. */
  readonly requestQueueUrls: readonly string[];
  readonly fifo: boolean;
  /** Result queue of this client, which each message names. */
  readonly resultQueueUrl?: string | undefined;
  /** Maximum calls in flight. On FIFO queues, it applies to each queue. */
  readonly maxInFlight: number;
  readonly payloads: Payloads | undefined;
  /** Aborts when the client is closed. Requests that are not sent by then are rejected. */
  readonly closing: AbortSignal;
}

/**
 * Returns the outbox of the request queue. On standard queues, calls take the shards in turn, so that each call is
 * full. On FIFO queues, each shard has an outbox and each message group has a shard, which keeps its order.
 *
 * @returns undefined if there is no request queue
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

/** Maximum time that the first request of a call waits for others. */
const LINGER_MS = 5;

/** Message to send. Its requests stay together, because SQS may have accepted the message even if no answer arrived. */
interface Outgoing {
  readonly requests: readonly Waiting[];
  readonly entry: Entry;
  /** Bytes of its body, as it is sent, and of its attributes. */
  readonly bytes: number;
  readonly message: Omit<SendMessageBatchRequestEntry, 'Id'>;
  /** Reason of the last refusal by SQS. */
  refused?: SendError;
}

/**
 * Outbox of one queue, or of all shards in turn. A call is sent when it is full or its first request has waited long
 * enough, and there are fewer than the maximum calls in flight.
 */
class QueueOutbox implements Outbox {
  readonly #queueUrls: readonly string[];
  readonly #options: OutboxOptions;
  readonly #attributes: Attributes;
  readonly #attributeBytes: number;
  readonly #waiting: WaitingMessages;
  /** The first shard is random, so that clients that send little do not all begin with the same one. */
  #turn: number;
  #inFlight = 0;
  #lingered = false;
  #timer: NodeJS.Timeout | undefined;
  #changed = Promise.withResolvers<void>();

  constructor(queueUrls: readonly string[], options: OutboxOptions) {
    this.#queueUrls = queueUrls;
    this.#options = options;
    this.#attributes = attributesOf(options.resultQueueUrl);
    this.#attributeBytes = bytesOf(this.#attributes);
    this.#waiting = new WaitingMessages(this.#attributeBytes);
    this.#turn = Math.floor(Math.random() * queueUrls.length);
  }

  send(entry: Entry, perMessage: number, signal?: AbortSignal): Promise<Sent> {
    const maxBytes = this.#waiting.maxBytes - this.#attributeBytes;
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

  /** Settles all requests of a call. Sends messages again that SQS did not accept. */
  async #deliver(call: readonly (readonly Waiting[])[]): Promise<void> {
    const { closing } = this.#options;
    try {
      const messages = call.flatMap((requests) => {
        const live = requests.filter((request) => !refuseAborted([request]));
        return live.length === 0 ? [] : [this.#toOutgoing(live)];
      });
      const left = await retryRemaining(messages, (unsent) => this.#sendOnce(unsent), closing);
      for (const one of left) reject(one.requests, one.refused ?? closing.reason);
    } catch (error) {
      reject(call.flat(), error);
    }
  }

  /**
   * Sends messages in as few calls as possible, one after the other.
   *
   * @returns the messages to send again, in their order
   */
  async #sendOnce(unsent: readonly Outgoing[]): Promise<readonly Outgoing[]> {
    const live = unsent.filter(({ requests }) => !refuseAborted(requests));
    const prepared = await Promise.all(live.map((one) => this.#fit(one)));
    const calls = packBatches(prepared.flat(), MAX_BATCH_ENTRIES, this.#waiting.maxBytes);
    const left: Outgoing[] = [];
    for (const messages of calls) {
      // On a FIFO queue, the messages after a failed one wait, because they would overtake it.
      if (this.#options.fifo && left.length > 0) left.push(...messages);
      else left.push(...(await this.#sendCall(messages)));
    }
    return left;
  }

  /** Fits a message that is too large to the queue: splits it, or stores its body in the payload bucket. */
  async #fit(one: Outgoing): Promise<readonly Outgoing[]> {
    const { requests, entry, bytes, message } = one;
    if (bytes <= this.#waiting.maxBytes) return [one];
    const maxBytes = this.#waiting.maxBytes - this.#attributeBytes;
    if (requests.length > 1) {
      return (
        await Promise.all(splitMessage(requests, maxBytes).map((some) => this.#fit(this.#toOutgoing(some))))
      ).flat();
    }
    const { payloads } = this.#options;
    try {
      if (payloads === undefined) throw tooLarge(entry, maxBytes);
      const MessageBody = pointerBody(await payloads.put(entry.body));
      const size = { DataType: 'Number', StringValue: String(entry.bytes) };
      const MessageAttributes = { ...this.#attributes, [POINTER_ATTRIBUTES[0]]: size };
      const pointing = { ...message, MessageBody, MessageAttributes };
      return [{ ...one, bytes: MessageBody.length + bytesOf(MessageAttributes), message: pointing }];
    } catch (cause) {
      reject(requests, cause instanceof RequestError ? cause : notOffloaded(cause));
      return [];
    }
  }

  /**
   * Makes one call. If SQS refuses the whole call, each message is sent alone, because only one of them may be at
   * fault.
   *
   * @returns the messages to send again
   */
  async #sendCall(messages: readonly Outgoing[]): Promise<readonly Outgoing[]> {
    const queueUrl = this.#nextQueueUrl();
    try {
      return this.#settle(await send(this.#options.sqs, queueUrl, messages), queueUrl);
    } catch (error) {
      const isTooLong = limitIn(describeError(error)) !== undefined;
      if (messages.length === 1 || isTooLong || !isCallersFault(error)) {
        return this.#settle(allRefused(messages, error), queueUrl, error);
      }
    }
    const left: Outgoing[] = [];
    for (const message of messages) {
      if (this.#options.fifo && left.length > 0) left.push(message);
      else left.push(...(await this.#sendCall([message])));
    }
    return left;
  }

  /** Rejects the requests that SQS cannot accept. @returns the other messages, to send again */
  #settle(refusals: readonly Refusal<Outgoing>[], queueUrl: string, cause?: unknown): readonly Outgoing[] {
    return refusals.flatMap(({ entry: one, reason, again }) => {
      const limit = limitIn(reason);
      if (limit !== undefined) this.#waiting.maxBytes = Math.min(this.#waiting.maxBytes, limit);
      const text = `the request queue ${queueNameOf(queueUrl)} did not take it: ${reason}`;
      one.refused = new SendError(text, again, cause);
      if (again || limit !== undefined) return [one];
      reject(one.requests, one.refused);
      return [];
    });
  }

  #toOutgoing(requests: readonly Waiting[]): Outgoing {
    const entry = packedEntry(requests.map((request) => request.entry));
    const message = {
      MessageBody: entry.body,
      MessageGroupId: entry.group,
      MessageDeduplicationId: entry.deduplicationId,
      ...(this.#attributeBytes > 0 && { MessageAttributes: this.#attributes }),
    };
    return { requests, entry, bytes: entry.bytes + this.#attributeBytes, message };
  }

  #nextQueueUrl(): string {
    this.#turn = (this.#turn + 1) % this.#queueUrls.length;
    return this.#queueUrls[this.#turn] as string;
  }
}

type Attributes = Readonly<Record<string, MessageAttributeValue>>;

function attributesOf(resultQueueUrl: string | undefined): Attributes {
  if (resultQueueUrl === undefined) return {};
  return { [RESULT_QUEUE_ATTRIBUTE]: { DataType: 'String', StringValue: queueNameOf(resultQueueUrl) } };
}

/** Makes one batch request of at most 10 messages and 1 MiB, and resolves accepted requests. @returns the refusals */
async function send(
  sqs: SQSClient,
  QueueUrl: string,
  messages: readonly Outgoing[],
): Promise<readonly Refusal<Outgoing>[]> {
  const Entries = messages.map(({ message }, index) => ({ Id: String(index), ...message }));
  const { Successful = [], Failed } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  const taken = Successful.filter(({ MessageId }) => MessageId !== undefined);
  const refusals = refusalsIn(messages, { Successful: taken, Failed });
  const refused = new Set(refusals.map(({ entry }) => entry));
  for (const { Id, MessageId = '' } of taken) {
    const one = messages[Number(Id)];
    if (one !== undefined && !refused.has(one)) accept(one, MessageId);
  }
  return refusals;
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

/** Rejects a message's requests if all their callers have aborted. Otherwise the message is still sent. */
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
    bucket,
    resultKeys: resultKeys(prefix),
    async put(Body) {
      const key = `${requestKeys(prefix)}${randomUUID()}`;
      await s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body, ContentType: 'application/json' }));
      return { bucket, key };
    },
    async get({ bucket: Bucket, key: Key }) {
      const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
      if (Body === undefined) throw new Error(`expected a body at s3://${Bucket}/${Key}, got none`);
      return await Body.transformToString('utf-8');
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
  const ranked = shards.map((shard) => ({ shard, rank: rankOf(shard.queueUrl, group) }));
  return ranked.reduce((highest, one) => (one.rank > highest.rank ? one : highest)).shard;
}

function rankOf(queueUrl: string, group: string): string {
  return createHash('sha256')
    .update(`${queueNameOf(queueUrl)}/${group}`)
    .digest('hex');
}

/** Returns the queue's name, which does not depend on the endpoint in its URL. */
function queueNameOf(queueUrl: string): string {
  return queueUrl.slice(queueUrl.lastIndexOf('/') + 1);
}
