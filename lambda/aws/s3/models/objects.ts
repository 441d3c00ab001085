import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { GetObjectCommand, type GetObjectCommandOutput, type S3Client } from '@aws-sdk/client-s3';
import type { ModelsUri } from '../../../core/places.ts';
import { describeError, isCallersFault } from '../../awsError.ts';
import { hasCode } from '../../hasCode.ts';
import { type RetryOptions, untilDone } from '../../untilDone.ts';
import type { Part } from './manifest.ts';

/** The published repository that objects are read from. */
export interface Source {
  readonly s3: S3Client;
  readonly uri: ModelsUri;
  readonly retry?: RetryOptions | undefined;
  /** Milliseconds that one request may take: one that trickles would hold up the start for good. @default 60000 */
  readonly limitMs?: number | undefined;
}

/** 8 MiB take longer only below 140 KB/s. */
const LIMIT_MS = 60_000;

/** Trying again would give the same. */
class Wrong extends Error {}

/**
 * The text of a small object.
 *
 * @throws Error saying why it cannot be read, or that it has more than `mostBytes`
 */
export async function readText(source: Source, key: string, mostBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  await untilRead(source, key, NEVER, async () => {
    chunks.length = 0;
    await get(source, key, undefined, NEVER, async (body, bytes) => {
      if (bytes > mostBytes) throw new Wrong(`expected at most ${mostBytes} bytes, got ${bytes}`);
      await drain(body, bytes, (chunk) => void chunks.push(chunk));
    });
  });
  return Buffer.concat(chunks).toString();
}

/**
 * Writes a part of an object to its place in a file, as it comes: nothing of it is kept in memory.
 *
 * @param objectBytes what the object has in all
 * @throws Error saying why it cannot be read, or that the object has another size or content
 */
export async function readInto(
  source: Source,
  key: string,
  part: Part & { readonly sha256: string },
  objectBytes: number,
  file: FileHandle,
  stop: AbortSignal,
): Promise<void> {
  const write = async (body: Readable, bytes: number): Promise<void> => {
    if (bytes !== objectBytes) throw new Wrong(`expected ${objectBytes} bytes, got ${bytes}; ${CHANGED}`);
    const hash = createHash('sha256');
    let position = part.start;
    await drain(body, part.end - part.start, async (chunk) => {
      hash.update(chunk);
      await writeWhole(file, chunk, position);
      position += chunk.length;
    });
    const got = hash.digest('hex');
    if (got === part.sha256) return;
    throw new Wrong(`expected SHA-256 ${part.sha256} of bytes ${part.start} to ${part.end}, got ${got}; ${CHANGED}`);
  };
  await untilRead(source, key, stop, () => get(source, key, part, stop, write));
}

/** What to do about an object that is not the one that was published. */
const CHANGED = 'delete it, publish the models again, and deploy';

const DISK_FULL = 'ENOSPC';
/** What to do about a disk that is too small. */
export const RAISE_STORAGE = 'raise ephemeralStorageMb, in a CDK app ephemeralStorageSize';

const NEVER = new AbortController().signal;

/** @throws Error saying why the last attempt failed */
async function untilRead(
  { uri, retry }: Source,
  key: string,
  stop: AbortSignal,
  attempt: () => Promise<void>,
): Promise<void> {
  const what = `s3://${uri.bucket}/${key}`;
  let last: unknown;
  let attempts = 0;
  const tryOnce = async (left: readonly string[]): Promise<readonly string[]> => {
    attempts += 1;
    try {
      await attempt();
      return [];
    } catch (error) {
      if (error instanceof Wrong) throw new Error(`${what}: ${error.message}`, { cause: error });
      if (isCallersFault(error) || hasCode(error, DISK_FULL))
        throw new Error(`${what}: ${explain(error, uri)}`, { cause: error });
      last = error;
      return left;
    }
  };
  const left = await untilDone([key], tryOnce, stop, retry);
  if (left.length === 0) return;
  throw new Error(
    `${what}: expected to read it, got ${describeError(last)}, in ${attempts} attempts; check that the function reaches S3`,
    { cause: last },
  );
}

/** What stays as it is, however often it is tried. */
function explain(error: unknown, { bucket, folder }: ModelsUri): string {
  if (hasCode(error, DISK_FULL)) return `expected room for it, got a full disk; ${RAISE_STORAGE}`;
  switch (error instanceof Error ? error.name : undefined) {
    case 'NoSuchKey':
    case 'NotFound':
      return 'expected what batchscore publish puts there, got nothing; publish the models again, or correct the URI';
    case 'NoSuchBucket':
      return 'expected a bucket, got none of that name; correct the URI';
    case 'AccessDenied':
      return (
        `expected the right to read it, got AccessDenied; allow s3:GetObject on arn:aws:s3:::${bucket}/${folder}/*, ` +
        'with a key of its own also kms:Decrypt, or correct the URI: S3 hides what it does not have'
      );
    case 'PermanentRedirect':
    case 'AuthorizationHeaderMalformed':
      return `expected a bucket in the function's region, got ${describeError(error)}; publish into one there`;
    default:
      return `expected to read it, got ${describeError(error)}`;
  }
}

/** @param use is given what was asked for, and the size of the whole object */
async function get(
  { s3, uri, limitMs = LIMIT_MS }: Source,
  key: string,
  part: Part | undefined,
  stop: AbortSignal,
  use: (body: Readable, objectBytes: number) => Promise<void>,
): Promise<void> {
  const Range = part === undefined ? undefined : `bytes=${part.start}-${part.end - 1}`;
  const command = new GetObjectCommand({ Bucket: uri.bucket, Key: key, Range });
  const answer = await s3.send(command, { abortSignal: stop });
  const { Body: body } = answer;
  if (!(body instanceof Readable)) throw new Error('expected a stream as the body of an S3 object');
  // An error that nobody listens to ends the process, one after the last byte, too.
  body.on('error', () => {});
  const abort = () => body.destroy(new Error('given up, because another object failed'));
  const timer = setTimeout(() => body.destroy(new Error(`no end within ${limitMs} ms`)), limitMs);
  stop.addEventListener('abort', abort, { once: true });
  try {
    await use(body, sizeOf(answer));
  } finally {
    clearTimeout(timer);
    stop.removeEventListener('abort', abort);
    body.destroy();
  }
}

/** `bytes 0-16777215/1073741824` */
function sizeOf({ ContentRange, ContentLength = 0 }: GetObjectCommandOutput): number {
  return Number(/\/(\d+)$/.exec(ContentRange ?? '')?.[1] ?? ContentLength);
}

/** Takes every byte, and no more than there should be. */
async function drain(body: Readable, bytes: number, take: (chunk: Buffer) => Promise<void> | void): Promise<void> {
  let got = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    got += chunk.length;
    if (got > bytes) throw new Error(`expected ${bytes} bytes, got more`);
    await take(chunk);
  }
  if (got < bytes) throw new Error(`expected ${bytes} bytes, got ${got}`);
}

/** A write may stop short. */
async function writeWhole(file: FileHandle, chunk: Buffer, position: number): Promise<void> {
  for (let written = 0; written < chunk.length; ) {
    written += (await file.write(chunk, written, chunk.length - written, position + written)).bytesWritten;
  }
}
