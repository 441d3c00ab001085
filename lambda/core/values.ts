import { isAscii } from 'node:buffer';
import { type Failure, failure, plural, preview } from './failure.ts';
import { formatFloat32 } from './floatText.ts';
import { parseIfJson } from './json.ts';
import {
  allocate,
  type Base64Data,
  type BigIntArray,
  base64InSlab,
  DATATYPES,
  type Datatype,
  decodedBytes,
  elementCount,
  isBase64,
  isBase64Length,
  LENGTH_PREFIX_BYTES,
  type NumericArray,
  type TensorData,
  type TypedArray,
  viewOf,
} from './tensor.ts';

/** Path of a request that is the whole body. */
export const WHOLE_BODY = 'body';

/** Returns the path of a request's field for messages: `inputs`, or `[3].inputs` inside a packed message. */
export function fieldOf(path: string, field: string): string {
  return path.startsWith('[') ? `${path}.${field}` : field;
}

/** Returns the path of a field, or of its element at a position. Called only if a message needs it. */
type PathOf = (position: readonly number[]) => string;

export function pathWithin(path: string): PathOf {
  return (position) => path + position.map((index) => `[${index}]`).join('');
}

/**
 * Decodes a JSON `data` array, flat or nested row-major, as `datatype`. A typed array, which transforms may return, is
 * copied.
 *
 * @param shape checked to be integers, 0 or more
 * @param path place of the field in messages: `inputs[1].data`, or a function that returns the path of an element's
 *   position
 * @param room allocates the array
 */
export function decodeData(
  data: unknown,
  datatype: Datatype,
  shape: readonly number[],
  path: string | PathOf,
  room: typeof allocate = allocate,
): TensorData | Failure {
  const pathOf = typeof path === 'string' ? pathWithin(path) : path;
  if (ArrayBuffer.isView(data)) return takeTypedArray(data, datatype, shape, pathOf);
  if (!Array.isArray(data)) {
    const wrong = `expected an array of ${datatype} elements, got ${preview(data)}; send one`;
    return failure('INVALID_DATA', `${pathOf([])}: ${wrong}`);
  }
  const nested = shape.length > 1 && Array.isArray(data[0]);
  const flat = nested ? flatten(data, shape, pathOf) : data;
  if (!Array.isArray(flat)) return flat;

  const expected = elementCount(shape);
  if (flat.length !== expected) return wrongCount(flat.length, shape, pathOf);
  const target = room(datatype, expected);
  const wrongAt = fillData(target, flat, datatype);
  if (wrongAt < 0) return target;
  const where = nested ? positionOf(wrongAt, shape) : [wrongAt];
  const wrong = `expected ${describe(datatype)}, got ${preview(flat[wrongAt])}; ${cureOf(flat[wrongAt], datatype)}`;
  return failure('INVALID_DATA', `${pathOf(where)}: ${wrong}`);
}

function cureOf(value: unknown, datatype: Datatype): string {
  const replacement = replacementOf(value, datatype);
  if (replacement === '""') return 'write "" for an empty text';
  if (replacement === '"NaN"') return 'write "NaN" for a missing number';
  return replacement === '…' ? 'fix that element' : `write ${replacement}`;
}

/** Returns the JSON text to write in place of a value: as it is meant if that is clear, and `…` otherwise. */
export function replacementOf(value: unknown, datatype: Datatype): string {
  const { kind } = DATATYPES[datatype];
  if (value === null && kind === 'string') return '""';
  if (value === null && kind === 'float') return '"NaN"';
  const taken = [value, meantBy(value, kind === 'string')].find(
    (one) => typeof one !== 'object' && fillData(allocate(datatype, 1), [one], datatype) < 0,
  );
  const text = taken === undefined ? '…' : JSON.stringify(taken);
  return text.length > MAX_REPLACEMENT_CHARACTERS ? '…' : text;
}

const MAX_REPLACEMENT_CHARACTERS = 40;
const NON_FINITE_WORDS: Readonly<Record<string, string>> = { nan: 'NaN', inf: 'Infinity', '-inf': '-Infinity' };

