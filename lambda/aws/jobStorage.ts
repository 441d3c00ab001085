import { Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { isFailure } from '../core/failure.ts';

import { JobError, type JobInput, type JobStorage } from '../jobs/jobTypes.ts';

import { describeError, isCallersFault } from './awsError.ts';

import { putObject } from './payloads.ts';
import { type RetryOptions, retryRemaining } from './sendBatches.ts';

interface JobStorageOptions {
  readonly s3: S3Client;
  readonly bucket: string;
  readonly retry?: RetryOptions | undefined;
}

const NEVER = new AbortController().signal;

/** Jobs' objects in S3. Each read of the input names its version by `If-Match`, so that two are never mixed. */
export function createJobStorage({ s3, bucket, retry }: JobStorageOptions): JobStorage {
  const open = async ({ key, etag }: JobInput, range: string | undefined): Promise<Readable> => {
    try {
      const where = { Bucket: bucket, Key: key, IfMatch: etag };
      return bodyOf(await s3.send(new GetObjectCommand(range === undefined ? where : { ...where, Range: range })));
    } catch (error) {
      throw changed(error, key) ?? error;
    }
  };
  return {
    readRange: (input, { start, end }) =>
      untilAnswered(
        async () => allOf(await open(input, `bytes=${start}-${end - 1}`), end - start),
        `s3://${bucket}/${input.key}`,
        retry,
      ),
    readAll: (input) => untilAnswered(() => open(input, undefined), `s3://${bucket}/${input.key}`, retry),
    get: (key) =>
      untilAnswered(
        async () => {
          try {
            return await textOf(bodyOf(await s3.send(new GetObjectCommand({ Bucket: bucket, Key: key }))));
          } catch (error) {
            if (isNamed(error, 'NoSuchKey', 'NotFound')) return undefined;
            throw error;
          }
        },
        `s3://${bucket}/${key}`,
        retry,
      ),
    async put(key, body) {
      const object = { Bucket: bucket, Key: key, Body: body, ContentLength: Buffer.byteLength(body) };
      const verdict = await putObject(s3, object, { store: 'bucket of jobs', signal: NEVER, retry });
      if (isFailure(verdict)) throw new Error(`s3://${bucket}/${key}: ${verdict.message}`);
    },
    putNew: (key, body, about) => {
      const object = { Bucket: bucket, Key: key, Body: body, ContentLength: body.length, Metadata: { about } };
      const put = async (): Promise<boolean> => {
        try {
          await s3.send(new PutObjectCommand({ ...object, IfNoneMatch: '*' }));
          return true;
        } catch (error) {
          if (isNamed(error, 'PreconditionFailed')) return false;
          throw error;
        }
      };
      return untilAnswered(put, `s3://${bucket}/${key}`, retry);
    },
    look: (key) =>
      untilAnswered(
        async () => {
          try {
            const { Metadata, ContentLength = 0 } = await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
            return { about: Metadata?.about ?? '', bytes: ContentLength };
          } catch (error) {
            if (isNamed(error, 'NoSuchKey', 'NotFound')) return undefined;
            throw error;
          }
        },
        `s3://${bucket}/${key}`,
        retry,
      ),
    async remove(key) {
      const command = new DeleteObjectCommand({ Bucket: bucket, Key: key });
      await untilAnswered(() => s3.send(command), `s3://${bucket}/${key}`, retry);
    },
    async *list(prefix) {
      let ContinuationToken: string | undefined;
      do {
        const page = await untilAnswered(
          () => s3.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ContinuationToken })),
          `s3://${bucket}/${prefix}`,
          retry,
        );
        for (const { Key, Size } of page.Contents ?? []) {
          if (Key === undefined || Size === undefined)
            throw new Error(`s3://${bucket}/${prefix}: expected keys and sizes of objects, got none`);
          yield { key: Key, bytes: Size };
        }
        ContinuationToken = page.NextContinuationToken;
      } while (ContinuationToken !== undefined);
    },
  };
}

/** Asks until there is an answer, or asking is of no use. @throws JobError, or what the last attempt met */
async function untilAnswered<T>(ask: () => Promise<T>, what: string, retry: RetryOptions | undefined): Promise<T> {
  let done: { readonly value: T } | undefined;
  let met: unknown;
  const attempt = async (left: readonly string[]): Promise<readonly string[]> => {
    try {
      done = { value: await ask() };
      return [];
    } catch (error) {
      met = error;
      return error instanceof JobError || (isCallersFault(error) && !isConflict(error)) ? [] : left;
    }
  };
  await retryRemaining([what], attempt, NEVER, retry);
  if (done !== undefined) return done.value;
  if (met instanceof JobError) throw met;
  throw new Error(`${what}: expected an answer, got ${describeError(met)}`, { cause: met });
}

/** Two puts at once: S3 asks for another try. @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html */
function isConflict(error: unknown): boolean {
  return isNamed(error, 'ConditionalRequestConflict');
}

/** @see https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html on If-Match: another version is a 412 */
function changed(error: unknown, key: string): JobError | undefined {
  if (isNamed(error, 'PreconditionFailed')) {
    return new JobError(
      'INPUT_CHANGED',
      `${key}: expected the version that the job was started for, got another; submit the new one as a job of its own`,
    );
  }
  if (isNamed(error, 'NoSuchKey', 'NotFound')) {
    return new JobError('INPUT_NOT_FOUND', `${key}: expected the job's input, got no object; put it back and resume`);
  }
  return undefined;
}

function isNamed(error: unknown, ...names: readonly string[]): boolean {
  return error instanceof Error && names.includes(error.name);
}

function bodyOf({ Body }: { readonly Body?: unknown }): Readable {
  if (!(Body instanceof Readable)) throw new Error('expected a stream as the body of an S3 object');
  // It may break while nobody reads it yet, and an error that nobody listens to ends the process.
  Body.on('error', () => {});
  return Body;
}

/** Into one buffer of its own, of the size that is known: there is never a second copy. */
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

async function textOf(body: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of body as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
