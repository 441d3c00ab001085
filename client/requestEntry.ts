import { randomUUID } from 'node:crypto';
import type { Packable } from '../lambda/aws/sqsMessages.ts';
import { preview } from '../lambda/core/failure.ts';
import { escapeForSqs, isObject, parseIfJson } from '../lambda/core/json.ts';
import { RequestError } from './clientErrors.ts';
import { type Encoding, encodeRequest, type ScoreRequest } from './encodeRequest.ts';

/** Encoded request. It is alone in its message if its body cannot be part of a packed message. */
export interface RequestEntry extends Omit<Packable, 'bytes'> {
  readonly group: string | undefined;
  readonly deduplicationId: string | undefined;
}

interface EntryOptions {
  readonly requestsPerMessage: number;
  readonly encoding: Encoding;
  readonly fifo: boolean;
}

/** @throws RequestError if the request cannot be encoded, or cannot be sent to such a queue */
export function toEntry(request: ScoreRequest, options: EntryOptions): RequestEntry {
  const { requestsPerMessage, encoding, fifo } = options;
  assertRouting(request, fifo);
  const encoded = encodeRequest(request, encoding);
  const mayShare = requestsPerMessage > 1 && canShare(request, encoded);
  // Characters that SQS refuses are escaped, so that one request does not make SQS refuse a shared message.
  const body = mayShare ? escapeForSqs(encoded) : encoded;
  return {
    body,
    bodyBytes: Buffer.byteLength(body),
    alone: !mayShare,
    group: request.group,
    deduplicationId: fifo ? (request.deduplicationId ?? randomUUID()) : undefined,
  };
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
