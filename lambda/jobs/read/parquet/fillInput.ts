import type { DecodedArray } from 'hyparquet';
import type { InputColumns } from '../../../core/job/words.ts';
import { DATATYPES, type TypedArray } from '../../../core/tensor.ts';

/** The values of one input of some rows, and which rows cannot be what the model takes: why, by row. */
export interface FilledInput {
  /** What `raw_input_contents` holds for one row. */
  raw(row: number): string;
  readonly problems: ReadonlyMap<number, string>;
}

/** The `rows` values of a column. */
type ReadColumn = (name: string) => Promise<DecodedArray>;

/** Reads the columns of an input one after the other. */
export function fillInput(input: InputColumns, read: ReadColumn, rows: number): Promise<FilledInput> {
  return DATATYPES[input.datatype].kind === 'string' ? fillTexts(input, read, rows) : fillNumbers(input, read, rows);
}

async function fillNumbers({ datatype, columns }: InputColumns, read: ReadColumn, rows: number): Promise<FilledInput> {
  const info = DATATYPES[datatype];
  if (info.kind === 'string') throw new Error('expected a datatype of numbers');
  const width = columns.length;
  const values = new info.array(rows * width);
  const problems = new Map<number, string>();
  const convert = CONVERSIONS[info.kind](Number(info.min), Number(info.max));
  for (const [place, name] of columns.entries()) {
    const column = await read(name);
    if (info.kind === 'float' && fits(column, values)) {
      copyFloats(values, column, rows, width, place);
      continue;
    }
    // Columns that may hold nulls come as plain arrays. Most hold none.
    let row = info.kind === 'float' && Array.isArray(column) ? copyPlain(values, column, width, place, info.max) : 0;
    for (; row < rows; row++) {
      const value = convert(column[row]);
      if (value !== undefined) values[row * width + place] = value as never;
      else if (!problems.has(row)) problems.set(row, refusal(name, datatype, column[row]));
    }
  }
  const bytes = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
  const size = width * info.array.BYTES_PER_ELEMENT;
  return { problems, raw: (row) => bytes.toString('base64', row * size, (row + 1) * size) };
}

/** Floats without nulls, none of which is too large for the model. */
function fits(column: DecodedArray, values: TypedArray): column is Float32Array | Float64Array {
  const from = column.constructor.name;
  const to = values.constructor.name;
  return (from === 'Float32Array' && to !== 'Float16Array') || (from === 'Float64Array' && to === from);
}

function copyFloats(
  values: TypedArray,
  column: Float32Array | Float64Array,
  rows: number,
  width: number,
  place: number,
) {
  for (let row = 0, at = place; row < rows; row++, at += width) values[at] = column[row] as never;
}

/** Copies numbers until there is something else. @returns how many */
function copyPlain(values: TypedArray, column: readonly unknown[], width: number, place: number, max: number): number {
  for (let row = 0, at = place; row < column.length; row++, at += width) {
    const value = column[row];
    if (typeof value !== 'number' || value > max || value < -max) return row;
    values[at] = value as never;
  }
  return column.length;
}

type Conversion = (value: unknown) => number | bigint | undefined;

/** Undefined where a value is not one of the datatype: null, a fraction for an integer, or one that is too large. */
const CONVERSIONS: Readonly<
  Record<'float' | 'integer' | 'bigint' | 'boolean', (min: number, max: number) => Conversion>
> = {
  float: (min, max) => (value) => {
    const number = typeof value === 'bigint' || typeof value === 'boolean' ? Number(value) : value;
    if (typeof number !== 'number') return undefined;
    return Number.isFinite(number) && (number < min || number > max) ? undefined : number;
  },
  integer: (min, max) => (value) => {
    const number = typeof value === 'bigint' || typeof value === 'boolean' ? Number(value) : value;
    return Number.isInteger(number) && (number as number) >= min && (number as number) <= max
      ? (number as number)
      : undefined;
  },
  bigint: (min, max) => (value) => {
    if (typeof value === 'boolean') return BigInt(value);
    const whole = typeof value === 'bigint' ? value : Number.isSafeInteger(value) ? BigInt(value as number) : undefined;
    return whole !== undefined && whole >= BigInt(min) && Number(whole) <= max ? whole : undefined;
  },
  boolean: () => (value) => {
    if (typeof value === 'boolean') return value ? 1 : 0;
    const number = typeof value === 'bigint' ? Number(value) : value;
    return number === 0 || number === 1 ? number : undefined;
  },
};

function refusal(column: string, datatype: string, value: unknown): string {
  const got = value === null || value === undefined ? 'null' : String(value).slice(0, 60);
  return `column '${column}': expected a value of ${datatype}, got ${got}; fix that row`;
}

/** Each text stands after its length in bytes. @see docs/message-format.md */
async function fillTexts({ columns, datatype }: InputColumns, read: ReadColumn, rows: number): Promise<FilledInput> {
  const problems = new Map<number, string>();
  const data: DecodedArray[] = [];
  for (const name of columns) {
    const column = await read(name);
    data.push(column);
    for (let row = 0; row < rows; row++) {
      if (typeof column[row] !== 'string') problems.set(row, refusal(name, datatype, column[row]));
    }
  }
  const raw = (row: number): string => {
    const texts = data.map((column) => Buffer.from(String(column[row])));
    const lengths = texts.map((text) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(text.length);
      return length;
    });
    return Buffer.concat(texts.flatMap((text, index) => [lengths[index] as Buffer, text])).toString('base64');
  };
  return { problems, raw };
}
