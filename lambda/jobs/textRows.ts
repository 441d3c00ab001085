import { isUtf8 } from 'node:buffer';
import { pipeline, Readable } from 'node:stream';
import zlib, { createGunzip, type ZstdDecompress } from 'node:zlib';
import { type Failure, failure, messageOf } from '../core/failure.ts';
import { MAX_PIECES } from './jobObjects.ts';
import {
  type ByteRange,
  type Compression,
  JobError,
  type JobHead,
  type JobInput,
  type JobStorage,
  type Part,
} from './jobTypes.ts';
import {
  fieldsOf,
  isBlankLine,
  type LineReader,
  type PieceRow,
  requestOfLine,
  requestOfObject,
} from './rowRequests.ts';
import { rowsOfFields } from './tableRows.ts';

/** The rows of one piece, in order, handed out once. */
export interface PieceRows {
  /** The next rows, at most so many; none when there are no more. */
  take(max: number): readonly PieceRow[];
  /** Bytes of the input that the piece is. */
  readonly bytes: number;
  /** True if the part has no piece after it. */
  readonly isLast: boolean;
}

/** The piece is to be given up. */
export class UnreadableError extends Error {
  /** True if it was for lack of time, which those after it will lack as well. */
  readonly isOutOfTime: boolean;

  constructor(message: string, { isOutOfTime = false, cause }: { isOutOfTime?: boolean; cause?: unknown } = {}) {
    super(message, { cause });
    this.name = isOutOfTime ? 'DEADLINE' : 'UNREADABLE';
    this.isOutOfTime = isOutOfTime;
  }
}

/** Says whether there is time to read on, and the job is still wanted. Asked at each chunk of what is compressed. */
export type GoesOn = () => boolean | Promise<boolean>;

/** Reads pieces of one part, in any order; those that follow each other are read at least cost. */
export interface PieceReader {
  /**
   * @param goesOn asked while what comes before the piece, and the piece itself, is decompressed
   * @returns undefined past the last one
   * @throws JobError when the input is not what the job was started for
   * @throws UnreadableError when the piece cannot be read, however often it is tried
   */
  read(piece: number, goesOn: GoesOn): Promise<PieceRows | undefined>;
  /** Lets go of what it reads from. */
  close(): void;
}

/** What is decoded at a time, so that a step of long rows takes no more memory than one of short ones. */
export const STEP_BYTES = 16 * 1024 * 1024;
const BYTE_ORDER_MARK = '\uFEFF';

interface LineOptions {
  readonly isLast: boolean;
  readonly maxLineBytes: number;
  readonly readLine: LineReader;
  /** Of CSV. */
  readonly separator: string | undefined;
}

/**
 * The rows of a piece of text: one to each line that is not blank. A row's id is where in the text its line begins, in
 * bytes: so it is the same however the text is cut.
 */
function rowsOfLines(
  span: ByteRange,
  source: Bytes,
  { isLast, maxLineBytes, readLine, separator }: LineOptions,
): PieceRows {
  const bytes = Buffer.from(source.bytes.buffer, source.bytes.byteOffset, source.bytes.length);
  const lines = ownedLines(span, source);
  const rowOf = ({ start, end }: ByteRange): PieceRow | undefined => {
    const id = String(start);
    if (end - start > maxLineBytes) return { id, text: '', failed: tooLong(maxLineBytes) };
    const line = bytes.subarray(start - source.at, end - source.at);
    if (!isUtf8(line)) return { id, text: '', failed: NOT_UTF8 };
    const text = line.toString('utf8');
    const own = start === 0 && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
    return isBlankLine(own, separator) ? undefined : readLine(own, id);
  };
  return {
    bytes: span.end - span.start,
    isLast,
    take(max) {
      const rows: PieceRow[] = [];
      let taken = 0;
      while (rows.length < max && (rows.length === 0 || taken < STEP_BYTES)) {
        const line = lines.next();
        if (line.done === true) break;
        const row = rowOf(line.value);
        if (row !== undefined) rows.push(row);
        taken += line.value.end - line.value.start;
      }
      return rows;
    },
  };
}

function tooLong(maxBytes: number): Failure {
  return failure(
    'PAYLOAD_TOO_LARGE',
    `line: expected at most ${maxBytes} bytes, got more; send several requests, or raise the function's memory`,
  );
}

