import { createHash, hash } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import {
  appendFile,
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  statfs,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { threadId } from 'node:worker_threads';
import { GetObjectCommand, type GetObjectCommandOutput, type S3Client } from '@aws-sdk/client-s3';
import pLimit from 'p-limit';
import * as z from 'zod';
import { hasCode, messageOf } from '../core/failure.ts';
import { type ModelsUri, readModelsUri } from '../core/places.ts';
import { bodyOf } from './awsClients.ts';
import { describeError, isCallersFault } from './awsError.ts';
import { type RetryOptions, untilAnswered } from './sendBatches.ts';

export interface FetchModelsOptions {
  readonly s3: S3Client;
  /** `s3://bucket/prefix/<digest>`, as `batchscore publish` prints it. */
  readonly uri: string;
  /**
   * Parent of the repositories. Each has a folder named by its digest.
   * @default batchscore-models in the system's folder for temporary files
   */
  readonly directory?: string;
  /** Called with the size and duration of a fetch. @default nothing is reported */
  readonly inform?: ((message: string) => void) | undefined;
  readonly retry?: RetryOptions;
  /** Limit for one request in milliseconds. It ends downloads that hardly progress. @default 60000 */
  readonly limitMs?: number;
  /** Returns the free bytes on a folder's disk. @default the free bytes of the file system */
  readonly freeBytes?: (folder: string) => Promise<number>;
}

/**
 * Fetches a published model repository, unless this environment already has it. The folder appears only when it is
 * complete and its checksums match.
 *
 * @returns its folder
 * @throws Error if the URI has no digest, an object cannot be read or differs from the published one, or the disk is
 *   too small
 */
export async function fetchModels(options: FetchModelsOptions): Promise<string> {
  const { directory = join(tmpdir(), 'batchscore-models'), inform, freeBytes = freeBytesOf } = options;
  const uri = readModelsUri(options.uri);
  await openOwn(directory);
  const whole = join(directory, uri.digest);
  if (existsSync(whole)) return whole;

  const startedAt = performance.now();
  const source = { ...options, uri };
  const files = await fetchManifest(source);
  const folder = await openPartialFolder(directory, uri.digest);
  const parts = missingParts(files, folder);
  const bytes = parts.reduce((sum, { start, end }) => sum + end - start, 0);
  const free = await freeBytes(directory);
  if (bytes > free) {
    const [expected, got] = [megabytes(bytes), Math.floor(free / 1e5) / 10];
    throw new Error(`${options.uri}: expected ${expected} MB of room in ${directory}, got ${got} MB; ${RAISE_STORAGE}`);
  }
  await fetchParts(source, parts, folder);
  await folder.complete();
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(2);
  inform?.(`${options.uri}: ${megabytes(bytes)} MB in ${files.length} files fetched in ${seconds} s`);
  return whole;
}

/** Creates the folder, or checks that only this user can write to it, because a model may bring code. */
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
  const manifest = await read(source, key, NEVER, undefined, async (body, bytes) => {
    if (bytes > MAX_MANIFEST_BYTES) throw new Wrong(`expected at most ${MAX_MANIFEST_BYTES} bytes, got ${bytes}`);
    const chunks: Buffer[] = [];
    await drain(body, bytes, (chunk) => void chunks.push(chunk));
    return Buffer.concat(chunks).toString();
  });
  const got = digestOf(manifest);
  const refused = (what: string) => new Error(`s3://${bucket}/${key}: ${what}`);
  if (got !== digest) {
    throw refused(`expected SHA-256 ${digest}, got ${got}; it is not what was published: publish again, and deploy`);
  }
  try {
    return readManifest(manifest);
  } catch (cause) {
    throw refused(`expected a manifest that this version reads, got ${messageOf(cause)}; publish the models again`);
  }
}

async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

/**
 * Number of concurrent requests. Each reaches 85 to 90 MB/s at most.
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-design-patterns.html
 */
