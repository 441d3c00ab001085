import { isUtf8 } from 'node:buffer';
import { constants, createReadStream, type ReadStream, type Stats } from 'node:fs';
import { access, type FileHandle, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { addAbortSignal, pipeline, Readable } from 'node:stream';
import { pipeline as pipelineDone } from 'node:stream/promises';
import { getSystemErrorMessage } from 'node:util';
import { createGunzip, type Gunzip } from 'node:zlib';
import { type Failure, hasCode, isFailure, messageOf } from '../lambda/core/failure.ts';
import { shareOfMemory } from '../lambda/core/limits.ts';
import { ownMemoryMb } from '../lambda/hosts/config.ts';
import { type LineLimit, lineLimit } from '../lambda/jobs/lineRows.ts';
import { isBlankLine } from '../lambda/jobs/rowRequests.ts';
import { UsageError } from './arguments.ts';

/**
 * Returns the system's reason for a file error, such as `no such file or directory`.
 *
 * @returns undefined for other errors
 */
export function systemReason(error: unknown): string | undefined {
  if (hasCode(error, 'EISDIR')) return 'a folder';
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') return undefined;
  return getSystemErrorMessage(error.errno);
}

/** @throws Error with the reason that the file cannot be written */
export async function openOutput(path: string, flags: 'a' | 'w'): Promise<FileHandle> {
  try {
    return await open(path, flags);
  } catch (cause) {
    if (hasCode(cause, 'ENOENT')) await refuseMissingFolder(path);
    const reason = systemReason(cause) ?? String(cause);
    throw notWritable(path, reason, cause);
  }
}

interface WholeOptions {
  readonly signal?: AbortSignal;
  /**
   * Returns true if the file is complete. It is called at the end. An incomplete file stays at `unfinishedPath`.
   *
   * @default complete
   */
  readonly isWhole?: () => boolean;
  /** Number of bytes at `unfinishedPath` before the new chunks. They stay if writing fails. @default a new file */
  readonly after?: number | undefined;
}

/**
 * Writes a file that gets its name when it is complete. If writing fails, an existing file stays unchanged. A pipe or a
 * device is written directly.
 *
 * @throws Error with the reason that the file cannot be written
 */
export async function writeWhole(
  path: string,
  chunks: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>,
  { signal, isWhole = () => true, after }: WholeOptions = {},
): Promise<void> {
  if (!(await canBeUnfinished(path))) {
    const device = await openOutput(path, 'w');
    return await pipelineDone(chunks, device.createWriteStream(), { signal }).catch((error: unknown) =>
      Promise.reject(namingFile(path, error)),
    );
  }
  const unfinished = await unfinishedPath(path);
  const file = await openOutput(unfinished, after === undefined ? 'w' : 'a');
  try {
    if (after !== undefined) await file.truncate(after);
    await pipelineDone(chunks, file.createWriteStream(), { signal });
    if (isWhole()) await rename(unfinished, await targetOf(path));
  } catch (error) {
    if (after === undefined) await rm(unfinished, { force: true });
    throw namingFile(path, error);
  }
}

/** Returns true if an incomplete file can be kept at `unfinishedPath`. Pipes and devices have none. */
export async function canBeUnfinished(path: string): Promise<boolean> {
  const there = await stat(path).catch(() => undefined);
  return there === undefined || there.isFile();
}

/** Returns the path of a file until it is complete. */
export async function unfinishedPath(path: string): Promise<string> {
  return `${await targetOf(path)}.part`;
}

/** Returns the path of the note about the incomplete file at `unfinishedPath`. */
export async function notePath(path: string): Promise<string> {
  return `${await unfinishedPath(path)}.json`;
}

function targetOf(path: string): Promise<string> {
  return realpath(path).catch(() => path);
}

/**
 * Checks before long work that the file's folder exists.
 *
 * @throws Error naming the missing folder
 */
export async function refuseMissingFolder(path: string): Promise<void> {
  await stat(dirname(path)).catch((cause) => {
    if (!hasCode(cause, 'ENOENT')) return;
    throw new Error(`${path}: expected a folder for it, got none at ${dirname(path)}; make that folder`, { cause });
  });
}

/** Checks before long work that the path is not a folder. @throws Error naming the folder */
export async function refuseFolder(path: string): Promise<void> {
  const there = await stat(path).catch(() => undefined);
  if (there?.isDirectory()) throw notWritable(path, 'a folder');
}

/** Returns an error of writing, such as of a full disk, with the file's name, and any other error as it is. */
export function namingFile(path: string, error: unknown): unknown {
  const isOfWriting = error instanceof Error && 'syscall' in error && error.syscall === 'write';
  return isOfWriting ? notWritable(path, systemReason(error) ?? error.message, error) : error;
}

export function notWritable(path: string, got: string, cause?: unknown): Error {
  return new Error(`${path}: expected a file that can be written, got: ${got}; name another file`, { cause });
}

/**
 * Checks before anything is written that the output does not overwrite an input, through any name or link.
 *
 * @param option option that names the file
 * @param read files that the command reads
 * @throws UsageError if `path` is one of them
 */
export async function refuseOverwriting(option: string, path: string, read: readonly string[]): Promise<void> {
  const written = await fileAt(path);
  if (written === undefined) return;
  for (const file of await Promise.all(read.map(fileAt))) {
    if (file?.ino !== written.ino || file.dev !== written.dev) continue;
    throw new UsageError(`${option}: expected another file than those that are read, got ${path}`);
  }
}

async function fileAt(path: string): Promise<Stats | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found?.isFile() ? found : undefined;
}

