import { randomUUID } from 'node:crypto';
import { MAX_BATCH_ENTRIES, packBatches } from '../lambda/aws/sendBatches.ts';
import { preview } from '../lambda/core/failure.ts';
import { escapeForSqs, isObject, parseIfJson } from '../lambda/core/json.ts';
import { FILL, MAX_MESSAGE_BYTES } from '../lambda/core/limits.ts';
import { RequestError } from './clientErrors.ts';
import { type Encoding, encodeRequest, type ScoreRequest } from './encodeRequest.ts';

export interface Sent {
  /** ID to collect its result with. */
  readonly id: string;
  /** Number of requests in its message. */
  readonly requests: number;
}

export interface Waiting {
  readonly entry: Entry;
  readonly perMessage: number;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (sent: Sent) => void;
  readonly reject: (reason: unknown) => void;
}

interface SharedMessage {
  readonly key: string;
  readonly requests: Waiting[];
  /** Bytes of its body and attributes. */
  bytes: number;
}

/** Maximum bytes of a message with several requests. SQS bills each 64 KiB as one request. */
const SHARED_BYTES = 65_536;
/** Maximum bytes of bodies that wait for others to share their messages. */
const MAX_OPEN_BYTES = 8 * 1024 * 1024;

/** Requests that wait to be sent, grouped in the messages that they will share. */
export class WaitingMessages {
  /** Maximum bytes of a message on this queue, as far as known. Some queues are configured for less than 1 MiB. */
  maxBytes = MAX_MESSAGE_BYTES;
  /** Bytes of a message without its body. */
  readonly #attributeBytes: number;
  #full: SharedMessage[] = [];
  /**
   * Messages that accept more, by the common properties of their requests. Within a group they follow the full ones.
   */
  readonly #open = new Map<string, SharedMessage>();
  #openBytes = 0;

  constructor(attributeBytes: number) {
    this.#attributeBytes = attributeBytes;
  }

  /** Adds a request to the last message of its group if it fits, or to a new one. */
  add(request: Waiting): void {
    const { entry, perMessage } = request;
    const mayShare = entry.mayShare && entry.bytes <= SHARED_BYTES;
    const key = keyOf(request, mayShare);
    const last = this.#open.get(key);
    const maxBytes = Math.min(SHARED_BYTES, this.maxBytes);
    const fits = last !== undefined && last.bytes + addedBytes(entry, last.requests.length) <= maxBytes;
    if (last !== undefined && !(mayShare && fits)) this.#close(last);
    const message = this.#open.get(key) ?? this.#emptyMessage(key);
    const bytes = addedBytes(entry, message.requests.length);
    message.requests.push(request);
    message.bytes += bytes;
    this.#open.set(key, message);
    this.#openBytes += bytes;
    if (!mayShare || message.requests.length === perMessage) this.#close(message);
  }

  /**
   * Takes the requests of the first messages that fit in one call.
   *
   * @param all true if messages that could accept more are included
   */
  takeCall(all: boolean): readonly (readonly Waiting[])[] {
    const due = all || this.#holdsTooMuch() ? [...this.#full, ...this.#open.values()] : this.#full;
    const [taken = []] = packBatches(due.slice(0, MAX_BATCH_ENTRIES), MAX_BATCH_ENTRIES, this.maxBytes);
    this.#full = this.#full.slice(taken.length);
    for (const { key, bytes } of taken.filter((message) => this.#open.get(message.key) === message)) {
      this.#open.delete(key);
      this.#openBytes -= bytes;
    }
    return taken.map(({ requests }) => requests);
  }

  /** Returns true if the full messages make a complete call, or too many bytes wait for others. */
  isFull(): boolean {
    if (this.#full.length >= MAX_BATCH_ENTRIES || this.#holdsTooMuch()) return true;
    return this.#full.reduce((sum, { bytes }) => sum + bytes, 0) >= this.maxBytes;
  }

  isEmpty(): boolean {
    return this.#full.length === 0 && this.#open.size === 0;
  }

  #holdsTooMuch(): boolean {
    return this.#openBytes >= MAX_OPEN_BYTES;
  }

  #emptyMessage(key: string): SharedMessage {
    this.#openBytes += this.#attributeBytes;
    return { key, requests: [], bytes: this.#attributeBytes };
  }

  #close(message: SharedMessage): void {
    this.#open.delete(message.key);
    this.#openBytes -= message.bytes;
    this.#full.push(message);
  }
}

/**
 * Splits the requests of a message into messages that the queue accepts. A request that is too large by itself stays
 * alone.
 */