const PARTS_AT_A_TIME = 16;

interface MissingPart extends Part {
  readonly file: ModelFile;
  readonly sha256: string;
  readonly name: string;
}

function missingParts(files: readonly ModelFile[], { noted }: PartialFolder): MissingPart[] {
  return files
    .flatMap((file, fileIndex) =>
      partsOf(file.bytes).map((part, index) => ({
        ...part,
        file,
        sha256: file.parts[index] ?? '',
        name: `${fileIndex}:${index}`,
      })),
    )
    .filter(({ name }) => !noted.has(name));
}

/**
 * Fetches parts into the folder in parallel and verifies their checksums.
 *
 * @throws Error naming the first object that cannot be read or differs from the published one. All requests have ended
 *   then.
 */
async function fetchParts(source: Source, parts: readonly MissingPart[], folder: PartialFolder): Promise<void> {
  const failing = new AbortController();
  const atATime = pLimit(PARTS_AT_A_TIME);
  const fetch = (part: MissingPart) => fetchPart(source, part, folder, failing.signal);
  await Promise.all(parts.map((part) => atATime(() => fetch(part)).catch((error) => failing.abort(error))));
  failing.signal.throwIfAborted();
}

async function fetchPart(source: Source, part: MissingPart, folder: PartialFolder, stop: AbortSignal): Promise<void> {
  const path = join(folder.path, part.file.path);
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT);
  try {
    const key = fileKey(source.uri.folder, part.file.path);
    const write = (body: Readable, bytes: number) => writePart(body, bytes, part, file);
    if (part.file.bytes > 0) await read(source, key, stop, part, write);
  } finally {
    await file.close();
  }
  await folder.note(part.name);
}

/**
 * Streams a part of an object to its place in a file.
 *
 * @param objectBytes size of the whole object
 */
async function writePart(body: Readable, objectBytes: number, part: MissingPart, file: FileHandle): Promise<void> {
  const { start, end, sha256 } = part;
  if (objectBytes !== part.file.bytes) {
    throw new Wrong(`expected ${part.file.bytes} bytes, got ${objectBytes}; ${CHANGED}`);
  }
  const hash = createHash('sha256');
  let position = start;
  await drain(body, end - start, async (chunk) => {
    hash.update(chunk);
    await writeWhole(file, chunk, position);
    position += chunk.length;
  });
  const got = hash.digest('hex');
  if (got !== sha256) throw new Wrong(`expected SHA-256 ${sha256} of bytes ${start} to ${end}, got ${got}; ${CHANGED}`);
}

type PartialFolder = Awaited<ReturnType<typeof openPartialFolder>>;

/**
 * Opens a folder, or continues with one that a killed process left. Lambda kills a start that takes more than 10 s, and
 * starts again in the same environment with its files.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
 */
async function openPartialFolder(directory: string, name: string) {
  const own = join(directory, `${name}.part-${process.pid}-${threadId}`);
  const [files, notes] = [join(own, 'files'), join(own, 'notes')];
  await takeOver(directory, name, own);
  await mkdir(files, { recursive: true });
  return {
    path: files,
    /** Parts that this process or an earlier one has written. */
    noted: new Set((await readFile(notes, 'utf8').catch(() => '')).split('\n')),
    note: (part: string): Promise<void> => appendFile(notes, `${part}\n`),
    /** Gives the folder its final name. If another thread was faster, its folder stays. */
    async complete(): Promise<void> {
      await rename(files, join(directory, name)).catch(unlessThere);
      await rm(own, { recursive: true });
    },
  };
}

/** Takes over one folder that an ended process left, and removes the others. */
async function takeOver(directory: string, name: string, own: string): Promise<void> {
  const prefix = `${name}.part-`;
  const others = (await readdir(directory)).filter((entry) => entry.startsWith(prefix));
  for (const left of others.filter((entry) => !isRunning(Number.parseInt(entry.slice(prefix.length), 10)))) {
    await rename(join(directory, left), own).catch(() => rm(join(directory, left), { recursive: true, force: true }));
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // A process of another user is running, too.
    return hasCode(error, 'EPERM');
  }
}

