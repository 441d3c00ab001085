import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { GetObjectCommand, PutObjectCommand, type PutObjectCommandInput, type S3Client } from '@aws-sdk/client-s3';
import pLimit from 'p-limit';
import { waitOrAbort } from '../core/concurrency.ts';
import { type Failure, failure, isFailure, type Outage, PAYLOAD_BUCKET, preview } from '../core/failure.ts';
import { liesUnder, requestKeys, resultKeys } from '../core/places.ts';
import type { PayloadPointer, PayloadReader, PayloadReadOptions, WriteStatus } from '../core/record.ts';
import { bodyOf, isMissing } from './awsClients.ts';
import { describeError, isCallersFault, outageKind } from './awsError.ts';
import { CALLS_IN_FLIGHT, type RetryOptions, retryRemaining, type Sending, sendBatches } from './sendBatches.ts';
import type { PayloadUploader } from './storeEntries.ts';

export interface PayloadsOptions {
  readonly s3: S3Client;
  /** The deployment's payload bucket. No other bucket is read. */
  readonly bucket: string;
  /** Prefix of `requests/`, which is read, and `results/`, which is written. @default '' */
  readonly prefix?: string | undefined;
  /** Maximum size of a body that is read, at least 1. */
  readonly maxBytes: number;
  readonly retry?: RetryOptions;
}

export interface Payloads extends PayloadReader, PayloadUploader {}

/**
 * Reads and puts bodies that are too large for SQS or DynamoDB, by the convention of the SQS Extended Client. Requests
 * and results have separate key prefixes, so results are never read here.
 *
 * @see https://github.com/awslabs/payload-offloading-java-common-lib-for-aws
 */
export function createPayloads(options: PayloadsOptions): Payloads {
  const { s3, bucket, prefix = '', maxBytes, retry } = options;
  const [requests, results] = [requestKeys(prefix), resultKeys(prefix)];
  // Each body is in memory as a whole.
  const reading = pLimit(CALLS_IN_FLIGHT);
  const putting = pLimit(CALLS_IN_FLIGHT);

  return {
    put(body, signal) {
      const pointer = { bucket, key: `${results}${randomUUID()}` };
      const object = { Bucket: bucket, Key: pointer.key, Body: body, ContentType: 'application/json' };
      return putting(async () => {
        const status = await putObject(s3, object, { store: PAYLOAD_BUCKET, signal, retry });
        return isFailure(status) ? status : pointer;
      });
    },
    async read(pointer, options) {
      if (pointer.bucket !== bucket) return anotherBucket(bucket, pointer);
      if (!liesUnder(requests, pointer.key)) return noRequest(requests, pointer);
      const { signal } = options;
      const admission = createAdmission(options.admit);
      const readOptions = { signal, isAdmitted: admission.isNow, othersWait: () => reading.pendingCount > 0 };
      for (;;) {
        const answer = await reading(() => readUntilAnswered(s3, pointer, maxBytes, readOptions, retry));
        if (answer !== undefined) return answer;
        await waitOrAbort(admission.wait(), signal);
      }
    },
  };
}

/** Time to wait for admission, which another process grants. */
const ADMISSION_MS = 20;

/** Creates the memory admission of a body. A body that waits for memory holds no download slot and no connection. */
function createAdmission(admit: PayloadReadOptions['admit']) {
  let admitted: Promise<void> | undefined;
  return {
    /** Requests memory on the first call. @returns true if it is granted */
    isNow(bytes: number): Promise<boolean> {
      admitted ??= admit(bytes);
      return Promise.race([admitted.then(() => true), sleep(ADMISSION_MS, false)]);
    },
    wait: async (): Promise<void> => admitted,
  };
}

/** Limit for a download. A slow one would keep its slot and its memory. */
const BODY_MS = 10_000;
/** Interval of the speed checks. Two seconds outlast lost packets and their retransmission. */
const LOOK_MS = 2_000;
const MIN_BYTES_A_SECOND = 16 * 1024;
/** Maximum number of slow downloads of one body. S3 is often fast the second time. */
const SLOW_READS = 2;

class SlowBodyError extends Error {
  override readonly name = 'SlowBodyError';
}

interface ReadOptions {
  readonly signal: AbortSignal;
  /** Returns true if there is memory for a body of `bytes` bytes. */
  readonly isAdmitted: (bytes: number) => Promise<boolean>;
  /** Returns true if other bodies wait for a download slot. */
  readonly othersWait: () => boolean;
}

interface Attempt {
  /** Undefined if there is no memory for the body yet. */
  readonly answer: string | Failure | undefined;
  readonly again: boolean;
}

async function readUntilAnswered(
  s3: S3Client,
  pointer: PayloadPointer,
  maxBytes: number,
  options: ReadOptions,
  retry: RetryOptions | undefined,
): Promise<string | Failure | undefined> {
  let answer: Attempt['answer'] = unavailable(pointer, 'no answer before the deadline');
  const tryOnce = async (left: readonly PayloadPointer[], number: number) => {
    const attempt = await tryToRead(s3, pointer, maxBytes, options, number);
    if (!options.signal.aborted) answer = attempt.answer;
    return attempt.again ? left : [];
  };
  await waitOrAbort(retryRemaining([pointer], tryOnce, options.signal, retry), options.signal);
  return answer;
}

