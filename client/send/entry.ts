import { randomUUID } from 'node:crypto';
import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import { MAX_MESSAGE_BYTES } from '../../lambda/aws/sqsCalls.ts';
import { escapeForSqs } from '../../lambda/core/base/sqsText.ts';
import { requestKeys } from '../../lambda/core/contract/objectKeys.ts';
import type { PayloadPointer } from '../../lambda/core/contract/payload.ts';
import { POINTER_ATTRIBUTES, pointerBody } from '../../lambda/core/contract/pointer.ts';
import { MOST_LEVELS, outlineAt } from '../../lambda/core/decode/outline.ts';
import { RequestError } from '../base/errors.ts';
import { type Encoding, encodeRequest, type ScoreRequest } from '../request/request.ts';

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

export interface EntryOptions extends OffloadOptions {
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
  if (end > text.length || levels >= MOST_LEVELS) return undefined;
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
