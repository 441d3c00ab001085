import { type Failure, failure, isFailure, preview } from '../core/failure.ts';
import type { JsonObject } from '../core/json.ts';
import { type ModelDescription, shapeInModel, type TensorSpec, takesOwnForm } from '../core/model.ts';
import { DATATYPES, type Datatype, type NumericArray } from '../core/tensor.ts';
import type { InputColumns, Spec } from './jobTypes.ts';

/** Returns a value for JSON: digits for an integer that a double cannot hold, base64 for bytes, null for nothing. */
export function jsonValue(_: string, value: unknown): unknown {
  if (value === undefined) return null;
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;
}

/** The value of a cell in an input; undefined where it is none of its datatype. */
export type CellReader = (cell: unknown) => number | bigint | string | undefined;

/**
 * Reads the cells of CSV, Parquet and plain objects. A text is what it says: a number, `nan`, `inf`, `true`. Booleans are 0
 * and 1 in an input of numbers, and 0 and 1 booleans. An empty cell, or null, is none, unless `missing` says what it becomes;
 * an input of texts then has an empty text.
 */
export function cellReader(datatype: Datatype, missing: string | undefined): CellReader {
  const info = DATATYPES[datatype];
  if (info.kind === 'string') {
    return (cell) => (typeof cell === 'string' ? cell : isEmpty(cell) && missing !== undefined ? '' : undefined);
  }
  const convert = converterTo(info);
  const ofMissing = missing === undefined ? undefined : parseCell(missing);
  const readCell = (cell: unknown): unknown =>
    isEmpty(cell) ? ofMissing : typeof cell === 'string' ? parseCell(cell) : cell;
  if (info.kind !== 'float') return (cell) => convert(readCell(cell));
  return (cell) => convert((typeof cell === 'string' ? decimalIn(cell) : undefined) ?? readCell(cell));
}

/** The number of most texts, without the patterns that the others need; undefined for those. */
function decimalIn(text: string): number | undefined {
  const [first, second] = [text.charCodeAt(0), text.charCodeAt(1)];
  // `Number` takes blanks and `0x10` too.
  const isDecimal = ((first >= 48 && first <= 57) || first === 45) && !(second > 57 && second !== 69 && second !== 101);
  const value = isDecimal ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value : undefined;
}

export function isEmpty(cell: unknown): boolean {
  return cell === null || cell === undefined || (typeof cell === 'string' && cell.trim() === '');
}

function converterTo(info: Exclude<(typeof DATATYPES)[Datatype], { readonly kind: 'string' }>) {
  if (info.kind === 'bigint') return wholeIn(info.min, info.max);
  return info.kind === 'float' ? floatIn(new info.array(1)) : numberIn(info);
}

/** Takes what `room` rounds to a number that is finite, as JSON is taken; and the infinities and NaN. */
function floatIn(room: NumericArray) {
  return (value: unknown): number | undefined => {
    if (typeof value === 'number' && !Number.isFinite(value)) return value;
    const number = plainNumber(value);
    if (number === undefined) return undefined;
    room[0] = number;
    return Number.isFinite(room[0]) ? number : undefined;
  };
}

function numberIn({ min, max }: { readonly min: number; readonly max: number }) {
  return (value: unknown): number | undefined => {
    const number = plainNumber(value);
    return Number.isInteger(number) && Number(number) >= min && Number(number) <= max ? number : undefined;
  };
}

function plainNumber(value: unknown): number | undefined {
  const number = typeof value === 'bigint' || typeof value === 'boolean' ? Number(value) : value;
  return typeof number === 'number' ? number : undefined;
}

function wholeIn(min: bigint, max: bigint) {
  return (value: unknown): bigint | undefined => {
    const isWhole = typeof value === 'bigint' || typeof value === 'boolean' || Number.isSafeInteger(value);
    const whole = isWhole ? BigInt(value as bigint | boolean | number) : undefined;
    return whole !== undefined && whole >= min && whole <= max ? whole : undefined;
  };
}

