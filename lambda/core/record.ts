import { type Failure, failure, preview, type TransientCode } from './failure.ts';
import { isObject } from './json.ts';

/**
 * One SQS message as a host receives it: the part of Lambda's `SQSRecord` that scoring reads.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
export interface MessageRecord {
  readonly messageId: string;
  readonly receiptHandle: string;
  readonly body: string;
  readonly attributes: {
    readonly ApproximateReceiveCount: string;
    readonly SentTimestamp: string;
    readonly MessageGroupId?: string | undefined;
  };
  readonly messageAttributes: Readonly<Record<string, { readonly stringValue?: string | undefined }>>;
  readonly eventSourceARN: string;
}

/** The ordering group of a FIFO record; undefined on a standard queue, whose groups are for fairness, not for order. */
export function orderingGroup(record: MessageRecord): string | undefined {
  const { MessageGroupId } = record.attributes;
  return MessageGroupId !== undefined && record.eventSourceARN.endsWith('.fifo') ? MessageGroupId : undefined;
}

/** The attribute that carries the message ID beside a result: of an SQS message, and the partition key of a table. */
export const MESSAGE_ID_ATTRIBUTE = 'messageId';
/** The attribute of an SQS message that holds several results: how many. It then has no message ID of its own. */
export const RESULTS_ATTRIBUTE = 'results';
/** The attribute that a table's time to live goes by: epoch seconds. */
export const EXPIRES_AT_ATTRIBUTE = 'expiresAt';
/** In a table: the result's JSON text, unless it lies in the payload bucket. */
export const BODY_ATTRIBUTE = 'body';
/** In place of the body: the text of a pointer to it. */
export const POINTER_ATTRIBUTE = 'pointer';

export interface Result {
  readonly messageId: string;
  /** The JSON text of the answer, or of the array of answers to a packed message. */
  readonly body: string;
  /** The FIFO group of the request, so that FIFO in is FIFO out. */
  readonly messageGroupId: string | undefined;
}

/** What became of one result: taken by the store, or refused and why. */
export type WriteStatus = { readonly written: true } | Failure;

/** A store of results. Statuses align with `results` by index; a result that it refuses never makes it throw. */
export interface ResultWriter {
  /** @param signal aborted when there is no time left to retry; what is not written by then is a failure */
  write(results: readonly Result[], signal: AbortSignal): Promise<readonly WriteStatus[]>;
  /**
   * Of results of one message group, in order: how many of the first are written all or not at all, as they share a
   * message. The order of a group holds within it. @default 1
   */
  writtenAsOne?(results: readonly Result[]): number;
  /** Why the store can never hold a result, as far as that is known before it is written. @default nothing is known */
  refuses?(result: Result): Failure | undefined;
}

/** What became of a record. `answered`: a result was written, be it a score or an error. `retry`: back to SQS. */
export type Outcome =
  | { readonly status: 'answered'; readonly failures: readonly Failure[]; readonly requests: number }
  | { readonly status: 'retry'; readonly failure: Failure<TransientCode> };

export interface TimeLimit {
  readonly remainingMs: () => number;
  /** Aborted when all work of the call must stop, in time for the answer to SQS. */
  readonly signal: AbortSignal;
  /**
   * Starts the time anew, for a request that runs alone because a run with others was lost.
   *
   * @default the time is fixed, as that of a Lambda invocation
   */
  readonly renew?: (() => void) | undefined;
}

/** After the deadline, work that has ended gets this long to report what became of it. */
export const GRACE_MS = 100;

export const NO_DEADLINE: TimeLimit = {
  remainingMs: () => Number.POSITIVE_INFINITY,
  signal: new AbortController().signal,
};

/**
 * The convention of the SQS Extended Client for bodies that lie in S3.
 *
 * @see https://github.com/awslabs/payload-offloading-java-common-lib-for-aws
 */
export const POINTER_CLASS = 'software.amazon.payloadoffloading.PayloadS3Pointer';
const OLDER_POINTER_CLASS = 'com.amazon.sqs.javamessaging.MessageS3Pointer';

/** The message attributes beside a pointer, of which a producer sends one: the size of the body in bytes. */
export const POINTER_ATTRIBUTES = ['ExtendedPayloadSize', 'SQSLargePayloadSize'] as const;

export function pointerBody({ bucket, key }: PayloadPointer): string {
  return JSON.stringify([POINTER_CLASS, { s3BucketName: bucket, s3Key: key }]);
}

/** The pointer in a parsed body, or why it is broken; undefined where the body is not a pointer at all. */
export function parsePointer(parsed: unknown): PayloadPointer | Failure | undefined {
  if (!Array.isArray(parsed) || (parsed[0] !== POINTER_CLASS && parsed[0] !== OLDER_POINTER_CLASS)) return undefined;
  const [, location, ...rest] = parsed;
  if (rest.length > 0 || !isObject(location)) {
    return broken('body[1]', '{"s3BucketName": …, "s3Key": …} and no more', location);
  }
  const { s3BucketName: bucket, s3Key: key, ...others } = location;
  for (const unknown in others) return broken('body[1]', 'only the keys s3BucketName, s3Key', unknown);
  if (typeof bucket !== 'string' || bucket === '') return broken('body[1].s3BucketName', "a bucket's name", bucket);
  if (typeof key !== 'string' || !isObjectKey(key)) {
    return broken(
      'body[1].s3Key',
      `an object key of 1 to ${MAX_KEY_BYTES} bytes of UTF-8 with no '..' in its path`,
      key,
    );
  }
  return { bucket, key };
}

/** @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html */
const MAX_KEY_BYTES = 1024;

/**
 * Behind a proxy that normalizes paths, `..` could lead out of the bucket. What has no UTF-8, half of a surrogate pair, has
 * no URL either.
 */
function isObjectKey(key: string): boolean {
  return (
    key !== '' &&
    key.isWellFormed() &&
    new TextEncoder().encode(key).length <= MAX_KEY_BYTES &&
    !key.split('/').includes('..')
  );
}

function broken(path: string, expected: string, got: unknown): Failure {
  return failure('INVALID_POINTER', `${path}: expected ${expected}, got ${preview(got)}; see docs/message-format.md`);
}

/** Where a body that was too large for SQS lies. */
export interface PayloadPointer {
  readonly bucket: string;
  readonly key: string;
}

/** Reads bodies that were too large for SQS: only from the deployment's payload bucket, and there only requests. */
export interface PayloadReader {
  /**
   * The text of the object, or why there is none: another bucket or a key of no request (INVALID_POINTER), no such
   * object (PAYLOAD_NOT_FOUND), larger than allowed (PAYLOAD_TOO_LARGE), or S3 out of reach (PAYLOAD_UNAVAILABLE, transient).
   */
  read(pointer: PayloadPointer, options: PayloadReadOptions): Promise<string | Failure>;
}

export interface PayloadReadOptions {
  /** Waits for memory for so many bytes, the size that S3 says. Called once, before the first of them is read. */
  readonly admit: (bytes: number) => Promise<void>;
  readonly signal: AbortSignal;
}
