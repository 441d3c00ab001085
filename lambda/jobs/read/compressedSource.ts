import { pipeline, type Transform } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { messageOf } from '../../core/failure.ts';
import { MOST_PIECES } from '../../core/job/keys.ts';
import { type Bytes, endsWithin } from '../../core/job/ownedLines.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import { type Compression, JobError, type JobHead, type Part } from '../../core/job/words.ts';
import { UnreadableError } from './pieceRows.ts';
import type { TextSource } from './textSource.ts';
import { cutAtFrames } from './zstdFrames.ts';

/**
 * The pieces of compressed text: of what it decompresses to, from `part.start` on. It is read from its beginning, so a
 * call that goes on in the middle passes over what comes before, and pieces are cheap only one after the other.
 */
export function openCompressedText(storage: JobStorage, head: JobHead, part: Part, mostLineBytes: number): TextSource {
  let window: Window | undefined;
  return {
    async read(piece, hasTime) {
      if (piece >= MOST_PIECES) throw tooLarge(head);
      const start = part.start + piece * head.pieceBytes;
      const from = Math.max(0, start - 1);
      if (window === undefined || window.at() > from) {
        window?.close();
        window = await openWindow(storage, head);
      }
      if (!(await window.dropUntil(from, hasTime))) throw tooFar(head, start);
      let end = start + head.pieceBytes;
      await window.fillUntil(end + 1);
      const isLast = window.hasEnded() && window.end() <= end;
      if (window.hasEnded() && window.end() <= start && piece > 0) return undefined;
      if (isLast) end = Math.max(start, window.end());
      const span = { start, end };
      for (let past = PAST_BYTES; !isLast && !endsWithin(span, window.bytes()); past *= 4) {
        if (window.hasEnded() || past > 4 * mostLineBytes) break;
        await window.fillUntil(end + past);
      }
      return { span, source: window.bytes(), isLast };
    },
    close: () => window?.close(),
  };
}

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
    `${key}: expected ${compression} of at most ${MOST_PIECES * pieceBytes} bytes of text, got more; cut the file`,
  );
}

/** The first bytes of what compressed text decompresses to: at most so many, and fewer where it ends before. */
export async function startOfCompressed(storage: JobStorage, head: Compressed, most: number): Promise<Uint8Array> {
  const window = await openWindow(storage, head);
  try {
    await window.fillUntil(most);
    return window.bytes().bytes.subarray(0, most);
  } finally {
    window.close();
  }
}

const PAST_BYTES = 64 * 1024;

/** The part of a stream that is in memory. */
interface Window {
  /** Where in the stream it begins, and ends. */
  at(): number;
  end(): number;
  /** Whether the stream ends with it. */
  hasEnded(): boolean;
  bytes(): Bytes;
  fillUntil(place: number): Promise<void>;
  /** @returns false when it was stopped before */
  dropUntil(place: number, goesOn: () => boolean): Promise<boolean>;
  close(): void;
}

type Compressed = Pick<JobHead, 'bucket' | 'key' | 'etag' | 'bytes' | 'compression'>;

async function openWindow(storage: JobStorage, head: Compressed): Promise<Window> {
  const stream = decompressed(await storage.readAll(head), head.compression);
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let held: Buffer[] = [];
  let at = 0;
  let size = 0;
  let ended = false;
  const more = async (): Promise<void> => {
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
    at: () => at,
    end: () => at + size,
    hasEnded: () => ended,
    bytes: () => ({ at, bytes: whole() }),
    async fillUntil(place) {
      while (!ended && at + size < place) await more();
    },
    async dropUntil(place, goesOn) {
      for (;;) {
        dropTo(place);
        if (ended || at + size > place) return true;
        if (!goesOn()) return false;
        await more();
      }
    },
    close: () => void stream.destroy(),
  };
}

function decompressed(bytes: AsyncIterable<Uint8Array>, compression: Compression): Transform {
  // What breaks is met by whoever reads on.
  return compression === 'gzip'
    ? pipeline(bytes, createGunzip(), () => {})
    : pipeline(cutAtFrames(bytes), createZstdDecompress(), () => {});
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
