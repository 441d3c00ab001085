import { isUtf8 } from 'node:buffer';
import { pipeline, Readable } from 'node:stream';
import zlib, { createGunzip, type ZstdDecompress } from 'node:zlib';
import { failure, messageOf } from '../core/failure.ts';
import { type ByteRange, type Compression, JobError, type JobInput, type JobStorage } from './jobFiles.ts';
import { MAX_PIECES } from './jobObjects.ts';
import type { JobHead, Span } from './jobTypes.ts';
import {
  columnsIn,
  type LineLimit,
  type LineReader,
  lineLimit,
  lineReaderOf,
  MAX_HEADER_BYTES,
  readLines,
} from './lineRows.ts';
import type { IdPrefix, Rows } from './rows.ts';

/** Rows of one piece, in order. Each row is handed out once. */
export interface PieceRows {
  /** Returns up to `max` rows, or undefined at the end. */
  take(max: number): Rows | undefined;
  readonly bytes: number;
  readonly isLast: boolean;
}

/** Permanent failure to read a piece. The job gives it up. */
export class UnreadableError extends Error {
  /** True if the time was too short. Later pieces of the part would fail for the same reason. */
  readonly isOutOfTime: boolean;

  constructor(message: string, { isOutOfTime = false, cause }: { isOutOfTime?: boolean; cause?: unknown } = {}) {
    super(message, { cause });
    this.name = isOutOfTime ? 'DEADLINE' : 'UNREADABLE';
    this.isOutOfTime = isOutOfTime;
  }
}

/** Returns true if there is time to read on and the job is not cancelled. Called for each compressed chunk. */
export type GoesOn = () => boolean | Promise<boolean>;

/** Reads pieces of one part, in any order. Successive pieces are the cheapest. */
export interface PieceReader {
  /**
   * Reads a piece.
   *
   * @param goesOn called while the piece and the text before it are decompressed
   * @returns undefined past the last piece
   * @throws JobError if the object is not the version that the job was started for
   * @throws UnreadableError if no retry can read the piece
   */
  read(piece: number, goesOn: GoesOn): Promise<PieceRows | undefined>;
  close(): void;
}

/** Maximum bytes to decode at a time. It bounds the memory of long rows. */
export const STEP_BYTES = 16 * 1024 * 1024;
const BYTE_ORDER_MARK = '\uFEFF';

interface LineOptions {
  readonly isLast: boolean;
  readonly limit: LineLimit;
  readonly reader: LineReader;
  /** CSV only. */
  readonly separator: string | undefined;
}

/**
 * Returns the rows of a text piece: the lines whose first byte lies in its span, except blank ones. A row's ID is the byte
 * at which its line begins, so it does not depend on how the text is cut.
 *
 * @param source from the byte before the span, or the object's start, until {@link endsWithin} is true
 */
function rowsOfLines(
  span: ByteRange,
  { at, bytes: source }: Bytes,
  { isLast, limit, reader, separator }: LineOptions,
): PieceRows {
  const bytes = Buffer.from(source.buffer, source.byteOffset, source.length);
  const end = Math.min(span.end - at, bytes.length);
  let next = firstLine(span, { at, bytes }) - at;
  let lines: DecodedLines | undefined;
  let read = 0;
  /** Decodes the next lines, or adds a row for a line that cannot be decoded. */
  const decodeNext = (): void => {
    let some = bytes.subarray(next, endOfLines(bytes, next, Math.min(end, next + DECODED_BYTES, next + limit.bytes)));
    const isReadable = isUtf8(some);
    if (!isReadable) some = bytes.subarray(next, endOfLines(bytes, next, next));
    const failed = sizeOfLine(some) > limit.bytes ? limit.failure : isReadable || isUtf8(some) ? undefined : NOT_UTF8;
    if (failed === undefined) lines = decodeLines(some, at + next);
    else reader.refuse(at + next, failed);
    read = 0;
    next += some.length;
  };
  return {
    bytes: span.end - span.start,
    isLast,
    take(max) {
      let taken = 0;
      while (reader.length < max && (reader.length === 0 || taken < STEP_BYTES)) {
        if (lines === undefined) {
          if (next >= end) break;
          decodeNext();
          continue;
        }
        const from = read;
        read = readLines(lines.text, from, reader, max, separator, lines.idOf);
        taken += read - from;
        if (read >= lines.text.length) lines = undefined;
      }
      return reader.length === 0 ? undefined : reader.take();
    },
  };
}