/** Returns the text of a number or boolean, or the number or boolean of a text. */
function meantBy(value: unknown, asText: boolean): unknown {
  if (asText) return typeof value === 'object' ? undefined : String(value);
  if (typeof value !== 'string') return undefined;
  const text = value.trim().toLowerCase();
  return NON_FINITE_WORDS[text] ?? parseIfJson(text);
}

function wrongCount(got: number, shape: readonly number[], pathOf: PathOf): Failure {
  return failure(
    'INVALID_SHAPE',
    `${pathOf([])}: expected ${plural(elementCount(shape), 'element')} for shape [${shape.join(', ')}], got ${got}; ` +
      'make shape and data agree',
  );
}

function takeTypedArray(
  data: ArrayBufferView,
  datatype: Datatype,
  shape: readonly number[],
  pathOf: PathOf,
): TensorData | Failure {
  const room = allocate(datatype, 0);
  if (!isLike(data, room)) {
    const got = Object.prototype.toString.call(data).slice('[object '.length, -1);
    return failure('INVALID_DATA', `${pathOf([])}: expected the typed array of ${datatype}, got ${got}`);
  }
  if (data.length !== elementCount(shape)) return wrongCount(data.length, shape, pathOf);
  const noBoolean = DATATYPES[datatype].kind === 'boolean' ? data.findIndex((element) => element > 1) : -1;
  if (noBoolean < 0) return data.slice();
  return failure('INVALID_DATA', `${pathOf([noBoolean])}: expected 0 or 1 (BOOL), got ${data[noBoolean]}`);
}

function isLike(data: ArrayBufferView, room: TensorData): data is TypedArray {
  return !Array.isArray(room) && data.constructor === room.constructor;
}

/** Flattens a nested array with exactly the nesting of `shape`, row-major. */
function flatten(data: unknown[], shape: readonly number[], pathOf: PathOf): unknown[] | Failure {
  let level: unknown[] = [data];
  for (const [axis, dim] of shape.entries()) {
    const next: unknown[] = [];
    for (const [index, child] of level.entries()) {
      if (!Array.isArray(child) || child.length !== dim) {
        return failure(
          'INVALID_SHAPE',
          `${pathOf(positionOf(index, shape.slice(0, axis)))}: expected ${plural(dim, 'element')} on axis ${axis} of shape ` +
            `[${shape.join(', ')}], got ${preview(child)}; nest data exactly as shape says, or send it flat`,
        );
      }
      // `push(...child)` throws a RangeError from about 125,000 elements on.
      for (const element of child) next.push(element);
    }
    level = next;
  }
  return level;
}

function positionOf(index: number, shape: readonly number[]): number[] {
  const position: number[] = [];
  let rest = index;
  for (const dim of shape.toReversed()) {
    position.unshift(rest % dim);
    rest = Math.floor(rest / dim);
  }
  return position;
}

function describe(datatype: Datatype): string {
  const info = DATATYPES[datatype];
  switch (info.kind) {
    case 'float':
      return `a number within ${datatype}'s range, or the string "NaN", "Infinity" or "-Infinity"`;
    case 'integer':
      return `an integer from ${info.min} to ${info.max} (${datatype})`;
    case 'bigint':
      return `an integer from ${info.min} to ${info.max} (${datatype}), as a decimal string beyond ±2^53`;
    case 'boolean':
      return 'true or false (BOOL)';
    case 'string':
      return 'a string without U+0000 and without half surrogate pairs (BYTES)';
  }
}

/** Converts all of `values` into `target`. Returns the index of the first value that does not fit, or -1. */
function fillData(target: TensorData, values: readonly unknown[], datatype: Datatype): number {
  const info = DATATYPES[datatype];
  switch (info.kind) {
    case 'float':
      return fillFloats(target as NumericArray, values);
    case 'integer':
      return fillIntegers(target as NumericArray, values, info.min, info.max);
    case 'bigint':
      return fillBigInts(target as BigIntArray, values, info.min, info.max);
    case 'boolean':
      return fillBooleans(target as NumericArray, values);
    case 'string':
      return fillStrings(target as string[], values);
  }
}

