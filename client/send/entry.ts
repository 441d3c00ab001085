import { randomUUID } from 'node:crypto';
import type { MessageAttributeValue } from '@aws-sdk/client-sqs';
import { MAX_MESSAGE_BYTES } from '../../lambda/adapters/sqs/limits.ts';
import { PAYLOAD_PREFIX, type PayloadPointer } from '../../lambda/core/contract/payload.ts';
import { POINTER_ATTRIBUTES, pointerBody } from '../../lambda/core/contract/pointer.ts';
import { RequestError } from '../base/errors.ts';
import { type Encoding, encodeRequest, type ScoreRequest } from '../request/request.ts';

/** One message, ready to be sent. */
export interface Entry {
  readonly body: string;
  /** Size of the request's body, be it in the message or in S3: bounds a batch request, and this process's memory. */
  readonly bytes: number;
  readonly attributes: Readonly<Record<string, MessageAttributeValue>> | undefined;
  readonly group: string | undefined;
  readonly deduplicationId: string | undefined;
  /** What must be in S3 before the message is sent; undefined where the message holds the whole body. */
  readonly payload: { readonly pointer: PayloadPointer; readonly text: string } | undefined;
}

export interface EntryOptions {
  readonly encoding: Encoding;
  readonly fifo: boolean;
  readonly payloadBucket: string | undefined;
  /** The most that the request queue takes in a message, as far as is known. @default 1 MiB */
  readonly maxBytes?: number;
}

/**
 * The message that asks for `request`.
 *
 * @throws RequestError when the request cannot be encoded, or cannot be sent to such a queue
 */
export function toEntry(request: ScoreRequest, options: EntryOptions): Entry {
  const { encoding, fifo, payloadBucket, maxBytes = MAX_MESSAGE_BYTES } = options;
  assertRouting(request, fifo);
  const body = encodeRequest(request, encoding);
  const entry: Entry = {
    body,
    bytes: Buffer.byteLength(body),
    attributes: undefined,
    group: request.group,
    deduplicationId: fifo ? (request.deduplicationId ?? randomUUID()) : undefined,
    payload: undefined,
  };
  return entry.bytes <= maxBytes ? entry : offloaded(entry, payloadBucket, maxBytes);
}

/**
 * The same request with its body in the payload bucket, and a message that points to it.
 *
 * @throws RequestError when there is no payload bucket
 */
export function offloaded(entry: Entry, payloadBucket: string | undefined, maxBytes: number): Entry {
  const { body: text, bytes } = entry;
  if (payloadBucket === undefined) throw tooLarge(bytes, maxBytes);
  const pointer = { bucket: payloadBucket, key: `${PAYLOAD_PREFIX}${randomUUID()}` };
  const attributes = { [POINTER_ATTRIBUTES[0]]: { DataType: 'Number', StringValue: String(bytes) } };
  return { ...entry, body: pointerBody(pointer), attributes, payload: { pointer, text } };
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