/** Lines to decode together, unless one is longer. */
const DECODED_BYTES = 64 * 1024;

/** Returns the end of the last line that ends before `max`, or of the first line if none does. */
function endOfLines(bytes: Buffer, from: number, max: number): number {
  const last = max > from ? bytes.lastIndexOf(NEWLINE, max - 1) : -1;
  const end = last >= from ? last : bytes.indexOf(NEWLINE, from);
  return end < 0 ? bytes.length : end + 1;
}

/** Returns the size of the last line, without its line break. */
function sizeOfLine(lines: Buffer): number {
  const end = lines.at(-1) === NEWLINE ? lines.length - 1 : lines.length;
  const start = end === 0 ? 0 : lines.lastIndexOf(NEWLINE, end - 1) + 1;
  return end - start - (end > start && lines[end - 1] === CARRIAGE_RETURN ? 1 : 0);
}

interface DecodedLines {
  readonly text: string;
  /** Returns the byte of the object at which a line begins. Called for each line in order. */
  readonly idOf: (start: number) => number;
}

/** @param at byte of the object at which the lines begin */
function decodeLines(bytes: Buffer, at: number): DecodedLines {
  const decoded = bytes.toString();
  if (decoded.length === bytes.length) return { text: decoded, idOf: (start) => at + start };
  const hasMark = at === 0 && decoded.startsWith(BYTE_ORDER_MARK);
  const text = hasMark ? decoded.slice(1) : decoded;
  let characters = 0;
  let place = at + (hasMark ? Buffer.byteLength(BYTE_ORDER_MARK) : 0);
  const idOf = (start: number): number => {
    place += Buffer.byteLength(text.slice(characters, start));
    characters = start;
    return start === 0 ? at : place;
  };
  return { text, idOf };
}

const NOT_UTF8 = failure('INVALID_JSON', 'line: expected UTF-8, got other bytes; convert the file');

/** Bytes to read past a piece for the rest of its last line. Most lines end there. */
const PAST_BYTES = 64 * 1024;

/**
 * Opens a reader of the pieces of a span of text.
 *
 * | text       | reads                                                                    |
 * | ---------- | ------------------------------------------------------------------------ |
 * | plain      | one ranged GET for each piece, and more if its last line is long          |
 * | compressed | from the beginning: a call that starts in the middle skips what is before |
 *
 * @param head of the job, with the version and compression of the file
 * @param shareOfMemory longer lines are refused as rows
 */
