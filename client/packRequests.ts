import { randomUUID } from 'node:crypto';
import { MAX_BATCH_ENTRIES } from '../lambda/aws/sendBatches.ts';
import { escapeForSqs } from '../lambda/core/json.ts';
import { MAX_MESSAGE_BYTES } from '../lambda/core/limits.ts';
import { FEW_CONTAINERS, MAX_LEVELS, outlineAt } from '../lambda/core/outline.ts';
import { RequestError } from './clientErrors.ts';
import { type Encoding, encodeRequest, type ScoreRequest } from './encodeRequest.ts';

/** What the outbox tells of a request that SQS has taken. */
export interface Sent {
  /** Under which its result is collected. */
  readonly id: string;
  /** How many requests its message holds. */
  readonly requests: number;
}

export interface Waiting {
  readonly entry: Entry;
  /** How many may share its message. */
  readonly perMessage: RequestsPerMessage;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (sent: Sent) => void;
  readonly reject: (reason: unknown) => void;
}

/** Requests that share a message. */
interface SharedMessage {
  readonly key: string;
  readonly requests: Waiting[];
  /** Of its body. */
  bytes: number;
  /** Arrays and objects in it. */
  containers: number;
}

/** What one message may hold. */
interface Capacity {
  readonly requests: number;
  /** Of their bodies together. */
  readonly bytes: number;
}

/** SQS bills every 64 KiB as one request. */
const BILLED_BYTES = 65_536;
/** A packed body in the payload bucket: well below what a deployment reads by default. */
const OFFLOADED_BYTES = 4 * 1024 * 1024;
/** Bytes of bodies that may wait for others to share their messages. */
const MAX_OPEN_BYTES = 8 * 1024 * 1024;

/** The requests that wait to be sent, in the messages that they will share. */
export class WaitingMessages {
  readonly #hasBucket: boolean;
  /** Those that take no more requests. */
  #full: SharedMessage[] = [];
  /** Those that take more, by what their requests have in common. Of one group they come after the full ones. */
  readonly #open = new Map<string, SharedMessage>();
  #openBytes = 0;
  #maxBytes = MAX_MESSAGE_BYTES;

  /** @param hasBucket whether what is too large for the queue goes to the payload bucket */
  constructor(hasBucket: boolean) {
    this.#hasBucket = hasBucket;
  }

  /** The most that the queue takes in a message, as far as is known: older queues and some deployers set less than 1 MiB. */
  get maxBytes(): number {
    return this.#maxBytes;
  }

  /** Adds a request to the last message of its group where it fits, else to one of its own. */
  add(request: Waiting): void {
    const { entry, perMessage } = request;
    const mayShare = entry.containers !== undefined && entry.bytes <= this.#maxBytes;
    const key = keyOf(request, mayShare);
    const capacity = this.#capacityOf(perMessage);
    const last = this.#open.get(key);
    if (last !== undefined && !(mayShare && fits(entry, last, capacity))) this.#close(last);
    const message = this.#open.get(key) ?? { key, requests: [], bytes: 0, containers: 1 };
    const bytes = addedBytes(entry, message);
    message.requests.push(request);
    message.bytes += bytes;
    message.containers += entry.containers ?? 0;
    this.#open.set(key, message);
    this.#openBytes += bytes;
    if (!mayShare || message.requests.length === capacity.requests) this.#close(message);
  }

  /** The queue takes no more than `maxBytes`: all requests, first those that are put back, are shared out anew. */
  putBack(requests: readonly Waiting[], maxBytes: number): void {
    this.#maxBytes = Math.min(this.#maxBytes, maxBytes);
    const waiting = this.#all().flatMap((message) => message.requests);
    this.#full = [];
    this.#open.clear();
    this.#openBytes = 0;
    for (const request of [...requests, ...waiting]) this.add(request);
  }