const WORDS: Readonly<Record<string, number | boolean>> = {
  nan: Number.NaN,
  inf: Number.POSITIVE_INFINITY,
  infinity: Number.POSITIVE_INFINITY,
  '-inf': Number.NEGATIVE_INFINITY,
  '-infinity': Number.NEGATIVE_INFINITY,
  true: true,
  false: false,
};

/** A whole number of up to 20 digits, as many as the largest UINT64 has. Millions take seconds to convert. */
const WHOLE = /^-?0*\d{1,20}$/;

/** The number or boolean that a text says; undefined where it says none. */
export function parseCell(text: string): number | bigint | boolean | undefined {
  const plain = text
    .trim()
    .toLowerCase()
    .replace(/^\+(?=[\d.in])/, '');
  if (Object.hasOwn(WORDS, plain)) return WORDS[plain];
  if (WHOLE.test(plain)) return BigInt(plain);
  const value = Number(plain);
  return plain !== '' && Number.isFinite(value) && !/^-?0[xob]/.test(plain) ? value : undefined;
}

/** Why a cell is refused. */
export function refusal(column: string, datatype: Datatype, cell: unknown): string {
  const expected = `column '${column}': expected a value of ${datatype}`;
  if (cell instanceof Uint8Array) return `${expected}, got bytes that are not UTF-8; fix that row`;
  const cure = CURES.find(([said]) => typeof cell === 'string' && said.test(cell.trim()))?.[1] ?? 'fix that row';
  if (!isEmpty(cell)) return `${expected}, got ${preview(cell)}; ${cure}`;
  const got = typeof cell === 'string' ? 'an empty cell' : cell === null ? 'null' : 'nothing';
  return `${expected}, got ${got}; fix that row, or say what empty cells become, as with --missing nan`;
}