const NOT_UTF8 = failure('INVALID_JSON', 'line: expected UTF-8, got other bytes; convert the file');

/** What is read past a piece, for the rest of its last line: most lines end within it. */
const PAST_BYTES = 64 * 1024;

/**
 * The pieces of a part of text, from `part.start` on. Of plain text each is one ranged GET, and further ones where its last
 * line is long. Compressed text is read from its beginning, so a call that goes on in the middle passes over what comes
 * before, and pieces are cheap only one after the other.
 *
 * @param maxLineBytes a line is read so far and no further: longer ones are refused
 */
export function openText(storage: JobStorage, head: JobHead, part: Part, maxLineBytes: number): PieceReader {
  const isPlain = head.compression === 'none';
  const end = part.end ?? (isPlain ? head.bytes : undefined);
  const ofJson = head.objects === undefined ? requestOfLine : requestOfObject(head);
  const readLine = head.format === 'csv' ? rowsOfFields(head) : ofJson;
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
    const start = part.start + piece * head.pieceBytes;
    if (end !== undefined && start >= end) return undefined;
    const window = await windowFrom(start, goesOn);
    let span = { start, end: Math.min(start + head.pieceBytes, end ?? Number.POSITIVE_INFINITY) };
    for (let past = Math.min(PAST_BYTES, maxLineBytes); ; past *= 4) {
      await window.fillUntil(span.end + past);
      if (window.hasEnded() || past > maxLineBytes || endsWithin(span, window.bytes())) break;
    }
    const source = window.bytes();
    const isLast = end === undefined ? window.hasEnded() && endOf(source) <= span.end : span.end === end;
    if (end === undefined && isLast) {
      if (endOf(source) <= start && piece > 0) return undefined;
      span = { start, end: Math.max(start, endOf(source)) };
    }
    return rowsOfLines(span, source, { isLast, maxLineBytes, readLine, separator: head.separator });
  };
  return {
    read: (piece, goesOn) =>
      readPiece(piece, goesOn).catch((error: unknown) => {
        throw error instanceof StoppedError ? tooFar(head, part.start + piece * head.pieceBytes) : error;
      }),
    close: () => stream?.close(),
  };
}

/** Reading was not to go on. */
class StoppedError extends Error {}

function tooFar({ key, compression }: JobHead, start: number): UnreadableError {
  return new UnreadableError(
    `${key}: expected half of a call's time to suffice to pass over the ${start} bytes of text before this piece, it did ` +
      `not; this piece and all after it are not scored: cut the file, or put it without ${compression}`,
    { isOutOfTime: true },
  );
}

function tooLarge({ key, compression, pieceBytes }: JobHead): JobError {
  return new JobError(
    'INVALID_JOB',
    `${key}: expected ${compression} of at most ${MAX_PIECES * pieceBytes} bytes of text, got more; cut the file`,
  );
}

/** The part of a text that is in memory. */
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
 * The first bytes of a text, as it is decompressed: at most so many, and fewer where it ends before.
 *
 * @throws JobError where they were not to be had while reading was to go on
 */
export async function startOfText(
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
      `${input.key}: expected the first ${max} bytes of text within half of a call's time, got fewer; put the file ` +
        `without ${compression}`,
    );
  } finally {
    window.close();
  }
}

/** @throws StoppedError from its methods when reading is not to go on */
interface StreamWindow extends Window {
  /** From here on. */
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
  const stream = decompressed(watched(storage.readAll(head), goOn), head);
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
      throw broken(head, cause);
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

/** What decompresses to nothing is never handed out: it is asked for each chunk as well. */
async function* watched(chunks: AsyncIterable<Uint8Array>, goOn: () => Promise<void>): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    await goOn();
    yield chunk;
  }
}

function decompressed(bytes: AsyncIterable<Uint8Array>, head: Compressed): Readable {
  // What breaks is met by whoever reads on.
  return head.compression === 'gzip' ? pipeline(bytes, createGunzip(), () => {}) : Readable.from(unzstd(bytes, head));
}

