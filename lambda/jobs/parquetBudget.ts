import type { SchemaTree } from 'hyparquet';
import { getMaxRepetitionLevel, isFlatColumn } from 'hyparquet/src/schema.js';

/*
 * Limits the memory and time of reading a Parquet file. A page of a few bytes makes millions of values, so each file has
 * one budget, which grows with its size and its rows. Ordinary rows spend nothing of it.
 */

/** Takes bytes from a budget. @throws Error if fewer are left */
export type Spend = (bytes: number) => void;

const MIB = 1024 * 1024;
/** Highest compression ratio of deflate. */
const DEFLATED = 1032;
/** Inflated size of an ordinary value. */
const INFLATED_BYTES = 16;

/**
 * Returns the maximum of what a file may take beyond ordinary rows: inflated pages, dictionaries, long lists, repeated
 * texts. It is generous: Brotli stores a mebibyte of one value in a few bytes.
 *
 * @param stored size of the file
 * @param values rows of the file, times the columns that are read
 */
export function maxSpent(stored: number, values: number): number {
  return 8 * MIB + 4 * DEFLATED * stored + INFLATED_BYTES * values;
}

/** Returns a budget of bytes. A spend that is refused takes nothing. */
export function budgetOf(max: number): Spend {
  let left = max;
  return (bytes) => {
    if (!(bytes <= left)) throw new Error(`more than ${max} bytes, the most for a file of this size`);
    left -= bytes;
  };
}

/** Assumed memory of a dictionary value. */
export const ENTRY_BYTES = 256;

/** Memory of a row's values in one column that costs nothing, if the other rows of the row group are like it. */
export const FREE_BYTES = 32 * 1024;

/** Memory of a value in a column that is not nested. */
const VALUE_BYTES = 8;
/** Memory of a value in a list or struct, while it is read: of a number, or a text. */
const NUMBER_BYTES = 32;
export const TEXT_BYTES = 128;
const NUMBERS: ReadonlySet<string> = new Set(['BOOLEAN', 'INT32', 'INT64', 'FLOAT', 'DOUBLE']);
/** Memory of a list or struct, and its place in another. */
const NODE_BYTES = 80;

/**
 * Returns the assumed memory of a value, with the lists and structs that begin with it.
 *
 * @param level its repetition level: 0 begins a row
 */
export function bytesOfValue(path: readonly SchemaTree[], level: number): number {
  if (isFlatColumn([...path])) return VALUE_BYTES;
  const { type = '', converted_type: converted, logical_type: logical } = path.at(-1)?.element ?? {};
  const isNumber = converted === undefined && logical === undefined && NUMBERS.has(type);
  const repeated = [0, ...path.flatMap(({ element }, at) => (element.repetition_type === 'REPEATED' ? [at] : []))];
  const nodes = Math.max(0, path.length - 2 - (repeated[level] ?? 0));
  return (isNumber ? NUMBER_BYTES : TEXT_BYTES) + NODE_BYTES * nodes;
}

/** Returns the assumed memory of the values of some rows. */
export function bytesOfValues(path: readonly SchemaTree[], rows: number, values: number): number {
  const others = Math.max(0, values - rows) * bytesOfValue(path, Math.min(1, getMaxRepetitionLevel([...path])));
  return rows * bytesOfValue(path, 0) + others;
}