const NON_FINITE = new Map<unknown, number>([
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
  ['-Infinity', Number.NEGATIVE_INFINITY],
]);

/** Converts floats. It refuses a number that the datatype would store as an infinity. */
function fillFloats(target: NumericArray, values: readonly unknown[]): number {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value === 'number') {
      target[i] = value;
      if (!Number.isFinite(target[i])) return i;
    } else {
      const other = typeof value === 'boolean' ? Number(value) : NON_FINITE.get(value);
      if (other === undefined) return i;
      target[i] = other;
    }
  }
  return -1;
}

function fillIntegers(target: NumericArray, values: readonly unknown[], min: number, max: number): number {
  for (let i = 0; i < values.length; i++) {
    const value = typeof values[i] === 'boolean' ? Number(values[i]) : values[i];
    if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) return i;
    target[i] = value;
  }
  return -1;
}

const DECIMAL = /^-?\d{1,20}$/;

/** Converts 64-bit integers. Refuses JSON numbers beyond ±2^53, which the parser has rounded. */
function fillBigInts(target: BigIntArray, values: readonly unknown[], min: bigint, max: bigint): number {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    const isWhole = Number.isSafeInteger(value) || typeof value === 'boolean';
    if (!isWhole && !(typeof value === 'string' && DECIMAL.test(value))) return i;
    const big = BigInt(value as number | string | boolean);
    if (big < min || big > max) return i;
    target[i] = big;
  }
  return -1;
}

function fillBooleans(target: NumericArray, values: readonly unknown[]): number {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value !== 'boolean' && value !== 0 && value !== 1) return i;
    target[i] = Number(value);
  }
  return -1;
}

function fillStrings(target: string[], values: readonly unknown[]): number {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value !== 'string' || !isCarried(value)) return i;
    target[i] = value;
  }
  return -1;
}

