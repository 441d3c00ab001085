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
  /** Size of the request's body, be it in the message or in S3: bounds a call, and the memory of this process. */
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
}

/**
 * The message that asks for `request`.
 *
 * @throws RequestError when the request cannot be encoded, or cannot be sent to such a queue
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
      'expected a group on each request, as the request queue is a FIFO queue, got none; set group',
    );
  }
  if (!fifo && deduplicationId !== undefined) {
    throw new RequestError(
      'expected no deduplicationId, as the request queue is a standard queue, got one; leave it out',
    );
  }
}

function bucketFor(bytes: number, payloadBucket: string | undefined): string {
  if (payloadBucket !== undefined) return payloadBucket;
  throw new RequestError(
    `expected a body of at most ${MAX_MESSAGE_BYTES} bytes, the size of an SQS message, got ${bytes}; ` +
      "set payloadBucket, the deployment's bucket for larger ones, or send fewer rows",
  );
}