/** Requests file, pipe, or stdin. */
export interface InputFile {
  /** Stream that opens on first access, so that a refused command leaves no file open. */
  readonly stream: Readable;
  /** Size of the file. Undefined for stdin and pipes. */
  readonly bytes: number | undefined;
  /** Time of the last modification, in milliseconds since 1970. Undefined for stdin and pipes. */
  readonly modifiedMs: number | undefined;
  /** Returns the share of the file in its first `bytes` of text. Undefined for stdin and pipes. */
  readonly shareOf: (bytes: number) => number | undefined;
  readonly lineLimit: LineLimit;
  /** Reads the bytes from `start` to before `end` of a file whose size is known. */
  readonly readRange: (start: number, end: number) => Promise<Uint8Array<ArrayBuffer>>;
  /** Returns how the file differs from that of the start, or undefined. Rows of both may be mixed, or its end missing. */
  readonly change: () => Promise<string | undefined>;
}

/**
 * @param path path of the file, or `-` for stdin
 * @throws Error if the file does not exist
 */
export async function inputFile(path: string, { stdin }: { readonly stdin: Readable }): Promise<InputFile> {
  const readRange = async (start: number, end: number): Promise<Uint8Array<ArrayBuffer>> => {
    const file = await open(path);
    try {
      const { buffer, bytesRead } = await file.read(new Uint8Array(end - start), 0, end - start, start);
      if (bytesRead < end - start) throw new Error(`${path}: expected ${end} bytes, got fewer; was it overwritten?`);
      return buffer;
    } finally {
      await file.close();
    }
  };
  const unsized = { bytes: undefined, modifiedMs: undefined, shareOf: () => undefined, change: async () => undefined };
  const limitOf = (compressedBytes?: number) => lineLimit(shareOfMemory(ownMemoryMb()), compressedBytes);
  if (path === '-') return { stream: stdin, ...unsized, lineLimit: limitOf(), readRange };
  const found = await stat(path).catch((error: unknown) => systemReason(error) ?? String(error));
  if (typeof found === 'string' || !(found.isFile() || found.isFIFO())) {
    const got = typeof found === 'string' ? found : found.isDirectory() ? 'a folder' : 'no file';
    throw new Error(`${path}: expected a file of requests, got: ${got}; check the path`);
  }
  await access(path, constants.R_OK).catch((cause: unknown) => {
    const reason = systemReason(cause) ?? String(cause);
    throw new Error(`${path}: expected a file that can be read, got: ${reason}; check its permissions`, { cause });
  });
  let file: ReadStream | undefined;
  let gunzip: Gunzip | undefined;
  let unpackedBytes = 0;
  let stream: Readable | undefined;
  const isPacked = path.endsWith('.gz');
  const openStream = (): Readable => {
    file = createReadStream(path);
    if (!isPacked) return file;
    gunzip = createGunzip();
    // An error in either stream ends the other, and the reader receives it.
    return Readable.from(
      unpacked(
        path,
        pipeline(file, gunzip, () => {}),
        (bytes) => (unpackedBytes += bytes),
      ),
    );
  };
  return {
    get stream() {
      stream ??= openStream();
      return stream;
    },
    lineLimit: limitOf(isPacked ? found.size : undefined),
    readRange,
    // A pipe, such as a shell's <(command), has no size.
    ...(found.isFile()
      ? {
          bytes: found.size,
          modifiedMs: found.mtimeMs,
          shareOf(bytes) {
            const ofFile = gunzip === undefined ? bytes : (bytes / Math.max(1, unpackedBytes)) * gunzip.bytesWritten;
            return Math.min(1, ofFile / found.size);
          },
          async change() {
            const now = await stat(path).catch(() => undefined);
            if (now?.size === found.size && now.mtimeMs === found.mtimeMs) return undefined;
            const told = ({ size, mtime }: Stats): string => `${size} bytes of ${mtime.toISOString()}`;
            return `${path}: expected the file of the start, ${told(found)}, got ${now === undefined ? 'none' : told(now)}`;
          },
        }
      : unsized),
  };
}

