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
  /** Of the body that the requester gave, wherever it lies: what one call and this process's memory are bounded by. */
  readonly bytes: number;
  readonly attributes: Readonly<Record<string, MessageAttributeValue>> | undefined;
  readonly group: string | undefined;
  readonly deduplicationId: string | undefined;
  /** What must lie in S3 before the message is sent; undefined where the body holds it all. */
  readonly payload: { readonly pointer: PayloadPointer; readonly text: string } | undefined;
}

export interface EntryOptions {
  readonly encoding: Encoding;
  readonly fifo: boolean;
  readonly payloadBucket: string | undefined;
}

/**
 * The message that asks for `request`.
 *
 * @throws RequestError when the request cannot be encoded, or not be sent to such a queue
 */
export function toEntry(request: ScoreRequest, { encoding, fifo, payloadBucket }: EntryOptions): Entry {
  assertRouting(request, fifo);
  const text = encodeRequest(request, encoding);
  const bytes = Buffer.byteLength(text);
  const routing = {
    group: request.group,
    deduplicationId: fifo ? (request.deduplicationId ?? randomUUID()) : undefined,
  };
  if (bytes <= MAX_MESSAGE_BYTES) return { body: text, bytes, attributes: undefined, payload: undefined, ...routing };

  const pointer = { bucket: bucketFor(bytes, payloadBucket), key: `${PAYLOAD_PREFIX}${randomUUID()}` };
  const attributes = { [POINTER_ATTRIBUTES[0]]: { DataType: 'Number', StringValue: String(bytes) } };
  return { body: pointerBody(pointer), bytes, attributes, payload: { pointer, text }, ...routing };
}

function assertRouting({ group, deduplicationId }: ScoreRequest, fifo: boolean): void {
  if (fifo && group === undefined) {
    throw new RequestError(
      'expected a group, because the request queue is a FIFO queue, got none; give each request one',
    );
  }
  if (!fifo && deduplicationId !== undefined) {
    throw new RequestError('expected no deduplicationId, because the request queue is a standard queue; leave it out');
  }
}

function bucketFor(bytes: number, payloadBucket: string | undefined): string {
  if (payloadBucket !== undefined) return payloadBucket;
  throw new RequestError(
    `expected a body of at most ${MAX_MESSAGE_BYTES} bytes, the size of an SQS message, got ${bytes}; ` +
      "give payloadBucket, the deployment's bucket for larger ones, or send fewer rows",
  );
}
