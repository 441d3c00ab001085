import { type Failure, failure, preview, type TransientCode } from './failure.ts';
import { isObject } from './json.ts';

/**
 * SQS message as a host receives it: the fields of Lambda's `SQSRecord` that scoring reads.
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

/** Returns the ordering group of a FIFO record. Groups of a standard queue serve fairness, not order. */
export function orderingGroup(record: MessageRecord): string | undefined {
  const { MessageGroupId } = record.attributes;
  return MessageGroupId !== undefined && record.eventSourceARN.endsWith('.fifo') ? MessageGroupId : undefined;
}

/** Attribute of a result's message ID: of an SQS message, and the partition key of a table. */
export const MESSAGE_ID_ATTRIBUTE = 'messageId';
/** Attribute of an SQS message with several results: their number. Such a message has no message ID of its own. */
export const RESULTS_ATTRIBUTE = 'results';
/** Attribute of a request's message: name of the sender's result queue, one of those of the deployment. */
export const RESULT_QUEUE_ATTRIBUTE = 'resultQueue';
/** Attribute of a table's time to live, in epoch seconds. */
export const EXPIRES_AT_ATTRIBUTE = 'expiresAt';
/** Attribute of a result's JSON text in a table, unless it is in the payload bucket. */
export const BODY_ATTRIBUTE = 'body';
/** Attribute of a pointer in a table that replaces the body. */
export const POINTER_ATTRIBUTE = 'pointer';

export interface Result {
  readonly messageId: string;
  /** JSON text of the answer, or of the array of answers to a packed message. */
  readonly body: string;
  /** FIFO group of the request, for the result queue. */
  readonly messageGroupId: string | undefined;
  /** Name of the result queue of the sender. @default the deployment's first */
  readonly resultQueue?: string | undefined;
}

/** Status of one result: taken by the store, or refused with the reason. */
export type WriteStatus = { readonly written: true } | Failure;

/** Store of results. Statuses align with `results` by index. A refused result does not make it throw. */
export interface ResultWriter {
  /** @param signal aborted when there is no time left to retry; results that are not written by then fail */
  write(results: readonly Result[], signal: AbortSignal): Promise<readonly WriteStatus[]>;
  /**
   * Returns how many of the first results are written all or none, because they share a message. The results are of one
   * message group, in order, and their order holds within a message. @default 1
   */
  writtenAsOne?(results: readonly Result[]): number;
  /** Returns the reason why the store can never hold a result, if it is known before the write. @default never known */
  refuses?(result: Result): Failure | undefined;
}

/** Outcome of a record. `answered`: a result was written, a score or an error. `retry`: the record goes back to SQS. */
export type Outcome =
  | { readonly status: 'answered'; readonly failures: readonly Failure[]; readonly requests: number }
  | { readonly status: 'retry'; readonly failure: Failure<TransientCode> };

export interface TimeLimit {
  readonly remainingMs: () => number;
  /** Aborted when all work of the call must stop, in time for the answer to SQS. */
  readonly signal: AbortSignal;
  /**
   * Starts the time again, for a request that runs alone after a run with others was lost.
   *
   * @default the time is fixed, as in a Lambda invocation
   */
  readonly renew?: (() => void) | undefined;
}

/** Time after the deadline for finished work to report its outcome. */
export const GRACE_MS = 100;

export const NO_DEADLINE: TimeLimit = {
  remainingMs: () => Number.POSITIVE_INFINITY,
  signal: new AbortController().signal,
};

/**
 * Classes in a pointer to a body in S3, by the convention of the SQS Extended Client.
 *
 * @see https://github.com/awslabs/payload-offloading-java-common-lib-for-aws
 */
export const POINTER_CLASS = 'software.amazon.payloadoffloading.PayloadS3Pointer';
const OLDER_POINTER_CLASS = 'com.amazon.sqs.javamessaging.MessageS3Pointer';

/** Message attributes beside a pointer, of which a producer sends one: the size of the body in bytes. */
export const POINTER_ATTRIBUTES = ['ExtendedPayloadSize', 'SQSLargePayloadSize'] as const;

export function pointerBody({ bucket, key }: PayloadPointer): string {
  return JSON.stringify([POINTER_CLASS, { s3BucketName: bucket, s3Key: key }]);
}

/** Returns the pointer in a parsed body, or a failure if it is broken. Returns undefined if the body is no pointer. */
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
 * Returns true for a safe key. Behind a proxy that normalizes paths, `..` could lead out of the bucket. A key with half
 * of a surrogate pair has no UTF-8, and so no URL.
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
  return failure(
    'INVALID_POINTER',
    `${path}: expected ${expected}, got ${preview(got)}; see docs/message-format.md of batchscore`,
  );
}

/** Place of a body in S3 that was too large for SQS. */
export interface PayloadPointer {
  readonly bucket: string;
  readonly key: string;
}

/** Reads bodies that were too large for SQS, only from the `requests/` prefix of the deployment's payload bucket. */
export interface PayloadReader {
  /**
   * Returns the text of the object, or a failure:
   *
   * | code                | reason                                       |
   * | ------------------- | -------------------------------------------- |
   * | INVALID_POINTER     | another bucket, or a key outside `requests/` |
   * | PAYLOAD_NOT_FOUND   | no such object                               |
   * | PAYLOAD_TOO_LARGE   | larger than allowed                          |
   * | PAYLOAD_UNAVAILABLE | S3 is out of reach (transient)               |
   */
  read(pointer: PayloadPointer, options: PayloadReadOptions): Promise<string | Failure>;
}

export interface PayloadReadOptions {
  /** Waits for memory for `bytes` bytes, the size of the object. Called once, before the first byte is read. */
  readonly admit: (bytes: number) => Promise<void>;
  readonly signal: AbortSignal;
}