function unlessThere(error: unknown): void {
  if (!hasCode(error, 'ENOTEMPTY', 'EEXIST')) throw error;
}

interface Source extends Pick<FetchModelsOptions, 's3' | 'retry' | 'limitMs'> {
  readonly uri: ModelsUri;
}

/** A part of 8 MiB takes longer only below 140 KB/s. */
const LIMIT_MS = 60_000;

class Wrong extends Error {}

const CHANGED = 'delete it, publish the models again, and deploy';

const DISK_FULL = 'ENOSPC';
const RAISE_STORAGE = 'raise ephemeralStorageSize';

const NEVER = new AbortController().signal;

/**
 * Reads an object, or a part of one, and retries until `use` has consumed it.
 *
 * @param use takes the requested bytes, and the size of the whole object
 * @throws Error if the object cannot be read
 */
async function read<T>(
  source: Source,
  key: string,
  stop: AbortSignal,
  part: Part | undefined,
  use: (body: Readable, objectBytes: number) => Promise<T>,
): Promise<T> {
  const { uri, retry } = source;
  let attempts = 0;
  const readOnce = (attempt: number): Promise<T> => {
    attempts = attempt;
    return get(source, key, stop, part, use);
  };
  try {
    return await untilAnswered(readOnce, isFinal, stop, retry);
  } catch (cause) {
    const inAll = `, in ${attempts} attempts; check that the function reaches S3`;
    throw new Error(`s3://${uri.bucket}/${key}: ${explain(cause, uri)}${isFinal(cause) ? '' : inAll}`, { cause });
  }
}

function isFinal(error: unknown): boolean {
  return error instanceof Wrong || isCallersFault(error) || hasCode(error, DISK_FULL);
}

function explain(error: unknown, { bucket, folder }: ModelsUri): string {
  if (error instanceof Wrong) return error.message;
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

async function get<T>(
  { s3, uri, limitMs = LIMIT_MS }: Source,
  key: string,
  stop: AbortSignal,
  part: Part | undefined,
  use: (body: Readable, objectBytes: number) => Promise<T>,
): Promise<T> {
  const Range = part === undefined ? undefined : `bytes=${part.start}-${part.end - 1}`;
  const command = new GetObjectCommand({ Bucket: uri.bucket, Key: key, Range });
  const answer = await s3.send(command, { abortSignal: stop });
  const body = bodyOf(answer);
  const abort = () => body.destroy(new Error('given up, because another object failed'));
  const timer = setTimeout(() => body.destroy(new Error(`no end within ${limitMs} ms`)), limitMs);
  stop.addEventListener('abort', abort, { once: true });
  try {
    return await use(body, sizeOf(answer));
  } finally {
    clearTimeout(timer);
    stop.removeEventListener('abort', abort);
    body.destroy();
  }
}

/** Returns the size of the whole object, as in `bytes 0-16777215/1073741824`. */
function sizeOf({ ContentRange, ContentLength = 0 }: GetObjectCommandOutput): number {
  return Number(/\/(\d+)$/.exec(ContentRange ?? '')?.[1] ?? ContentLength);
}

async function drain(body: Readable, bytes: number, take: (chunk: Buffer) => Promise<void> | void): Promise<void> {
  let got = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    got += chunk.length;
    if (got > bytes) throw new Error(`expected ${bytes} bytes, got more`);
    await take(chunk);
  }
  if (got < bytes) throw new Error(`expected ${bytes} bytes, got ${got}`);
}

