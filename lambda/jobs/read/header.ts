import { isUtf8 } from 'node:buffer';
import { fieldsOf } from '../../core/job/csv.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import { type Compression, JobError, type JobInput } from '../../core/job/words.ts';
import { startOfCompressed } from './compressedSource.ts';

/** The first line of CSV: the names of its columns, and where the rows begin. */
export interface Header {
  readonly columns: readonly string[];
  readonly end: number;
}

/** Names of columns are read in every call: more is no header. */
const MOST_BYTES = 1024 * 1024;
const NEWLINE = 10;

/** @throws JobError when the file does not begin with one */
export async function readHeader(storage: JobStorage, input: JobInput, compression: Compression): Promise<Header> {
  const bytes = Buffer.from(await firstBytes(storage, input, compression));
  const newline = bytes.indexOf(NEWLINE);
  const line = newline < 0 ? bytes : bytes.subarray(0, newline);
  if (newline < 0 && bytes.length >= MOST_BYTES) throw noHeader(input, `a first line of more than ${MOST_BYTES} bytes`);
  if (!isUtf8(line)) throw noHeader(input, 'bytes that are not UTF-8');
  const text = line
    .toString()
    .replace(/^\uFEFF/, '')
    .replace(/\r$/, '');
  const columns = text.trim() === '' ? undefined : fieldsOf(text);
  if (columns === undefined) throw noHeader(input, 'a first line without them');
  return { columns, end: newline < 0 ? bytes.length : newline + 1 };
}

async function firstBytes(storage: JobStorage, input: JobInput, compression: Compression): Promise<Uint8Array> {
  if (compression !== 'none') return startOfCompressed(storage, { ...input, compression }, MOST_BYTES);
  if (input.bytes === 0) return new Uint8Array();
  return storage.readRange(input, { start: 0, end: Math.min(MOST_BYTES, input.bytes) });
}

function noHeader({ key }: JobInput, got: string): JobError {
  return new JobError('INVALID_JOB', `${key}: expected the names of the columns in the first line of CSV, got ${got}`);
}
