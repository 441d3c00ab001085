import { randomUUID } from 'node:crypto';
import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import { MAX_BATCH_ENTRIES, MAX_MESSAGE_BYTES } from '../lambda/aws/sendBatches.ts';
import { escapeForSqs } from '../lambda/core/json.ts';
import { FEW_CONTAINERS, MAX_LEVELS, outlineAt } from '../lambda/core/outline.ts';
import { requestKeys } from '../lambda/core/places.ts';
import { type PayloadPointer, POINTER_ATTRIBUTES, pointerBody } from '../lambda/core/record.ts';

import { RequestError } from './clientErrors.ts';
import { type Encoding, encodeRequest, type ScoreRequest } from './encodeRequest.ts';

/** What the outbox tells of a request that SQS has taken. */
export interface Sent {
  /** Under which its result is collected. */
  readonly id: string;
  /** How many requests its message holds. */
  readonly requests: number;
}

/** One request that waits to be sent. */
export interface Waiting {
  readonly entry: Entry;
  readonly packing: Packing;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (sent: Sent) => void;
  readonly reject: (reason: unknown) => void;
}

/** The requests that wait, in the messages that they will share, in the order of their coming. */
interface WaitingMessages {
  /** Adds a request to the last message of its group where it fits, else to one of its own. */
  add(request: Waiting): void;
  /** Puts requests back in front of the others. All are shared out anew: a message may hold less by now. */
  putBack(requests: readonly Waiting[]): void;
  /**
   * Takes the requests of as many of the first messages as one call holds.
   *
   * @param all whether messages leave that could take more
   */
  takeCall(maxBytes: number, all: boolean): readonly (readonly Waiting[])[];
  /** Whether there is a call's worth of messages that take no more, or too much waits for others. */
  isFull(maxBytes: number): boolean;
  isEmpty(): boolean;
}

interface SharedMessage {
  readonly key: string;
  readonly requests: Waiting[];
  /** Of its body. */
  bytes: number;
  /** Arrays and objects in it. */
  containers: number;
  /** Whether it takes no more requests. */
  closed: boolean;
}

/** Bytes of bodies that may wait for others to share their messages. */
const MAX_OPEN_BYTES = 8 * 1024 * 1024;

export function createWaitingMessages(): WaitingMessages {
  let messages: SharedMessage[] = [];
  /** Those that take more, by what their requests have in common. */
  const open = new Map<string, SharedMessage>();
  let closed = 0;
  let closedBytes = 0;
  let openBytes = 0;

  const isCrowded = (): boolean => openBytes >= MAX_OPEN_BYTES;
  const close = (message: SharedMessage): void => {
    message.closed = true;
    open.delete(message.key);
    closed += 1;
    closedBytes += message.bytes;
    openBytes -= message.bytes;
  };
  const messageFor = (request: Waiting): SharedMessage => {
    const key = keyOf(request);
    const last = open.get(key);
    if (last !== undefined && fits(request, last)) return last;
    if (last !== undefined) close(last);
    const message = { key, requests: [], bytes: 0, containers: 1, closed: false };
    messages.push(message);
    open.set(key, message);
    return message;
  };
  const add = (request: Waiting): void => {
    const { entry, packing } = request;
    const message = messageFor(request);
    const bytes = addedBytes(entry, message);
    message.requests.push(request);
    message.bytes += bytes;
    message.containers += entry.containers ?? 0;
    openBytes += bytes;
    if (!mayShare(entry) || message.requests.length === packing.requests) close(message);
  };
  const forget = (taken: Iterable<SharedMessage>): void => {
    for (const message of taken) {
      if (message.closed) {
        closed -= 1;
        closedBytes -= message.bytes;
      } else {
        open.delete(message.key);
        openBytes -= message.bytes;
      }
    }
  };
  return {
    add,
    putBack(requests) {
      const all = [...requests, ...messages.flatMap((message) => message.requests)];
      forget(messages);
      messages = [];
      for (const request of all) add(request);
    },
    takeCall(maxBytes, all) {
      const due = all || isCrowded() ? messages : messages.filter((message) => message.closed);
      const taken = new Set(due.slice(0, messagesInCall(due, maxBytes)));
      messages = messages.filter((message) => !taken.has(message));
      forget(taken);
      return Array.from(taken, ({ requests }) => requests);
    },
    isFull: (maxBytes) => closed >= MAX_BATCH_ENTRIES || closedBytes >= maxBytes || isCrowded(),
    isEmpty: () => messages.length === 0,
  };
}

/**
 * Requests of one group share messages. One that needs its own leaves those of the others open, but not on a FIFO queue,
 * where requests have deduplication IDs: there it would be overtaken.
 */
function keyOf({ entry, packing }: Waiting): string {
  const shared = mayShare(entry) || entry.deduplicationId !== undefined;
  return `${shared ? packing.requests : 'own'} ${packing.bytes()} ${entry.group ?? ''}`;
}

function mayShare({ containers, payload }: Entry): boolean {
  return containers !== undefined && payload === undefined;
}

function fits({ entry, packing }: Waiting, message: SharedMessage): boolean {
  return (
    mayShare(entry) &&
    message.bytes + addedBytes(entry, message) <= packing.bytes() &&
    message.containers + (entry.containers ?? 0) <= FEW_CONTAINERS
  );
}

/** The second request brings the brackets along, and each after the first a comma. */
function addedBytes({ bytes }: Entry, { requests }: SharedMessage): number {
  return bytes + (requests.length === 0 ? 0 : 1) + (requests.length === 1 ? 2 : 0);
}