/** Writes a whole chunk: a single write may stop short. */
async function writeWhole(file: FileHandle, chunk: Buffer, position: number): Promise<void> {
  for (let written = 0; written < chunk.length; ) {
    written += (await file.write(chunk, written, chunk.length - written, position + written)).bytesWritten;
  }
}

export interface ModelFile {
  /** Path in the repository with slashes: `digits/1/model.onnx`. */
  readonly path: string;
  readonly bytes: number;
  /** Hexadecimal SHA-256 of each {@link PART_BYTES}, in order. An empty file has one part. */
  readonly parts: readonly string[];
}

/**
 * Size of a part, the unit of uploads, checksums and downloads. S3 is fastest with ranges of 8 to 16 MB that begin
 * where the uploaded parts begin.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-design-patterns.html
 */
export const PART_BYTES = 8 * 1024 * 1024;

/** Maximum size of a manifest: about 40,000 files, or the parts of a terabyte. */
const MAX_MANIFEST_BYTES = 8 * 1024 * 1024;

/** Bytes `start` to `end` (exclusive) of a file. */
export interface Part {
  readonly start: number;
  readonly end: number;
}

export function partsOf(bytes: number): Part[] {
  return Array.from({ length: partCount(bytes) }, (_, index) => ({
    start: index * PART_BYTES,
    end: Math.min(bytes, (index + 1) * PART_BYTES),
  }));
}

function partCount(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / PART_BYTES));
}

export function manifestKey(folder: string): string {
  return `${folder}/manifest.json`;
}

export function fileKey(folder: string, path: string): string {
  return `${folder}/models/${path}`;
}

/** Returns the digest of a repository: the SHA-256 of its manifest, which has the checksums of all parts. */
export function digestOf(manifest: string | Uint8Array): string {
  return hash('sha256', manifest);
}

/** Formats a manifest. The same files give the same text. */
export function writeManifest(files: readonly ModelFile[]): string {
  const sorted = files.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  const content = sorted.map(({ path, bytes, parts }) => ({ path, bytes, parts }));
  return `${JSON.stringify({ format: 1, partBytes: PART_BYTES, files: content }, null, 1)}\n`;
}

/** Matches a path segment that stays in its folder and that all tools can write. */
const SAFE_STEP = /^(?!\.{1,2}$)[^/\\\p{Cc}]+$/u;

/** Returns true if a path stays in the folder that it is joined to. */
export function isSafePath(path: string): boolean {
  return path.split('/').every((step) => SAFE_STEP.test(step));
}

const MANIFEST = z.strictObject({
  format: z.literal(1),
  partBytes: z.literal(PART_BYTES),
  files: z
    .array(
      z
        .strictObject({
          path: z
            .string()
            .refine(isSafePath, 'expected a path below the models, without . or .. or control characters'),
          bytes: z.number().int().min(0),
          parts: z.array(z.string().regex(/^[0-9a-f]{64}$/)),
        })
        .refine(({ bytes, parts }) => parts.length === partCount(bytes), 'expected a checksum of each part'),
    )
    .min(1)
    .refine(areApart, 'expected each path once, and none below a file'),
});

/** Returns true if no file would overwrite another one or its folder. */
function areApart(files: readonly ModelFile[]): boolean {
  const paths = new Set(files.map(({ path }) => path));
  return paths.size === files.length && files.every(({ path }) => !foldersOf(path).some((folder) => paths.has(folder)));
}

/** `a/b/c` → `a`, `a/b` */
function foldersOf(path: string): string[] {
  const steps = path.split('/');
  return steps.slice(1).map((_, index) => steps.slice(0, index + 1).join('/'));
}

/** @throws Error if the manifest is invalid */
function readManifest(text: string): readonly ModelFile[] {
  const parsed = MANIFEST.safeParse(JSON.parse(text));
  if (parsed.success) return parsed.data.files;
  const [issue] = parsed.error.issues;
  throw new Error(`${issue?.path.join('.') || 'manifest'}: ${issue?.message}`);
}