/** What to write in place of a text that is no number. */
const CURES: readonly (readonly [said: RegExp, cure: string])[] = [
  [/^-?\d+,\d+$/, 'write decimals behind a point'],
  [/^(yes|no|[ynt]|f)$/i, 'write true or false'],
  [
    /^(#?n\/?a|null|none|nil|missing|-|\?|\.)$/i,
    'leave the cell empty, and say what empty cells become, as with --missing nan',
  ],
];

/** Returns true if a line is no row: it contains only blanks, and no separator. */
export function isBlankLine(line: string, separator = ','): boolean {
  return line.trim() === '' && !line.includes(separator);
}

/** Of CSV, with what stands between its fields: a tab where its name says so. */
export function withSeparator<S extends Pick<Spec, 'separator'>>(name: string, spec: S): S {
  return spec.separator === undefined && /\.tsv(?:\.\w+)?$/i.test(name) ? { ...spec, separator: '\t' } : spec;
}

/** Returns true if a text may stand between the fields of CSV. */
export function isSeparator(text: string): boolean {
  return text.length === 1 && !/["\r\n]/.test(text);
}

/** One of these makes an object a request, whatever the model's inputs are called. */
const KEYS_OF_REQUESTS = ['inputs', 'instances', 'model_name'];
/** Keys that no data file is known by: a line of them alone is a request that lacks its inputs. */
const OTHER_KEYS_OF_REQUESTS = ['id', 'model_version', 'parameters', 'outputs', 'raw_input_contents'];

/**
 * Returns true if lines are plain objects and not requests, by the first of them that is an object. Lines for a model with a
 * transform are requests, because it has keys of its own.
 */
export function arePlainObjects(first: JsonObject | undefined, model: ModelDescription): boolean {
  return first !== undefined && !takesOwnForm(model) && !isRequest(first);
}

export function isRequest(object: JsonObject): boolean {
  return (
    KEYS_OF_REQUESTS.some((key) => Object.hasOwn(object, key)) ||
    Object.keys(object).every((key) => OTHER_KEYS_OF_REQUESTS.includes(key))
  );
}

/** Returns true if a value that was read of JSON is sure to be what the text says, fractions as near as a double is to them. */
export function isExact(value: unknown): boolean {
  if (typeof value === 'number') return Number.isSafeInteger(value) || (value % 1 !== 0 && Number.isFinite(value));
  if (Array.isArray(value)) return value.every(isExact);
  return typeof value !== 'object' || value === null || Object.values(value).every(isExact);
}

const DIGITS = /^-?\d+$/;

/** An object whose whole numbers that a double cannot hold, and numbers that are too large for one, are their text. */
export function exactly(line: string): JsonObject {
  return JSON.parse(line, (_, value: unknown, { source = '' }: { readonly source?: string } = {}) => {
    const isLost = typeof value === 'number' && !isExact(value) && (DIGITS.test(source) || !Number.isFinite(value));
    return isLost ? source : value;
  });
}

/** Returns how columns fill an input, or a failure if they cannot: as one list, or one element each. */
export function inputColumnsOf(spec: TensorSpec, columns: readonly string[]): InputColumns | Failure {
  const { name, datatype, shape, batchAxis } = spec;
  if (columns.length === 1 && shape.slice(1).some((size) => size !== 1)) {
    return { input: name, datatype, shape: [], columns, list: { name, datatype, shape, batchAxis } };
  }
  const own = rowShape(spec, columns);
  return isFailure(own) ? own : { input: name, datatype, shape: shapeInModel(spec, own), columns };
}

/** The shape `[1, …]` of a row: what its nesting says, or, where it is flat, what one open size comes to. */
export function rowShape({ name, shape }: TensorSpec, value: unknown): readonly number[] | Failure {
  const wanted = shape.slice(1);
  const nesting = nestingOf(value);
  if (nesting.length === wanted.length) {
    if (nesting.every((size, axis) => size > 0 && (typeof wanted[axis] === 'string' || size === wanted[axis]))) {
      return [1, ...nesting];
    }
  } else if (nesting.length < 2) {
    const elements = nesting[0] ?? 1;
    const open = wanted.filter((size) => typeof size === 'string').length;
    const known = wanted.reduce<number>((product, size) => product * (typeof size === 'string' ? 1 : size), 1);
    if (open === 0 ? elements === known : open === 1 && elements > 0 && elements % known === 0) {
      return [1, ...wanted.map((size) => (typeof size === 'string' ? elements / known : size))];
    }
  }
  return failure(
    'INVALID_SHAPE',
    `input '${name}': expected a row of the shape [${wanted.join(', ')}], got [${nesting.join(', ')}]; give it so many elements`,
  );
}

/** No tensor has as many axes. */
const MAX_LEVELS = 32;

/** The sizes of nested arrays, going by the first of each; none of a single value. */
function nestingOf(value: unknown): number[] {
  const sizes: number[] = [];
  for (let at = value; Array.isArray(at) && sizes.length < MAX_LEVELS; at = at[0]) sizes.push(at.length);
  return sizes;
}

/** Expands the columns to keep. @throws Error if one is named twice, because results have one column of a name */
export function keptColumns(names: readonly string[]): string[] {
  const columns = expandColumns(names);
  const seen = new Set<string>();
  const twice = columns.find((name) => seen.size === seen.add(name).size);
  if (twice !== undefined) throw new Error(`expected each column to keep once, got ${preview(twice)} twice`);
  return columns;
}

const MAX_COLUMNS = 100_000;

/**
 * Expands ranges of column names: `p0..p63` is p0, p1, … p63, and `p00..p63` has two digits.
 *
 * @throws Error if a range is invalid or runs backwards
 */
export function expandColumns(names: readonly string[]): string[] {
  return names.flatMap((name) => {
    const [, prefix = '', first, again, last] = /^(.*?)(\d+)\.\.(.*?)(\d+)$/.exec(name) ?? [];
    if (first === undefined || last === undefined) return [name];
    const [from, to] = [Number(first), Number(last)];
    if (prefix !== again || to < from || to - from >= MAX_COLUMNS) {
      throw new Error(`columns: expected a range such as ${prefix}0..${prefix}63, got '${name}'`);
    }
    const width = first.startsWith('0') ? first.length : 0;
    return Array.from({ length: to - from + 1 }, (_, index) => `${prefix}${String(from + index).padStart(width, '0')}`);
  });
}