export function openText(
  storage: JobStorage,
  head: JobHead & IdPrefix,
  { start: first, end: last }: Span,
  shareOfMemory: number,
): PieceReader {
  const isPlain = head.compression === 'none';
  const limit = lineLimit(shareOfMemory, isPlain ? undefined : head.bytes);
  const end = last ?? (isPlain ? head.bytes : undefined);
  let stream: StreamWindow | undefined;
  const streamFrom = (place: number): StreamWindow => {
    if (stream !== undefined && stream.bytes().at <= place) return stream;
    stream?.close();
    stream = openStream(storage, head);
    return stream;
  };
  const windowFrom = async (start: number, goesOn: GoesOn): Promise<Window> => {
    const place = Math.max(0, start - 1);
    if (isPlain) return rangeWindow(storage, head, place);
    const window = streamFrom(place);
    window.ask(goesOn);
    await window.dropUntil(place);
    return window;
  };
  const readPiece = async (piece: number, goesOn: GoesOn): Promise<PieceRows | undefined> => {
    if (end === undefined && piece >= MAX_PIECES) throw tooLarge(head);
    const start = first + piece * head.pieceBytes;
    if (end !== undefined && start >= end) return undefined;
    const window = await windowFrom(start, goesOn);
    let span = { start, end: Math.min(start + head.pieceBytes, end ?? Number.POSITIVE_INFINITY) };
    for (let past = Math.min(PAST_BYTES, limit.bytes); ; past *= 4) {
      await window.fillUntil(span.end + past);
      if (window.hasEnded() || past > limit.bytes || endsWithin(span, window.bytes())) break;
    }
    const source = window.bytes();
    const isLast = end === undefined ? window.hasEnded() && endOf(source) <= span.end : span.end === end;
    if (end === undefined && isLast) {
      if (endOf(source) <= start && piece > 0) return undefined;
      span = { start, end: Math.max(start, endOf(source)) };
    }
    return rowsOfLines(span, source, { isLast, limit, reader: lineReaderOf(head), separator: head.separator });
  };
  return {
    read: (piece, goesOn) =>
      readPiece(piece, goesOn).catch((error: unknown) => {
        throw error instanceof StoppedError ? tooFar(head, first + piece * head.pieceBytes) : error;
      }),
    close: () => stream?.close(),
  };
}

/** Error that ends reading after `goesOn` returned false. */
class StoppedError extends Error {}

function tooFar({ key, compression }: JobHead, start: number): UnreadableError {
  return new UnreadableError(
    `${key}: expected to skip the ${start} bytes of text before this piece in half of a call's time, it took ` +
      `longer; this piece and all after it are not scored: split the file, or upload it without ${compression}`,
    { isOutOfTime: true },
  );
}

function tooLarge({ key, compression, pieceBytes }: JobHead): JobError {
  return new JobError(
    'INVALID_JOB',
    `${key}: expected ${compression} of at most ${MAX_PIECES * pieceBytes} bytes of text, got more; cut the file`,
  );
}

interface Window {
  bytes(): Bytes;
  hasEnded(): boolean;
  fillUntil(place: number): Promise<void>;
}

function rangeWindow(storage: JobStorage, head: JobHead, at: number): Window {
  let bytes: Uint8Array = new Uint8Array();
  return {
    bytes: () => ({ at, bytes }),
    hasEnded: () => at + bytes.length >= head.bytes,
    async fillUntil(place) {
      const span = { start: at + bytes.length, end: Math.min(place, head.bytes) };
      if (span.start >= span.end) return;
      const more = await storage.readRange(head, span);
      bytes = bytes.length === 0 ? more : Buffer.concat([bytes, more]);
    },
  };
}

/**
 * Returns up to `max` bytes of the decompressed text, from its start.
 *
 * @throws JobError if the time ran out before
 */
export async function readStart(
  storage: JobStorage,
  input: JobInput,
  compression: Compression,
  max: number,
  goesOn: GoesOn = () => true,
): Promise<Uint8Array> {
  if (input.bytes === 0) return new Uint8Array();
  if (compression === 'none') return storage.readRange(input, { start: 0, end: Math.min(max, input.bytes) });
  const window = openStream(storage, { ...input, compression });
  window.ask(goesOn);
  try {
    await window.fillUntil(max);
    return window.bytes().bytes.subarray(0, max);
  } catch (error) {
    if (!(error instanceof StoppedError)) throw error;
    throw new JobError(
      'INVALID_JOB',
      `${input.key}: expected the first ${max} bytes of text within half of a call's time, got fewer; upload the file ` +
        `without ${compression}`,
    );
  } finally {
    window.close();
  }
}

