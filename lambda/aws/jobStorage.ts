import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { type ByteRange, JobError, type JobInput, type JobStorage } from '../jobs/jobFiles.ts';
import { bodyOf, isMissing } from './awsClients.ts';
import { describeError, isCallersFault, isNamed } from './awsError.ts';
import { type RetryOptions, untilAnswered } from './sendBatches.ts';

interface JobStorageOptions {
  readonly s3: S3Client;
  readonly bucket: string;
  readonly retry?: RetryOptions | undefined;
}

const NEVER = new AbortController().signal;

/** Range of a sequential read. It is large enough to make the cost of a request small. */
const RANGE_BYTES = 8 * 1024 * 1024;

/** Stores job objects in S3. Each read of the input names its version by `If-Match`, so that versions never mix. */
export function createJobStorage({ s3, bucket, retry }: JobStorageOptions): JobStorage {
  /** Retries until S3 answers or the error is final. @throws JobError, or the error of the last attempt */
  const ask = async <T>(key: string, request: () => Promise<T>): Promise<T> => {
    try {
      return await untilAnswered(request, isFinal, NEVER, retry);
    } catch (cause) {
      if (cause instanceof JobError) throw cause;
      throw new Error(`s3://${bucket}/${key}: expected an answer, got ${describeError(cause)}`, { cause });
    }
  };
  const open = async ({ key, etag }: JobInput, { start, end }: ByteRange): Promise<Readable> => {
    const Range = `bytes=${start}-${end - 1}`;
    try {
      return bodyOf(await s3.send(new GetObjectCommand({ Bucket: bucket, Key: key, IfMatch: etag, Range })));
    } catch (error) {
      throw toJobError(error, key) ?? error;
    }
  };
  const readRange = (input: JobInput, range: ByteRange): Promise<Uint8Array> =>
    ask(input.key, async () => allOf(await open(input, range), range.end - range.start));
  return {
    readRange,
    // Each range is read whole, because S3 closes connections that are idle during scoring.
    async *readAll(input) {
      for (let start = 0; start < input.bytes; start += RANGE_BYTES) {
        yield await readRange(input, { start, end: Math.min(start + RANGE_BYTES, input.bytes) });
      }
    },
    get: (Key) =>
      ask(Key, () =>
        unlessMissing(async () => text(bodyOf(await s3.send(new GetObjectCommand({ Bucket: bucket, Key }))))),
      ),
    async put(key, body) {
      const object = { Bucket: bucket, Key: key, Body: body, ContentLength: Buffer.byteLength(body) };
      await ask(key, () => s3.send(new PutObjectCommand(object)));
    },
    putNew: (key, body, about) => {
      const object = { Bucket: bucket, Key: key, Body: body, ContentLength: body.length, Metadata: { about } };
      return ask(key, async () => {
        try {
          await s3.send(new PutObjectCommand({ ...object, IfNoneMatch: '*' }));
          return true;
        } catch (error) {
          if (isNamed(error, 'PreconditionFailed')) return false;
          throw error;
        }
      });
    },
    look: (Key) =>
      ask(Key, () =>
        unlessMissing(async () => {
          const {
            Metadata,
            ContentLength = 0,
            ETag = '',
          } = await s3.send(new HeadObjectCommand({ Bucket: bucket, Key }));
          return { about: Metadata?.about ?? '', etag: ETag, bytes: ContentLength };
        }),
      ),
    async remove(Key) {
      await ask(Key, () => s3.send(new DeleteObjectCommand({ Bucket: bucket, Key })));
    },
    async *list(Prefix) {
      let ContinuationToken: string | undefined;
      do {
        const command = new ListObjectsV2Command({ Bucket: bucket, Prefix, ContinuationToken });
        const page = await ask(Prefix, () => s3.send(command));
        for (const { Key, ETag, Size } of page.Contents ?? []) {
          if (Key === undefined || ETag === undefined || Size === undefined)
            throw new Error(`s3://${bucket}/${Prefix}: expected keys, ETags and sizes of objects, got none`);
          yield { key: Key, etag: ETag, bytes: Size };
        }
        ContinuationToken = page.NextContinuationToken;
      } while (ContinuationToken !== undefined);
    },
  };
}

/**
 * Concurrent puts conflict, and S3 asks for a retry.
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
 */
function isFinal(error: unknown): boolean {
  return error instanceof JobError || (isCallersFault(error) && !isNamed(error, 'ConditionalRequestConflict'));
}

async function unlessMissing<T>(request: () => Promise<T>): Promise<T | undefined> {
  try {
    return await request();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/**
 * Another version is a 412.
 * @see https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html on If-Match
 */
function toJobError(error: unknown, key: string): JobError | undefined {
  if (isNamed(error, 'PreconditionFailed')) {
    return new JobError(
      'INPUT_CHANGED',
      `${key}: expected the version that the job was started for, got another; submit the new one as a job of its own`,
    );
  }
  if (isMissing(error)) {
    return new JobError('INPUT_NOT_FOUND', `${key}: expected the job's input, got no object; put it back and resume`);
  }
  return undefined;
}

/** Reads a body of known size into one buffer, without a second copy. */
async function allOf(body: Readable, size: number): Promise<Uint8Array> {
  const whole = Buffer.allocUnsafeSlow(size);
  let filled = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    if (filled + chunk.length > size) throw new Error(`expected ${size} bytes, got more`);
    filled += chunk.copy(whole, filled);
  }
  if (filled < size) throw new Error(`expected ${size} bytes, got ${filled}`);
  return whole;
}