async function tryToRead(
  s3: S3Client,
  pointer: PayloadPointer,
  maxBytes: number,
  { isAdmitted, signal, othersWait }: ReadOptions,
  attempt: number,
): Promise<Attempt> {
  try {
    const command = new GetObjectCommand({ Bucket: pointer.bucket, Key: pointer.key });
    const answer = await s3.send(command, { abortSignal: signal });
    const { ContentLength } = answer;
    const body = bodyOf(answer);
    if ((ContentLength ?? 0) <= maxBytes && !(await isAdmitted(ContentLength ?? maxBytes))) {
      body.destroy();
      return { answer: undefined, again: false };
    }
    return { answer: await textOf(body, ContentLength ?? 0, pointer, maxBytes), again: false };
  } catch (error) {
    if (isMissing(error)) return { answer: notFound(pointer), again: false };
    const hint = error instanceof Error && error.name === 'AccessDenied' ? `; ${DENIED_HINT}` : '';
    const isLastSlow = error instanceof SlowBodyError && (attempt >= SLOW_READS || othersWait());
    return {
      answer: unavailable(pointer, `${describeError(error)}${hint}`, outageKind(error)),
      again: !(isCallersFault(error) || isLastSlow),
    };
  }
}

/** Reads the body as text. It ends the download of a body that is too large as soon as possible. */
async function textOf(
  body: Readable,
  announcedBytes: number,
  pointer: PayloadPointer,
  maxBytes: number,
): Promise<string | Failure> {
  if (announcedBytes > maxBytes) {
    body.destroy();
    return tooLarge(pointer, maxBytes, `${announcedBytes}`);
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of whileQuick(body)) {
    bytes += chunk.length;
    if (bytes > maxBytes) return tooLarge(pointer, maxBytes, 'more');
    chunks.push(chunk);
  }
  const whole = Buffer.concat(chunks);
  return isUtf8(whole) ? new TextDecoder().decode(whole) : notText(pointer);
}

/** Yields the chunks of a body as long as it is fast enough. @throws SlowBodyError */
async function* whileQuick(body: Readable): AsyncGenerator<Buffer> {
  const min = (MIN_BYTES_A_SECOND * LOOK_MS) / 1000;
  let bytes = 0;
  const end = (got: string): void => void body.destroy(new SlowBodyError(got));
  // A timer that was late runs before pending data is read, so the check runs after the reads.
  const look = setInterval(() => {
    setImmediate(() => {
      if (bytes < min) end(`less than ${MIN_BYTES_A_SECOND} bytes a second`);
      bytes = 0;
    });
  }, LOOK_MS);
  const limit = setTimeout(() => end(`no end within ${BODY_MS} ms`), BODY_MS);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      yield chunk;
    }
  } finally {
    clearInterval(look);
    clearTimeout(limit);
  }
}

/**
 * S3 answers AccessDenied for a missing object if the role may not list the bucket, and for any object if the role has
 * lost its permission. Only the first is the producer's fault. Both are retried, so that a broken deployment does not
 * answer requests with errors.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
 */
const DENIED_HINT = 'allow the role s3:GetObject, and s3:ListBucket so that a missing object is told apart';

function anotherBucket(bucket: string, pointer: PayloadPointer): Failure {
  return failure(
    'INVALID_POINTER',
    `body[1].s3BucketName: expected the deployment's payload bucket ${preview(bucket)}, got ${preview(pointer.bucket)}`,
  );
}

function noRequest(requests: string, { key }: PayloadPointer): Failure {
  return failure(
    'INVALID_POINTER',
    `body[1].s3Key: expected a key that begins with "${requests}", got ${preview(key)}; upload the body there`,
  );
}

function notFound({ key }: PayloadPointer): Failure {
  return failure(
    'PAYLOAD_NOT_FOUND',
    `s3 object ${preview(key)}: expected it in the payload bucket, got none; keep it until its result is there`,
  );
}

function tooLarge({ key }: PayloadPointer, maxBytes: number, got: string): Failure {
  return failure(
    'PAYLOAD_TOO_LARGE',
    `s3 object ${preview(key)}: expected at most ${maxBytes} bytes, got ${got}; send several requests`,
  );
}

/** JSON is UTF-8. @see https://www.rfc-editor.org/rfc/rfc8259#section-8.1 */
function notText({ key }: PayloadPointer): Failure {
  return failure(
    'INVALID_JSON',
    `s3 object ${preview(key)}: expected JSON in UTF-8, got bytes that are not; upload the request's text uncompressed`,
  );
}

function unavailable({ key }: PayloadPointer, reason: string, kind?: Outage['kind']): Failure {
  const message = `s3 object ${preview(key)}: expected to read it, got ${reason}`;
  return failure('PAYLOAD_UNAVAILABLE', message, kind && { of: PAYLOAD_BUCKET, kind });
}

/** Puts one object. Retries until S3 has it, refuses it for good, or the signal aborts. */
export async function putObject(
  s3: S3Client,
  input: PutObjectCommandInput,
  { store, signal, retry }: Omit<Sending<never>, 'attempt'>,
): Promise<WriteStatus> {
  const attempt = async () => {
    await s3.send(new PutObjectCommand(input), { abortSignal: signal });
    return [];
  };
  const [status] = await sendBatches([input], { store, attempt, signal, retry });
  if (status === undefined) throw new Error('expected one status on one object');
  return status;
}