/** @throws StoppedError from its methods if `goesOn` returned false */
interface StreamWindow extends Window {
  /** Sets the function to call from now on. */
  ask(goesOn: GoesOn): void;
  dropUntil(place: number): Promise<void>;
  close(): void;
}

type Compressed = Pick<JobHead, 'bucket' | 'key' | 'etag' | 'bytes' | 'compression'>;

function openStream(storage: JobStorage, head: Compressed): StreamWindow {
  let asked: GoesOn = () => true;
  const goOn = async (): Promise<void> => {
    if (!(await asked())) throw new StoppedError();
  };
  const stream = decompress(callBeforeEach(storage.readAll(head), goOn), head);
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let held: Buffer[] = [];
  let at = 0;
  let size = 0;
  let ended = false;
  const more = async (): Promise<void> => {
    await goOn();
    try {
      const next = await chunks.next();
      if (next.done === true) ended = true;
      else {
        held.push(next.value);
        size += next.value.length;
      }
    } catch (cause) {
      throw explainError(head, cause);
    }
  };
  const whole = (): Buffer => {
    if (held.length !== 1) held = [Buffer.concat(held)];
    return held[0] as Buffer;
  };
  const dropTo = (place: number): void => {
    const gone = Math.min(Math.max(0, place - at), size);
    held = [whole().subarray(gone)];
    at += gone;
    size -= gone;
  };
  return {
    bytes: () => ({ at, bytes: whole() }),
    hasEnded: () => ended,
    async fillUntil(place) {
      while (!ended && at + size < place) await more();
    },
    ask(goesOn) {
      asked = goesOn;
    },
    async dropUntil(place) {
      for (dropTo(place); !ended && at + size <= place; dropTo(place)) await more();
    },
    close: () => void stream.destroy(),
  };
}

/** Calls `goOn` for each compressed chunk, because some chunks decompress to nothing. */
async function* callBeforeEach(
  chunks: AsyncIterable<Uint8Array>,
  goOn: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    await goOn();
    yield chunk;
  }
}

function decompress(bytes: AsyncIterable<Uint8Array>, head: Compressed): Readable {
  // The consumer of the stream receives its errors.
  return head.compression === 'gzip' ? pipeline(bytes, createGunzip(), () => {}) : Readable.from(unzstd(bytes, head));
}

/** Converts a zlib error into a JobError. Errors of S3 stay as they are and are retried. */
function explainError({ key, compression }: Compressed, cause: unknown): Error {
  const code = typeof cause === 'object' && cause !== null && 'code' in cause ? String(cause.code) : '';
  const isOfZlib = /^(Z_|ZSTD_|ERR_ZLIB|ERR_ZSTD)/.test(code);
  if (!isOfZlib) return cause instanceof Error ? cause : new Error(messageOf(cause));
  if (code === 'ZSTD_error_frameParameter_windowTooLarge') {
    return new JobError(
      'INVALID_JOB',
      `${key}: expected zstd with a window of at most 128 MiB, got a larger one; compress it with --long=27 or less`,
    );
  }
  return new JobError('INVALID_JOB', `${key}: expected ${compression}, got bytes that are not (${messageOf(cause)})`);
}

/** Size of a small zstd frame. A frame takes a sixth of a millisecond, and some compressors write many small ones. */
const SMALL_FRAME_BYTES = 16;
/** Maximum excess of small frames over other frames. */
const MAX_SMALL_FRAMES = 250;

function smallFrames(key: string): JobError {
  return new JobError(
    'INVALID_JOB',
    `${key}: expected zstd frames of ${SMALL_FRAME_BYTES} bytes of text or more, got over ${MAX_SMALL_FRAMES} smaller ones; ` +
      'compress the file as a whole',
  );
}

/**
 * Decompresses zstd. A file may have several frames, written by parallel compressors or `cat`. Node's decompressor
 * drops the rest of a chunk after the end of a frame, so another decompressor reads it.
 */
