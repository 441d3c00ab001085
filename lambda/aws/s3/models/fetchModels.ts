import { existsSync } from 'node:fs';
import { mkdir, stat, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { S3Client } from '@aws-sdk/client-s3';
import { messageOf } from '../../../core/failure.ts';
import { readModelsUri } from '../../../core/places.ts';
import type { RetryOptions } from '../../untilDone.ts';
import { fetchParts, missingParts } from './fetchParts.ts';
import { digestOf, MOST_MANIFEST_BYTES, type ModelFile, manifestKey, readManifest } from './manifest.ts';
import { RAISE_STORAGE, readText, type Source } from './objects.ts';
import { openPartialFolder } from './partialFolder.ts';

export interface FetchModelsOptions {
  readonly s3: S3Client;
  /** `s3://bucket/prefix/<digest>`, as `batchscore publish` prints it. */
  readonly uri: string;
  /** Where repositories are kept, each in a folder named by its digest. @default batchscore-models in the system's folder for temporary files */
  readonly directory?: string;
  /** Told how much was fetched, and how long that took. @default nobody is told */
  readonly inform?: ((message: string) => void) | undefined;
  readonly retry?: RetryOptions;
  /** Milliseconds that one request may take. @default 60000 */
  readonly limitMs?: number;
  /** Bytes that a folder's disk has left. @default what the system says */
  readonly freeBytes?: (folder: string) => Promise<number>;
}

/**
 * Fetches a published model repository, unless an earlier start of this environment has. Nothing is in its folder before
 * all of it is there and is what was published.
 *
 * @returns its folder
 * @throws Error saying that the URI has no digest, which object cannot be read or is not what was published, or how much room is missing
 */
export async function fetchModels(options: FetchModelsOptions): Promise<string> {
  const {
    s3,
    directory = join(tmpdir(), 'batchscore-models'),
    inform,
    retry,
    limitMs,
    freeBytes = freeBytesOf,
  } = options;
  const uri = readModelsUri(options.uri);
  await openOwn(directory);
  const whole = join(directory, uri.digest);
  if (existsSync(whole)) return whole;

  const startedAt = performance.now();
  const source = { s3, uri, retry, limitMs };
  const files = await fetchManifest(source);
  const folder = await openPartialFolder(directory, uri.digest);
  const parts = missingParts(files, folder);
  const bytes = parts.reduce((sum, { start, end }) => sum + end - start, 0);
  assertRoom(options.uri, directory, bytes, await freeBytes(directory));
  await fetchParts(source, parts, folder);
  await folder.complete();
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(2);
  inform?.(`${options.uri}: ${megabytes(bytes)} MB in ${files.length} files fetched in ${seconds} s`);
  return whole;
}

/** A model may bring code: what lies here is used as it is, so nobody else may put anything here. */
async function openOwn(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const { uid, mode } = await stat(directory);
  if (uid === process.geteuid?.() && (mode & OTHERS_WRITE) === 0) return;
  throw new Error(`${directory}: expected a folder that only this user can write to, got another; remove it`);
}

const OTHERS_WRITE = 0o022;

async function fetchManifest(source: Source): Promise<readonly ModelFile[]> {
  const { bucket, folder, digest } = source.uri;
  const key = manifestKey(folder);
  const text = await readText(source, key, MOST_MANIFEST_BYTES);
  const got = digestOf(text);
  const refused = (what: string) => new Error(`s3://${bucket}/${key}: ${what}`);
  if (got !== digest) {
    throw refused(`expected SHA-256 ${digest}, got ${got}; it is not what was published: publish again, and deploy`);
  }
  try {
    return readManifest(text);
  } catch (cause) {
    throw refused(`expected a manifest that this version reads, got ${messageOf(cause)}; publish the models again`);
  }
}

async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** A disk that fills up while models are written would say so late, and of one file alone. */
function assertRoom(uri: string, directory: string, bytes: number, free: number): void {
  if (bytes <= free) return;
  throw new Error(
    `${uri}: expected ${megabytes(bytes)} MB of room in ${directory}, got ${Math.floor(free / 1e5) / 10} MB; ${RAISE_STORAGE}`,
  );
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}