/** What S3 met stays what it is, and is tried again; the rest is the file's fault. */
function broken({ key, compression }: Compressed, cause: unknown): Error {
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

/** Each frame takes a sixth of a millisecond, however little it holds. Parallel compressors put a note before each. */
const SMALL_FRAME_BYTES = 16;
/** Small frames that there may be more than others. */
const MAX_SMALL_FRAMES = 250;

function smallFrames(key: string): JobError {
  return new JobError(
    'INVALID_JOB',
    `${key}: expected zstd frames of ${SMALL_FRAME_BYTES} bytes of text or more, got over ${MAX_SMALL_FRAMES} smaller ones; ` +
      'compress the file as a whole',
  );
}

/**
 * What zstd decompresses to. A file may be several frames, as parallel compressors and `cat` make them. Node's decompressor
 * ends with a frame that ends within a chunk, without a word of the bytes that follow: another one takes those.
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

/** To import it by name would end a Node without it before anything is said. @throws JobError where there is none */
export function zstdOfNode<T>(part: T | undefined): T {
  if (part !== undefined) return part;
  throw new JobError(
    'INVALID_JOB',
    `zstd: expected Node 22.15 or newer, got ${process.version}; install a newer Node, or compress the file otherwise`,
  );
}

/** @returns what it did not take of the chunk in which a frame ended; undefined once there are no more */
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

/** Bytes of an object, and where in it they begin. */
interface Bytes {
  readonly at: number;
  readonly bytes: Uint8Array;
}

function endOf({ at, bytes }: Bytes): number {
  return at + bytes.length;
}

/**
 * The lines whose first byte lies in a span: so each line of an object belongs to one span, however it is cut. A line
 * begins where the object does or after a line break, so the byte before the span is looked at.
 *
 * @param source from the byte before the span, or from the object's first, until {@link endsWithin} it
 * @returns start and end of each line as places in the object, without its line break, \\n or \\r\\n
 */
function* ownedLines(span: ByteRange, { at, bytes }: Bytes): Generator<ByteRange> {
  let start = firstLine(span, { at, bytes });
  while (start < span.end && start - at < bytes.length) {
    // A mebibyte of line breaks would be a million blank lines.
    if (bytes[start - at] === NEWLINE) {
      start += 1;
      continue;
    }
    const found = bytes.indexOf(NEWLINE, start - at);
    const end = found < 0 ? bytes.length : found;
    const returns = end > start - at && bytes[end - 1] === CARRIAGE_RETURN;
    yield { start, end: at + end - (returns ? 1 : 0) };
    start = at + end + 1;
  }
}

/** Returns true if the last line that a span owns ends within the source. A span within one long line owns none. */
function endsWithin(span: ByteRange, source: Bytes): boolean {
  if (firstLine(span, source) >= span.end) return true;
  return source.bytes.indexOf(NEWLINE, span.end - 1 - source.at) >= 0;
}

/** Where the first line begins, in the span or after it. */
function firstLine({ start }: ByteRange, { at, bytes }: Bytes): number {
  if (start === 0) return 0;
  const found = bytes.indexOf(NEWLINE, start - 1 - at);
  return found < 0 ? Number.POSITIVE_INFINITY : at + found + 1;
}

/** The first line of CSV: the names of its columns, and where the rows begin. */
interface Header {
  readonly columns: readonly string[];
  readonly end: number;
}

/** Names of columns are read in every call: more is no header. */
const MAX_BYTES = 1024 * 1024;

/** @throws JobError when the file does not begin with one */
export async function readHeader(
  storage: JobStorage,
  input: JobInput,
  compression: Compression,
  separator: string | undefined,
  goesOn?: GoesOn,
): Promise<Header> {
  const bytes = Buffer.from(await startOfText(storage, input, compression, MAX_BYTES, goesOn));
  const newline = bytes.indexOf(NEWLINE);
  const line = newline < 0 ? bytes : bytes.subarray(0, newline);
  if (newline < 0 && bytes.length >= MAX_BYTES) throw noHeader(input, `a first line of more than ${MAX_BYTES} bytes`);
  if (!isUtf8(line)) throw noHeader(input, 'bytes that are not UTF-8');
  const text = line
    .toString()
    .replace(/^\uFEFF/, '')
    .replace(/\r$/, '');
  const columns = text.trim() === '' ? undefined : fieldsOf(text, separator);
  if (columns === undefined) throw noHeader(input, 'a first line without them');
  return { columns, end: newline < 0 ? bytes.length : newline + 1 };
}

function noHeader({ key }: JobInput, got: string): JobError {
  return new JobError('INVALID_JOB', `${key}: expected the names of the columns in the first line of CSV, got ${got}`);
}
