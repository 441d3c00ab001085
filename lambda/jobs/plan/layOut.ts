import { partsOf } from '../../core/job/cut.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import {
  type Compression,
  type Format,
  JobError,
  type JobHead,
  type JobInput,
  type Part,
  type Spec,
} from '../../core/job/words.ts';
import type { Model } from '../../core/model.ts';
import { readHeader } from '../read/header.ts';
import { layOutParquet } from './layOutParquet.ts';
import { matchColumns } from './matchColumns.ts';

export interface LayOutOptions {
  readonly format: Format;
  readonly compression: Compression;
  readonly spec: Spec;
  readonly model: Model;
  readonly partBytes: number;
  readonly pieceBytes: number;
}

/** How an object is cut, and what of its columns every call must know. */
export interface Layout extends Pick<JobHead, 'columns' | 'inputs'> {
  readonly parts: readonly Part[];
}

/**
 * Bytes of a compressed object. It is one part, which one call after the other scores, and each that goes on in the middle
 * reads it from its beginning.
 */
const MOST_COMPRESSED_BYTES = 1024 * 1024 * 1024;

/** Reads no more of the input than it must: of lines of JSON one byte, which proves that it is the version meant. */
export async function layOut(storage: JobStorage, input: JobInput, options: LayOutOptions): Promise<Layout> {
  const { format, compression, partBytes } = options;
  if (format === 'parquet') return layOutParquet(storage, input, options);
  if (compression !== 'none') refuseLarge(input, compression);
  const { start, ...columns } = format === 'csv' ? await layOutColumns(storage, input, options) : { start: 0 };
  if (format === 'jsonl' && input.bytes > 0) await storage.readRange(input, { start: 0, end: 1 });
  const parts = compression === 'none' ? partsOf(input.bytes, partBytes, start) : [{ part: 0, start }];
  return { ...columns, parts };
}

async function layOutColumns(storage: JobStorage, input: JobInput, { compression, model, spec }: LayOutOptions) {
  const { columns, end } = await readHeader(storage, input, compression);
  return { start: end, columns, inputs: matchColumns(model, columns, spec) };
}

function refuseLarge({ key, bytes }: JobInput, compression: Compression): void {
  if (bytes <= MOST_COMPRESSED_BYTES) return;
  throw new JobError(
    'INVALID_JOB',
    `${key}: expected at most ${MOST_COMPRESSED_BYTES} bytes of ${compression}, which one call after the other must read, ` +
      `got ${bytes}; cut the file, or put it as it is`,
  );
}