/** How many of the first messages one call holds. One with an offloaded payload fills a call alone. */
function messagesInCall(messages: readonly SharedMessage[], maxBytes: number): number {
  let bytes = 0;
  const end = messages.slice(0, MAX_BATCH_ENTRIES).findIndex((message, index) => {
    bytes += message.bytes;
    return index > 0 && bytes > maxBytes;
  });
  return end < 0 ? MAX_BATCH_ENTRIES : end;
}

/** What one message may hold. */
export interface Packing {
  /** Most requests. */
  readonly requests: number;
  /** Most bytes of their bodies together; a larger request has a message of its own. */
  bytes(): number;
}

/** One request a message. */
export const ALONE: Packing = { requests: 1, bytes: () => 0 };

/** SQS bills every 64 KiB as one request. */
const BILLED_BYTES = 65_536;
/** A packed body in the payload bucket: well below what a deployment reads by default. */
const OFFLOADED_BYTES = 4 * 1024 * 1024;

interface PackingOptions {
  readonly payloadBucket: string | undefined;
  /** The most that the request queue takes in a message, as far as is known now. */
  readonly maxBytes: () => number;
}

/** `fill` is as many requests as SQS bills as one. A number of them goes to the payload bucket where it has to. */
export function packingOf(perMessage: RequestsPerMessage, { payloadBucket, maxBytes }: PackingOptions): Packing {
  if (perMessage === 1) return ALONE;
  if (perMessage === 'fill') {
    return { requests: MAX_REQUESTS_PER_MESSAGE, bytes: () => Math.min(BILLED_BYTES, maxBytes()) };
  }
  const bytes = payloadBucket === undefined ? maxBytes : () => OFFLOADED_BYTES;
  return { requests: perMessage, bytes };
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

/** One message, ready to be sent; or one request that may share a message with others. */
export interface Entry {
  readonly body: string;
  /** Size of the request's body, be it in the message or in S3: bounds a batch request, and this process's memory. */
  readonly bytes: number;
  readonly attributes: Readonly<Record<string, MessageAttributeValue>> | undefined;
  readonly group: string | undefined;
  readonly deduplicationId: string | undefined;
  /** Arrays and objects in the body, where it can be part of a packed message; undefined where it needs its own. */
  readonly containers: number | undefined;
  /** What must be in S3 before the message is sent; undefined where the message holds the whole body. */
  readonly payload: { readonly pointer: PayloadPointer; readonly text: string } | undefined;
}

/** Where bodies go that are too large for the queue. */
export interface OffloadOptions {
  readonly payloadBucket: string | undefined;
  /** What comes before `requests/` in the keys of that bucket. @default '' */
  readonly payloadPrefix?: string;
}

interface EntryOptions extends OffloadOptions {
  readonly encoding: Encoding;
  readonly fifo: boolean;
  /** The most that the request queue takes in a message, as far as is known. @default 1 MiB */
  readonly maxBytes?: number;
  /** Whether requests share messages. @default false */
  readonly packs?: boolean;
}

/**
 * The message that asks for `request`.
 *
 * @throws RequestError when the request cannot be encoded, or cannot be sent to such a queue
 */
export function toEntry(request: ScoreRequest, options: EntryOptions): Entry {
  const { encoding, fifo, maxBytes = MAX_MESSAGE_BYTES, packs = false } = options;
  assertRouting(request, fifo);
  const encoded = encodeRequest(request, encoding);
  const containers = packs ? containersIn(request, encoded) : undefined;
  // One that SQS would refuse must not take the requests beside it along.
  const body = containers === undefined ? encoded : escapeForSqs(encoded);
  const entry: Entry = {
    body,
    bytes: Buffer.byteLength(body),
    attributes: undefined,
    group: request.group,
    deduplicationId: fifo ? (request.deduplicationId ?? randomUUID()) : undefined,
    containers,
    payload: undefined,
  };
  return entry.bytes <= maxBytes ? entry : offloaded(entry, options, maxBytes);
}

/** One message of several requests of one group: the array of their bodies. None is deduplicated by itself. */
export function packedEntry(requests: readonly Entry[]): Entry {
  const [first] = requests;
  if (first === undefined) throw new Error('expected at least one request in a message');
  if (requests.length === 1) return first;
  const body = `[${requests.map((request) => request.body).join(',')}]`;
  return { ...first, body, bytes: Buffer.byteLength(body) };
}

/**
 * The same request with its body in the payload bucket, and a message that points to it.
 *
 * @throws RequestError when there is no payload bucket
 */
export function offloaded(
  entry: Entry,
  { payloadBucket, payloadPrefix = '' }: OffloadOptions,
  maxBytes: number,
): Entry {
  const { body: text, bytes } = entry;
  if (payloadBucket === undefined) throw tooLarge(bytes, maxBytes);
  const pointer = { bucket: payloadBucket, key: `${requestKeys(payloadPrefix)}${randomUUID()}` };
  const attributes = { [POINTER_ATTRIBUTES[0]]: { DataType: 'Number', StringValue: String(bytes) } };
  return { ...entry, body: pointerBody(pointer), attributes, payload: { pointer, text } };
}

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

/** The request, and its lists of inputs, outputs and contents. */
const CONTAINERS_A_REQUEST = 4;
/** The input, its shape and its data. */
const CONTAINERS_AN_INPUT = 3;

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

function tooLarge(bytes: number, maxBytes: number): RequestError {
  const raise = maxBytes < MAX_MESSAGE_BYTES ? " raise the queue's MaximumMessageSize," : '';
  return new RequestError(
    `expected a body of at most ${maxBytes} bytes, the most that the request queue takes in a message, got ${bytes}; ` +
      `set payloadBucket, the deployment's bucket for larger ones,${raise} or send fewer rows`,
  );
}
