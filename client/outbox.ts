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
  send(entry: Entry, perMessage: number, signal?: AbortSignal): Promise<Sent>;
  /** Resolves when less than a call's worth waits to be sent. */
  room(): Promise<void>;
}

interface OutboxOptions {
  readonly sqs: SQSClient;
  /** One for each shard, all of one kind. */
  readonly requestQueueUrls: readonly string[];
  readonly fifo: boolean;
  /** Sent with each message: it names the result queue of this client. */
  readonly resultQueueUrl?: string | undefined;
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

/** A message to send. Its requests stay together: SQS may have taken it although no answer came. */
interface Outgoing {
  readonly requests: readonly Waiting[];
  readonly entry: Entry;
  /** Of its body, as it is sent, and its attributes. */
  readonly bytes: number;
  readonly message: Omit<SendMessageBatchRequestEntry, 'Id'>;
  /** Why SQS did not take it the last time. */
  refused?: SendError;
}

/** A call leaves when it is full or its first request has lingered, and a place in flight is free. */
class QueueOutbox implements Outbox {
  readonly #queueUrls: readonly string[];
  readonly #options: OutboxOptions;
  readonly #attributes: Attributes;
  readonly #attributeBytes: number;
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

  /** Settles every request of a call, sending again what SQS did not take. */
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
   * Sends messages in as few calls as hold them, one after the other.
   *
   * @returns the messages to be sent again, in their order
   */
  async #sendOnce(unsent: readonly Outgoing[]): Promise<readonly Outgoing[]> {
    const live = unsent.filter(({ requests }) => !refuseAborted(requests));
    const prepared = await Promise.all(live.map((one) => this.#fit(one)));
    const calls = packBatches(prepared.flat(), MAX_BATCH_ENTRIES, this.#waiting.maxBytes);
    const left: Outgoing[] = [];
    for (const messages of calls) {
      // On a FIFO queue what is sent behind a message that is sent again would overtake it.
      if (this.#options.fifo && left.length > 0) left.push(...messages);
      else left.push(...(await this.#sendCall(messages)));
    }
    return left;
  }

  /** Makes messages that the queue takes of one: smaller ones, or one that points to the payload bucket. */
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
   * Makes one call. If SQS refuses it as a whole, one message may be at fault: each is then sent alone.
   *
   * @returns the messages to be sent again
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

  /** Rejects what SQS refused for good. @returns the other messages, which are sent again */
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

/** Makes one batch request of at most 10 messages and 1 MiB, and accepts what SQS took. @returns why it refused others */
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

/** Rejects requests if none of their callers waits any more. A message goes on for those that do. */
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

/** The deployment's bucket for bodies too large for SQS and results too large for their store. */
export interface Payloads extends PayloadSource {
  /** Puts the body of a request there, under a key of its own. */
  put(body: string): Promise<PayloadPointer>;
}

/**
 * @param s3 a client that retries by itself
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
