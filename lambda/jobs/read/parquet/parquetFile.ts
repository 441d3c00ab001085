import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { type AsyncBuffer, type Compressors, type FileMetaData, parquetMetadataAsync } from 'hyparquet';
import { messageOf } from '../../../core/failure.ts';
import type { Span } from '../../../core/job/cut.ts';
import type { JobStorage } from '../../../core/job/storage.ts';
import { JobError, type JobInput } from '../../../core/job/words.ts';

/** Columns may be compressed with these; hyparquet itself reads SNAPPY. */
export const COMPRESSORS: Compressors = {
  GZIP: (bytes) => gunzipSync(bytes),
  ZSTD: (bytes) => zstdDecompressSync(bytes),
  BROTLI: (bytes) => brotliDecompressSync(bytes),
};
export const CODECS: readonly string[] = ['UNCOMPRESSED', 'SNAPPY', ...Object.keys(COMPRESSORS)];

/** The footer of Parquet: its columns and row groups. @throws JobError when the object has none */
export async function readFooter(storage: JobStorage, input: JobInput): Promise<FileMetaData> {
  const reads: unknown[] = [];
  const file: AsyncBuffer = {
    byteLength: input.bytes,
    async slice(start, end = input.bytes) {
      try {
        return await readBuffer(storage, input, { start, end });
      } catch (error) {
        reads.push(error);
        throw error;
      }
    },
  };
  try {
    return await parquetMetadataAsync(file, { geoparquet: false });
  } catch (cause) {
    if (reads.length > 0) throw reads[0];
    throw new JobError('INVALID_JOB', `${input.key}: expected Parquet, got bytes that are not (${messageOf(cause)})`);
  }
}

export interface GroupFile extends AsyncBuffer {
  /** Whether an error is of reading the object, and not of what lies in it. */
  hasMet(error: unknown): boolean;
}

/**
 * The bytes of one row group's columns, each read once however many of its pieces are. Columns that lie close together
 * are read by one GET.
 *
 * @param chunks where the columns lie that are needed
 */
export function groupFile(storage: JobStorage, input: JobInput, chunks: readonly Span[]): GroupFile {
  const reads = new Map<Span, Promise<ArrayBuffer>>();
  const runs = together(chunks);
  const met = new Set<unknown>();
  return {
    hasMet: (error) => met.has(error),
    byteLength: input.bytes,
    async slice(start, end = input.bytes) {
      const run = runs.find((one) => one.start <= start && end <= one.end) ?? { start, end };
      const reading = reads.get(run) ?? readBuffer(storage, input, run);
      reads.set(run, reading);
      const bytes = await reading.catch((error: unknown) => {
        met.add(error);
        throw error;
      });
      return bytes.slice(start - run.start, end - run.start);
    },
  };
}

/** A GET costs as much as reading so many bytes more. */
const GAP_BYTES = 1024 * 1024;

function together(chunks: readonly Span[]): Span[] {
  const runs: { start: number; end: number }[] = [];
  for (const { start, end } of chunks.toSorted((a, b) => a.start - b.start)) {
    const last = runs.at(-1);
    if (last !== undefined && start - last.end <= GAP_BYTES) last.end = Math.max(last.end, end);
    else runs.push({ start, end });
  }
  return runs;
}

async function readBuffer(storage: JobStorage, input: JobInput, span: Span): Promise<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = await storage.readRange(input, span);
  if (byteOffset === 0 && byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) return buffer;
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
}