/** Returns true if ONNX Runtime for Node preserves a string. It cuts at U+0000 and replaces lone surrogates. */
function isCarried(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

/**
 * Checks one entry of `raw_input_contents`. Elements of a fixed size stay encoded, to be decoded directly into the
 * stacked tensor. BOOL and BYTES are decoded, because their values must be checked.
 */
export function decodeRaw(
  text: unknown,
  datatype: Datatype,
  shape: readonly number[],
  pathOf: () => string,
): TensorData | Base64Data | Failure {
  if (typeof text !== 'string')
    return failure('INVALID_DATA', `${pathOf()}: expected a base64 string, got ${preview(text)}; encode the bytes`);
  const info = DATATYPES[datatype];
  const elements = elementCount(shape);
  const expected = info.kind === 'string' ? 0 : elements * info.array.BYTES_PER_ELEMENT;
  const got = decodedBytes(text);
  if (info.kind !== 'boolean' && got === expected && isBase64Length(text)) {
    const small = base64InSlab(datatype, elements, text);
    if (small !== undefined) return small;
  }
  if (!isBase64(text)) {
    const wrong = `expected base64, got ${text.length} characters that are not; encode it again`;
    return failure('INVALID_DATA', `${pathOf()}: ${wrong}`);
  }
  if (info.kind === 'string') return decodeStrings(text, shape, pathOf());
  if (got !== expected) {
    const wrong = `expected ${plural(expected, 'byte')} for shape [${shape.join(', ')}] of ${datatype}, got ${got}`;
    return failure('INVALID_SHAPE', `${pathOf()}: ${wrong}; make shape and contents agree`);
  }
  return info.kind === 'boolean' ? decodeBooleans(text, expected, pathOf()) : { base64: text };
}

function decodeBooleans(text: string, bytes: number, path: string): TensorData | Failure {
  const data = new Uint8Array(bytes);
  Buffer.from(data.buffer).write(text, 'base64');
  const wrongAt = data.findIndex((element) => element > 1);
  if (wrongAt < 0) return data;
  return failure('INVALID_DATA', `${path}: expected bytes 0 or 1 (BOOL), got ${data[wrongAt]} at element ${wrongAt}`);
}

function decodeStrings(text: string, shape: readonly number[], path: string): TensorData | Failure {
  const contents = Buffer.from(text, 'base64');
  // A slice of a text takes a tenth of the time of decoding an element (two cores, Node 24).
  const ascii = isAscii(contents) ? contents.toString('latin1') : undefined;
  const expected = elementCount(shape);
  const elements: string[] = [];
  let position = 0;
  while (position < contents.length && elements.length <= expected) {
    const start = position + LENGTH_PREFIX_BYTES;
    const end = start <= contents.length ? start + contents.readUInt32LE(position) : Number.POSITIVE_INFINITY;
    if (end > contents.length) {
      return failure(
        'INVALID_DATA',
        `${path}: expected each BYTES element after its 4-byte little-endian length, element ${elements.length} ends ` +
          `beyond the ${contents.length} bytes that came`,
      );
    }
    const element = ascii === undefined ? decodeUtf8(contents.subarray(start, end)) : ascii.slice(start, end);
    if (element === undefined || !isCarried(element)) {
      const wanted = 'expected UTF-8 without U+0000 in BYTES elements';
      return failure('INVALID_DATA', `${path}: ${wanted}, element ${elements.length} is not`);
    }
    elements.push(element);
    position = end;
  }
  if (elements.length === expected) return elements;
  // Counting stopped at the first excess element.
  const got = elements.length > expected ? 'more' : elements.length;
  const wrong = `expected ${plural(expected, 'element')} for shape [${shape.join(', ')}], got ${got}`;
  return failure('INVALID_SHAPE', `${path}: ${wrong}; make shape and contents agree`);
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Formats elements `from` to `to` as JSON, comma-separated. Each is parsed as exactly the same value. */
export function encodeData(datatype: Datatype, data: TensorData, from = 0, to = data.length): string {
  if (data instanceof Float32Array) return formatFloat32(data, from, to);
  const { kind } = DATATYPES[datatype];
  if (kind === 'bigint') return formatBigInts(data as BigIntArray, from, to);
  const elements = viewOf(data, from, to);
  switch (kind) {
    case 'float':
      return needsFloatText(elements)
        ? Array.from(elements as ArrayLike<number>, formatFloat).join(',')
        : formatNumbers(elements);
    case 'boolean':
      return Array.from(elements as ArrayLike<number>, (element) => (element === 0 ? 'false' : 'true')).join(',');
    case 'string':
      return Array.from(elements as ArrayLike<string>, (element) => JSON.stringify(element)).join(',');
    case 'integer':
      return formatNumbers(elements);
  }
}

/** Formats numbers by `JSON.stringify`, which is faster than `join`. */
function formatNumbers(data: TensorData): string {
  return JSON.stringify(Array.from(data as ArrayLike<number>)).slice(1, -1);
}

/** Returns true if JavaScript does not print some value exactly as a JSON number: NaN, ±Infinity, -0. */
function needsFloatText(data: TensorData): boolean {
  for (let i = 0; i < data.length; i++) {
    const value = data[i] as number;
    if (!Number.isFinite(value) || Object.is(value, -0)) return true;
  }
  return false;
}

/** @see https://protobuf.dev/programming-guides/json/ non-finite numbers are strings */
function formatFloat(value: number): string {
  if (Object.is(value, -0)) return '-0';
  return Number.isFinite(value) ? String(value) : `"${value}"`;
}

/**
 * Formats without a view: a single element, such as a label, takes 0.1 µs instead of 0.6 (two cores, Node 24). A text of
 * half a million elements that grows by each of them would take 30 MB.
 */
function formatBigInts(data: BigIntArray, from: number, to: number): string {
  if (to - from === 1) return formatBigInt(data[from] as bigint);
  const elements: string[] = [];
  for (let index = from; index < to; index++) elements.push(formatBigInt(data[index] as bigint));
  return elements.join(',');
}

function formatBigInt(value: bigint): string {
  return Number.isSafeInteger(Number(value)) ? String(value) : `"${value}"`;
}