async function* unpacked(
  path: string,
  gunzip: AsyncIterable<Buffer>,
  count: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of gunzip) {
      count(chunk.length);
      yield chunk;
    }
  } catch (cause) {
    throw new Error(`${path}: expected a gzipped file, got: ${messageOf(cause)}; was it cut short?`, { cause });
  }
}

const NEWLINE = 10;
const NOTHING = Buffer.alloc(0);
const BYTE_ORDER_MARK = '\uFEFF';

/**
 * Yields the lines of a UTF-8 stream without their ends. Only \\n and \\r\\n end a line, because JSON may contain the
 * other separators, U+2028 and U+2029, unescaped. It omits a byte order mark at the start.
 *
 * @throws Error naming the line that is not UTF-8 or is too long
 */
export async function* linesOf(stream: AsyncIterable<Buffer | string>): AsyncGenerator<string> {
  let number = 0;
  for await (const text of textsOf(stream, lineLimit(Number.POSITIVE_INFINITY), () => number)) {
    if (isFailure(text)) throw failedLine(text, number + 1);
    const lines = text.split('\n');
    if (text.endsWith('\n')) lines.pop();
    number += lines.length;
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line;
  }
}

/** Returns the error of a line that cannot be read. */
export function failedLine({ message }: Failure, number: number): Error {
  return new Error(message.replace(/^line/, `line ${number}`));
}

/**
 * Yields texts of whole lines, with their ends, and a failure in place of each line that is too long. It omits a byte order
 * mark at the start.
 *
 * @param stream chunks that are shorter than the limit
 * @param linesBefore returns the number of lines before
 * @throws Error naming the line that is not UTF-8
 */
export async function* textsOf(
  stream: AsyncIterable<Buffer | string>,
  limit: LineLimit,
  linesBefore: () => number,
): AsyncGenerator<string | Failure> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let isStart = true;
  const take = (end: Buffer): string => {
    const bytes = pending.length === 0 ? end : Buffer.concat([...pending, end]);
    const before = linesBefore();
    const other = before === 0 && OTHERS.find(([start]) => bytes.subarray(0, start.length).equals(start));
    if (other) throw new Error(`line 1: expected UTF-8, got ${other[1]}`);
    if (!isUtf8(bytes)) throw notUtf8(bytes, before + 1);
    const text = bytes.toString();
    const own = isStart && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
    pending = [];
    pendingBytes = 0;
    isStart = false;
    return own;
  };
  for await (const chunk of stream) {
    let bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk);
    const first = bytes.indexOf(NEWLINE);
    if (pendingBytes + (first < 0 ? bytes.length : first) > limit.bytes) {
      pending = [];
      pendingBytes += bytes.length;
      if (first < 0) continue;
      yield limit.failure;
      pendingBytes = 0;
      bytes = bytes.subarray(first + 1);
    }
    const end = bytes.lastIndexOf(NEWLINE) + 1;
    if (end > 0) yield take(bytes.subarray(0, end));
    const rest = bytes.subarray(end);
    if (rest.length === 0) continue;
    pending.push(rest);
    pendingBytes += rest.length;
  }
  if (pendingBytes > limit.bytes) yield limit.failure;
  else if (pending.length > 0) yield take(NOTHING);
}