async function* unzstd(compressed: AsyncIterable<Uint8Array>, { key }: Compressed): AsyncGenerator<Buffer> {
  const chunks = compressed[Symbol.asyncIterator]();
  let smaller = 0;
  try {
    for (let left: Uint8Array | undefined; ; ) {
      const frames = zstdOfNode(zlib.createZstdDecompress)();
      const feeding = feed(frames, chunks, left);
      feeding.catch((error: Error) => frames.destroy(error));
      let bytes = 0;
      for await (const chunk of frames) {
        bytes += chunk.length;
        yield chunk;
      }
      left = await feeding;
      if (left === undefined) return;
      smaller += bytes < SMALL_FRAME_BYTES ? 1 : -1;
      if (smaller > MAX_SMALL_FRAMES) throw smallFrames(key);
    }
  } finally {
    await chunks.return?.();
  }
}

/**
 * Returns a zstd class of Node. A static import would fail on an older Node without an explanation. @throws JobError if
 * Node has none
 */
export function zstdOfNode<T>(part: T | undefined): T {
  if (part !== undefined) return part;
  throw new JobError(
    'INVALID_JOB',
    `zstd: expected Node 22.15 or newer, got ${process.version}; install a newer Node, or compress the file otherwise`,
  );
}

/** @returns the rest of the chunk in which a frame ended, or undefined at the end of the input */
async function feed(frames: ZstdDecompress, chunks: AsyncIterator<Uint8Array>, left: Uint8Array | undefined) {
  for (let chunk = left ?? (await nextOf(chunks)); chunk !== undefined; chunk = await nextOf(chunks)) {
    const before = frames.bytesWritten;
    const written = Promise.withResolvers<void>();
    frames.write(chunk, (error) => (error ? written.reject(error) : written.resolve()));
    await written.promise;
    const taken = frames.bytesWritten - before;
    if (taken < chunk.length) return chunk.subarray(taken);
  }
  frames.end();
  return undefined;
}

async function nextOf<T>(values: AsyncIterator<T>): Promise<T | undefined> {
  const next = await values.next();
  return next.done === true ? undefined : next.value;
}

const NEWLINE = 10;
const CARRIAGE_RETURN = 13;

interface Bytes {
  readonly at: number;
  readonly bytes: Uint8Array;
}

function endOf({ at, bytes }: Bytes): number {
  return at + bytes.length;
}

/** Returns true if the source holds the whole last line of a span. A span within one long line owns no line. */
function endsWithin(span: ByteRange, source: Bytes): boolean {
  if (firstLine(span, source) >= span.end) return true;
  return source.bytes.indexOf(NEWLINE, span.end - 1 - source.at) >= 0;
}

/** Returns the place of the first line that begins in or after the span. */
function firstLine({ start }: ByteRange, { at, bytes }: Bytes): number {
  if (start === 0) return 0;
  const found = bytes.indexOf(NEWLINE, start - 1 - at);
  return found < 0 ? Number.POSITIVE_INFINITY : at + found + 1;
}

/** First line of CSV: the column names, and the place where the rows begin. */
interface Header {
  readonly columns: readonly string[];
  readonly end: number;
}

/**
 * Finds the header at the start of a file.
 *
 * @param bytes first {@link MAX_HEADER_BYTES} of the text, or all of it
 * @throws JobError if there is none
 */
export function headerIn(bytes: Buffer, { key }: JobInput, separator: string | undefined): Header {
  const newline = bytes.indexOf(NEWLINE);
  const line = newline < 0 ? bytes : bytes.subarray(0, newline);
  if (line.length < MAX_HEADER_BYTES && !isUtf8(line)) {
    throw new JobError('INVALID_JOB', `${key}: expected UTF-8 in the first line, got other bytes; convert the file`);
  }
  return { columns: columnsIn(key, line.toString(), separator), end: newline < 0 ? bytes.length : newline + 1 };
}