export function splitMessage(requests: readonly Waiting[], maxBytes: number): Waiting[][] {
  const parts: Waiting[][] = [];
  let bytes = 0;
  for (const request of requests) {
    const last = parts.at(-1);
    const added = addedBytes(request.entry, last?.length ?? 0);
    if (last !== undefined && bytes + added <= maxBytes) {
      last.push(request);
      bytes += added;
    } else {
      parts.push([request]);
      bytes = request.entry.bytes;
    }
  }
  return parts;
}

/**
 * Returns a key that is equal for requests that can share messages. On a standard queue, a request that cannot share
 * leaves the messages of others open. On a FIFO queue it must not, because later requests in them would overtake it, so
 * it has the same key.
 */
function keyOf({ entry, perMessage }: Waiting, mayShare: boolean): string {
  const shared = mayShare || entry.deduplicationId !== undefined;
  return `${shared ? perMessage : 'own'} ${entry.group ?? ''}`;
}

/**
 * Returns the bytes that a request adds to a message. The second one adds brackets, and each after the first adds a
 * comma.
 */
function addedBytes({ bytes }: Entry, before: number): number {
  return bytes + (before === 0 ? 0 : 1) + (before === 1 ? 2 : 0);
}

/** Maximum requests in a message. With several requests it has at most 64 KiB, which is the only limit with `fill`. */
export type RequestsPerMessage = number | typeof FILL;

/** Default of a deployment's BATCHSCORE_MAX_REQUESTS_PER_MESSAGE. */
export const MAX_REQUESTS_PER_MESSAGE = 10_000;

export const EXPECTED_PER_MESSAGE = `expected 'fill' or a whole number from 1 to ${MAX_REQUESTS_PER_MESSAGE}`;

export function isRequestsPerMessage(value: unknown): value is RequestsPerMessage {
  if (value === FILL) return true;
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_REQUESTS_PER_MESSAGE;
}

/** Request that may share a message with others, or such a message. */
export interface Entry {
  readonly body: string;
  /** Bytes of the body, both in the message and in the payload bucket. */
  readonly bytes: number;
  readonly group: string | undefined;
  readonly deduplicationId: string | undefined;
  /** True if the body can be part of a packed message. */
  readonly mayShare: boolean;
}

interface EntryOptions {
  readonly encoding: Encoding;
  readonly fifo: boolean;
}

/** @throws RequestError if the request cannot be encoded, or cannot be sent to such a queue */
export function toEntry(request: ScoreRequest, perMessage: number, { encoding, fifo }: EntryOptions): Entry {
  assertRouting(request, fifo);
  const encoded = encodeRequest(request, encoding);
  const mayShare = perMessage > 1 && canShare(request, encoded);
  // Characters that SQS refuses are escaped, so that one request does not make SQS refuse a shared message.
  const body = mayShare ? escapeForSqs(encoded) : encoded;
  return {
    body,
    bytes: Buffer.byteLength(body),
    group: request.group,
    deduplicationId: fifo ? (request.deduplicationId ?? randomUUID()) : undefined,
    mayShare,
  };
}

/**
 * Returns a message with the bodies of several requests of one group as an array. None of them has its own
 * deduplication ID.
 */
export function packedEntry(requests: readonly Entry[]): Entry {
  const [first] = requests;
  if (first === undefined) throw new Error('expected at least one request in a message');
  if (requests.length === 1) return first;
  const body = `[${requests.map((request) => request.body).join(',')}]`;
  return { ...first, body, bytes: Buffer.byteLength(body) };
}

/**
 * Returns true if a request can share a message. A request with its own deduplication ID cannot. A raw body must be a
 * single JSON object, because others could make the array invalid.
 */
function canShare(request: ScoreRequest, body: string): boolean {
  if (request.deduplicationId !== undefined) return false;
  return request.body === undefined || isObject(parseIfJson(body));
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html */
const SQS_NAME = /^[!-~]{1,128}$/;

function assertRouting({ group, deduplicationId }: ScoreRequest, fifo: boolean): void {
  if (fifo && group === undefined) {
    throw new RequestError(
      'expected a group on each request, as the request queue is a FIFO queue, got none; set group',
    );
  }
  if (!fifo && deduplicationId !== undefined) {
    throw new RequestError(
      'expected no deduplicationId, as the request queue is a standard queue, got one; leave it out',
    );
  }
  for (const [name, value] of Object.entries({ group, deduplicationId })) {
    if (value === undefined || SQS_NAME.test(value)) continue;
    throw new RequestError(
      `${name}: expected 1 to 128 letters, digits and punctuation marks of ASCII, without spaces, got ${preview(value)}`,
    );
  }
}