/** Returns the error of the first line that is not UTF-8. @param first number of the first line in the bytes */
function notUtf8(bytes: Buffer, first: number): Error {
  let number = first;
  for (let start = 0, end = bytes.indexOf(NEWLINE); end >= 0; start = end + 1, end = bytes.indexOf(NEWLINE, start)) {
    if (!isUtf8(bytes.subarray(start, end))) break;
    number += 1;
  }
  return new Error(`line ${number}: expected UTF-8, got other bytes; convert the file`);
}

/** First bytes of common files that are not text, with their format and the advice for the user. */
const OTHERS: readonly (readonly [start: Buffer, what: string])[] = [
  [Buffer.from([0x1f, 0x8b]), 'gzip; unpack the file, as with gunzip'],
  [Buffer.from('PK\x03\x04'), 'a zip, such as a sheet of Excel is; unpack the file, or save the sheet as CSV'],
  [Buffer.from([0xff, 0xfe]), 'UTF-16, as PowerShell writes it; save the file as UTF-8'],
  [Buffer.from('\x93NUMPY', 'latin1'), 'an array of NumPy; save it as Parquet or CSV: docs/score.md'],
  [
    Buffer.from('PAR1\x15'),
    'Parquet; score it with batchscore score MODEL FILE, as a file that ends in .parquet or with --format parquet; docs/recipes.md (A pipeline over a table) writes requests of one',
  ],
];

export interface Line {
  /** Number of the line from 1, including blank lines. */
  readonly number: number;
  /** Empty if the line cannot be read. */
  readonly text: string;
  readonly failed?: Failure;
}

export interface LineBatchLimits {
  readonly lines: number;
  readonly characters: number;
}

/**
 * Yields the nonblank lines of a stream in batches, so that memory does not grow with the file.
 *
 * @param signal ends the sequence after the requested batch, without a partial batch
 */
export function batchesOfLines(
  { stream, lineLimit }: Pick<InputFile, 'stream' | 'lineLimit'>,
  limits: LineBatchLimits,
  signal: AbortSignal,
): AsyncGenerator<readonly Line[]> {
  return untilAborted(gathered(addAbortSignal(signal, stream), lineLimit, limits), signal);
}

/** Ends a sequence after the value that is requested when the signal aborts, whatever its source then throws. */
export async function* untilAborted<T>(values: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  try {
    for await (const value of values) {
      yield value;
      if (signal.aborted) return;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function* gathered(
  input: Readable,
  lineLimit: LineLimit,
  limits: LineBatchLimits,
): AsyncGenerator<readonly Line[]> {
  let batch: Line[] = [];
  let characters = 0;
  let number = 0;
  for await (const text of textsOf(input, lineLimit, () => number)) {
    if (isFailure(text)) {
      number += 1;
      batch.push({ number, text: '', failed: text });
      continue;
    }
    for (let start = 0; start < text.length; ) {
      number += 1;
      if (text.charCodeAt(start) === NEWLINE) {
        start += 1;
        continue;
      }
      const found = text.indexOf('\n', start);
      const next = found < 0 ? text.length : found;
      const line = text.slice(start, text[next - 1] === '\r' ? next - 1 : next);
      start = next + 1;
      if (isBlankLine(line)) continue;
      if (batch.length > 0 && characters + line.length > limits.characters) {
        yield batch;
        batch = [];
        characters = 0;
      }
      batch.push({ number, text: line });
      characters += line.length;
      if (batch.length < limits.lines) continue;
      yield batch;
      batch = [];
      characters = 0;
    }
  }
  if (batch.length > 0) yield batch;
}