  /**
   * Takes the requests of as many of the first messages as one call holds.
   *
   * @param all whether messages leave that could take more
   */
  takeCall(all: boolean): readonly (readonly Waiting[])[] {
    const due = all || this.#holdsTooMuch() ? this.#all() : this.#full;
    const taken = due.slice(0, messagesInCall(due, this.#maxBytes));
    this.#full = this.#full.slice(taken.length);
    for (const { key, bytes } of taken.filter((message) => this.#open.get(message.key) === message)) {
      this.#open.delete(key);
      this.#openBytes -= bytes;
    }
    return taken.map(({ requests }) => requests);
  }

  /** Returns true if there is a call's worth of messages that take no more, or too much waits for others. */
  isFull(): boolean {
    if (this.#full.length >= MAX_BATCH_ENTRIES || this.#holdsTooMuch()) return true;
    return this.#full.reduce((sum, { bytes }) => sum + bytes, 0) >= this.#maxBytes;
  }

  isEmpty(): boolean {
    return this.#full.length === 0 && this.#open.size === 0;
  }

  #all(): SharedMessage[] {
    return [...this.#full, ...this.#open.values()];
  }

  #holdsTooMuch(): boolean {
    return this.#openBytes >= MAX_OPEN_BYTES;
  }

  #close(message: SharedMessage): void {
    this.#open.delete(message.key);
    this.#openBytes -= message.bytes;
    this.#full.push(message);
  }

  #capacityOf(perMessage: RequestsPerMessage): Capacity {
    if (perMessage === 'fill') {
      return { requests: MAX_REQUESTS_PER_MESSAGE, bytes: Math.min(BILLED_BYTES, this.#maxBytes) };
    }
    return { requests: perMessage, bytes: this.#hasBucket ? OFFLOADED_BYTES : this.#maxBytes };
  }
}

/**
 * Requests of one group share messages. One that needs its own leaves those of the others open, but not on a FIFO queue,
 * where requests have deduplication IDs: there it would be overtaken.
 */
function keyOf({ entry, perMessage }: Waiting, mayShare: boolean): string {
  const shared = mayShare || entry.deduplicationId !== undefined;
  return `${shared ? perMessage : 'own'} ${entry.group ?? ''}`;
}

function fits(entry: Entry, message: SharedMessage, capacity: Capacity): boolean {
  return (
    message.bytes + addedBytes(entry, message) <= capacity.bytes &&
    message.containers + (entry.containers ?? 0) <= FEW_CONTAINERS
  );
}

/** The second request brings the brackets along, and each after the first a comma. */
function addedBytes({ bytes }: Entry, { requests }: SharedMessage): number {
  return bytes + (requests.length === 0 ? 0 : 1) + (requests.length === 1 ? 2 : 0);
}

/** How many of the first messages one call holds. One with a body for the payload bucket fills a call alone. */
function messagesInCall(messages: readonly SharedMessage[], maxBytes: number): number {
  let bytes = 0;
  const end = messages.slice(0, MAX_BATCH_ENTRIES).findIndex((message, index) => {
    bytes += message.bytes;
    return index > 0 && bytes > maxBytes;
  });
  return end < 0 ? MAX_BATCH_ENTRIES : end;
}

/** How many requests share a message: so many, or as many as fit into 64 KiB. */
export type RequestsPerMessage = number | 'fill';

/** What a deployment takes by default: BATCHSCORE_MAX_REQUESTS_PER_MESSAGE. */
export const MAX_REQUESTS_PER_MESSAGE = 10_000;

export const EXPECTED_PER_MESSAGE = `expected 'fill' or a whole number from 1 to ${MAX_REQUESTS_PER_MESSAGE}`;

export function isRequestsPerMessage(value: unknown): value is RequestsPerMessage {
  if (value === 'fill') return true;
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_REQUESTS_PER_MESSAGE;
}

/** A request that may share a message with others, or such a message. */
export interface Entry {
  readonly body: string;
  /** Of the body, be it sent in the message or by the payload bucket. */
  readonly bytes: number;
  readonly group: string | undefined;
  readonly deduplicationId: string | undefined;
  /** Arrays and objects in the body, where it can be part of a packed message; undefined where it needs its own. */
  readonly containers: number | undefined;
}

interface EntryOptions {
  readonly encoding: Encoding;
  readonly fifo: boolean;
}

/** @throws RequestError when the request cannot be encoded, or cannot be sent to such a queue */
export function toEntry(
  request: ScoreRequest,
  perMessage: RequestsPerMessage,
  { encoding, fifo }: EntryOptions,
): Entry {
  assertRouting(request, fifo);
  const encoded = encodeRequest(request, encoding);
  const containers = perMessage === 1 ? undefined : containersIn(request, encoded);
  // One that SQS would refuse must not take the requests beside it along.
  const body = containers === undefined ? encoded : escapeForSqs(encoded);
  return {
    body,
    bytes: Buffer.byteLength(body),
    group: request.group,
    deduplicationId: fifo ? (request.deduplicationId ?? randomUUID()) : undefined,
    containers,
  };
}

/** One message of several requests of one group: the array of their bodies. None is deduplicated by itself. */
export function packedEntry(requests: readonly Entry[]): Entry {
  const [first] = requests;
  if (first === undefined) throw new Error('expected at least one request in a message');
  if (requests.length === 1) return first;
  const body = `[${requests.map((request) => request.body).join(',')}]`;
  return { ...first, body, bytes: Buffer.byteLength(body) };
}

/** The request, and its lists of inputs, outputs and contents. */
const CONTAINERS_A_REQUEST = 4;
/** The input, its shape and its data. */
const CONTAINERS_AN_INPUT = 3;

/**
 * A request that is deduplicated by itself is sent by itself. So is a body as it is that is no plain request: beside
 * others it might spoil theirs.
 */
function containersIn(request: ScoreRequest, body: string): number | undefined {
  if (request.deduplicationId !== undefined) return undefined;
  if ('body' in request) return containersInObject(body);
  const { inputs, outputs = [] } = request;
  return CONTAINERS_A_REQUEST + CONTAINERS_AN_INPUT * Object.keys(inputs).length + outputs.length;
}

/** Undefined where a text is not one JSON object, or has more of something than a long body may have. */
function containersInObject(text: string): number | undefined {
  if (!/^[ \t\r\n]*{/.test(text)) return undefined;
  const { end, levels, containers } = outlineAt(text, 0);
  if (end > text.length || levels >= MAX_LEVELS) return undefined;
  try {
    JSON.parse(text);
    return containers;
  } catch {
    return undefined;
  }
}

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
}
