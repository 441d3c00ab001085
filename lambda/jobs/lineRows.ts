import { type Failure, failure, isFailure, plural, preview } from '../core/failure.ts';
import { isObject, type JsonObject, parseIfJson } from '../core/json.ts';
import { type ModelDescription, takesOwnForm } from '../core/model.ts';
import { isShallow, MAX_LEVELS } from '../core/outline.ts';
import { JobError } from './jobFiles.ts';
import type { JobHead } from './jobTypes.ts';
import { exactly, isBlankLine, isExact, isRequest } from './rowRequests.ts';
import { type IdPrefix, type Rows, requestRows } from './rows.ts';
import { TableBuilder, type TableOptions } from './table.ts';

/** Reads lines of text as rows, one after the other. */
export interface LineReader {
  /** Number of rows since the last {@link take}. */
  readonly length: number;
  /** Reads the line from `start` to `end` (exclusive). */
  add(id: number, text: string, start: number, end: number): void;
  /** Adds a row for a line that cannot be read. */
  refuse(id: number, failed: Failure): void;
  take(): Rows;
}

const MIB = 1024 * 1024;

/** Maximum size of a line, and the failure of a longer one. */
export interface LineLimit {
  readonly bytes: number;
  readonly failure: Failure;
}

/** Maximum size of a line on any host. The longest text of V8 has twice as many characters. */
const MAX_LINE_BYTES = 256 * MIB;
/** Bytes of a line for each byte of its compressed file. */
const MAX_INFLATION = 32;

/**
 * Returns the limit for the lines of a file. A line takes up to sixty times its size in memory, so a compressed file of a
 * few bytes may not inflate to a long one.
 *
 * @param share of the memory: see `shareOfMemory`
 * @param compressedBytes size of the file. Undefined if it is not compressed
 */
export function lineLimit(share: number, compressedBytes?: number): LineLimit {
  const most = Math.min(share, MAX_LINE_BYTES);
  const ofFile = compressedBytes === undefined ? most : MIB + MAX_INFLATION * compressedBytes;
  const [bytes, cure] =
    ofFile < most
      ? [ofFile, ` in a compressed file of ${compressedBytes}, got more; decompress the file`]
      : [most, ", got more; send several requests, or raise the function's memory"];
  return { bytes, failure: failure('PAYLOAD_TOO_LARGE', `line: expected at most ${bytes} bytes${cure}`) };
}

/** Maximum size of the header of CSV. Every call of a job reads the names. */
export const MAX_HEADER_BYTES = MIB;

/**
 * Returns the column names in the first line of CSV.
 *
 * @param key name of the file for the message
 * @throws JobError if there are none
 */
export function columnsIn(key: string, line: string, separator: string | undefined): readonly string[] {
  refuseCarriageReturns(key, line);
  const isTooLong = Buffer.byteLength(line) >= MAX_HEADER_BYTES;
  const isBlank = line.trim() === '';
  const columns = isTooLong || isBlank ? undefined : fieldsOf(line.replace(/^\uFEFF|\r$/g, ''), separator);
  if (columns !== undefined) return columns;
  const got = isTooLong ? `${MAX_HEADER_BYTES} bytes or more` : isBlank ? 'none' : 'a quoted name that does not end';
  const expected = 'expected the names of the columns in the first line of CSV';
  throw new JobError('INVALID_JOB', `${key}: ${expected}, got ${got}; write them there`);
}

/** Refuses a line that is a whole file, because its lines end as those of Excel for Mac. */
function refuseCarriageReturns(key: string, line: string): void {
  if (!/\r(?!$)/.test(line.replaceAll(/"[^"]*"/g, ''))) return;
  const cure = "convert them, as tr '\\r' '\\n' does";
  throw new JobError('INVALID_JOB', `${key}: expected line breaks, got carriage returns alone; ${cure}`);
}

const WRITE_LINES = "write one object a line, as with DataFrame.to_json(orient='records', lines=True)";

/**
 * Refuses plain objects that are not one a line, such as other layouts of pandas.
 *
 * @param key name of the file for the message
 * @param lines first lines of the file, or all
 * @throws JobError naming the layout
 */
export function refuseOtherLayouts(key: string, lines: readonly string[], model: ModelDescription): void {
  const [first = '', ...others] = lines.filter((line) => line.trim() !== '');
  const value = isShallow(first) ? parseIfJson(first) : undefined;
  const refuse = (got: string): never => {
    throw new JobError('INVALID_JOB', `${key}: expected one row a line, got ${got}; ${WRITE_LINES}`);
  };
  if (firstObject(first.split('\r').slice(0, 1)) !== undefined) refuseCarriageReturns(key, first);
  const [second = ''] = others;
  if (/^[[{]\s*$/.test(first) && /^\s+\S/.test(second)) refuse('JSON over several lines');
  if (others.length === 0 && !takesOwnForm(model) && holdsAllRows(value)) refuse('all rows in one');
}

/** Returns true for what pandas writes by default, and with `orient` as records, index, columns, values, split or table. */
function holdsAllRows(value: unknown): boolean {
  if (Array.isArray(value)) return Array.isArray(value[0]) || (isObject(value[0]) && !isRequest(value[0]));
  if (!isObject(value) || isRequest(value)) return false;
  const isSplit = Array.isArray(value.data) && ('columns' in value || 'schema' in value);
  return isSplit || Object.values(value).every(isObject);
}

/** Returns the first line that is an object with a key. */
export function firstObject(lines: Iterable<string>): JsonObject | undefined {
  for (const line of lines) {
    const value = isShallow(line) ? parseIfJson(line) : undefined;
    if (isObject(value) && Object.keys(value).length > 0) return value;
  }
  return undefined;
}

const NEWLINE = '\n';
const CARRIAGE_RETURN = 13;
const SPACE = 32;
const LAST_OF_ASCII = 127;

/**
 * Reads lines until the reader has `max` rows. A line that is blank is no row.
 *
 * @param at start of a line
 * @param idOf returns the ID of a line by its start. It is called once for each line, in order
 * @returns the start of the first line that is not read
 */
export function readLines(
  text: string,
  at: number,
  reader: LineReader,
  max: number,
  separator: string | undefined,
  idOf: (start: number) => number,
): number {
  let start = at;
  while (start < text.length && reader.length < max) {
    const found = text.indexOf(NEWLINE, start);
    const next = found < 0 ? text.length : found;
    const end = next > start && text.charCodeAt(next - 1) === CARRIAGE_RETURN ? next - 1 : next;
    const id = idOf(start);
    const first = text.charCodeAt(start);
    const mayBeBlank = end === start || first <= SPACE || first > LAST_OF_ASCII;
    if (!mayBeBlank || !isBlankLine(text.slice(start, end), separator)) reader.add(id, text, start, end);
    start = next + 1;
  }
  return start;
}

type LinesHead = Pick<JobHead, 'columns' | 'inputs' | 'separator'> & TableOptions;

/** Returns the reader of a file's lines. */
export function lineReaderOf(head: LinesHead): LineReader {
  if (head.columns !== undefined) return csvReader(head);
  return head.inputs === undefined ? requestReader(head) : objectReader(head);
}

/** Reads lines that are requests as they are. */
function requestReader({ idPrefix = '' }: IdPrefix): LineReader {
  let [ids, texts, failures]: [string[], string[], (Failure | undefined)[]] = [[], [], []];
  const add = (id: number, text: string, failed?: Failure): void => {
    ids.push(`${idPrefix}${id}`);
    texts.push(text);
    failures.push(failed);
  };
  return {
    get length() {
      return ids.length;
    },
    add: (id, text, start, end) => add(id, text.slice(start, end)),
    refuse: (id, failed) => add(id, '', failed),
    take() {
      const rows = requestRows(ids, texts, failures);
      [ids, texts, failures] = [[], [], []];
      return rows;
    },
  };
}

/** Reads rows into one table after the other. @param add reads a line as a row of a table */
function tableReader(
  { inputs = [], ...options }: Pick<JobHead, 'inputs'> & TableOptions,
  add: (table: TableBuilder, id: number, text: string, start: number, end: number) => void,
): LineReader {
  let table = new TableBuilder(inputs, options);
  return {
    get length() {
      return table.length;
    },
    add: (id, text, start, end) => add(table, id, text, start, end),
    refuse: (id, failed) => table.fail(table.add(id), failed),
    take() {
      const taken = table.finish();
      table = new TableBuilder(inputs, options);
      return taken;
    },
  };
}

/** Reads lines of CSV. A line with a wrong number of fields, or a cell that is no value, is a row that fails. */
function csvReader(head: LinesHead): LineReader {
  const { columns = [], inputs = [], keep, separator } = head;
  const placeOf = new Map(columns.map((name, place) => [name, place]));
  const placesOf = (names: readonly string[]): number[] => names.map((name) => placeOf.get(name) ?? -1);
  const [inputPlaces, keptPlaces] = [inputs.map((input) => placesOf(input.columns)), placesOf(keep)];
  const fields = fieldCutter(columns.length, separator);
  return tableReader(head, (table, id, text, start, end) => {
    const row = table.add(id);
    const found = fields.cut(text, start, end);
    if (found !== columns.length) {
      table.fail(row, noRow(columns.length, found));
      return;
    }
    for (let column = 0; column < keptPlaces.length; column++) {
      table.keep(row, column, fields.textOf(text, keptPlaces[column] as number));
    }
    for (let index = 0; index < inputPlaces.length; index++) {
      const [places, input] = [inputPlaces[index] as number[], table.inputs[index] as (typeof table.inputs)[number]];
      for (let column = 0; column < places.length; column++) {
        const place = places[column] as number;
        const decimal = fields.decimalOf(place);
        if (!Number.isNaN(decimal) && input.writeNumber(row, column, decimal)) continue;
        const failed = input.write(row, column, fields.textOf(text, place));
        if (failed === undefined) continue;
        table.fail(row, failed);
        return;
      }
    }
  });
}

/**
 * Returns the fields of one line of CSV as RFC 4180 has them: a field may be in quotes, and then hold separators, and quotes
 * that are doubled. A line is a row: fields hold no line breaks.
 *
 * @returns undefined if a quoted field does not end in the line, or if it ends before a separator
 * @see https://www.rfc-editor.org/rfc/rfc4180
 */
export function fieldsOf(line: string, separator = ','): readonly string[] | undefined {
  const fields = fieldCutter(line.split(separator).length, separator);
  const length = fields.cut(line, 0, line.length);
  return length === undefined ? undefined : Array.from({ length }, (_, field) => fields.textOf(line, field));
}

/** Decimal digits that a double always holds. */
const EXACT_DIGITS = 15;
const POWER_OF_TEN = Float64Array.from({ length: EXACT_DIGITS + 1 }, (_, exponent) => Number(`1e${exponent}`));
const MINUS = 45;
const POINT = 46;
const ZERO = 48;
const QUOTE = '"';
const QUOTE_CODE = 34;

/**
 * Finds the fields of one line at a time, and reads those that are plain decimals, such as -12.5, without creating a text for
 * them. One division of two whole numbers that doubles hold rounds correctly, so the number is the one that `Number` returns.
 *
 * @see https://www.exploringbinary.com/fast-path-decimal-to-floating-point-conversion/
 */
function fieldCutter(columns: number, separator = ',') {
  const code = separator.charCodeAt(0);
  const isInDecimals = /[\d.-]/.test(separator);
  const starts = new Int32Array(columns);
  const ends = new Int32Array(columns);
  const decimals = new Float64Array(columns);
  const areQuoted = new Uint8Array(columns);
  return {
    /** Returns the number of fields in a line. Undefined if a quoted field does not end. No digit follows the line. */
    cut(text: string, from: number, to: number): number | undefined {
      let place = from;
      for (let field = 0; ; field++, place++) {
        let start = place;
        let decimal = Number.NaN;
        let end: number;
        const isQuoted = place < to && text.charCodeAt(place) === QUOTE_CODE;
        if (isQuoted) {
          start += 1;
          end = endOfQuoted(text, start, to);
          place = end + 1;
          if (end < 0 || (place < to && text.charCodeAt(place) !== code)) return undefined;
        } else {
          const isNegative = text.charCodeAt(place) === MINUS;
          const first = isNegative ? place + 1 : place;
          let at = first;
          let whole = 0;
          let digit = text.charCodeAt(at) - ZERO;
          for (; digit >= 0 && digit <= 9; digit = text.charCodeAt(++at) - ZERO) whole = whole * 10 + digit;
          let digits = at - first;
          let places = 0;
          if (digit === POINT - ZERO) {
            const point = at;
            digit = text.charCodeAt(++at) - ZERO;
            for (; digit >= 0 && digit <= 9; digit = text.charCodeAt(++at) - ZERO) whole = whole * 10 + digit;
            places = at - point - 1;
            digits += places;
          }
          const isDecimal = digits > 0 && digits <= EXACT_DIGITS && (at === to || digit === code - ZERO);
          if (isDecimal && !isInDecimals) {
            const size = places === 0 ? whole : whole / (POWER_OF_TEN[places] as number);
            decimal = isNegative ? -size : size;
            place = at;
          } else while (place < to && text.charCodeAt(place) !== code) place += 1;
          end = place;
        }
        starts[field] = start;
        ends[field] = end;
        decimals[field] = decimal;
        areQuoted[field] = isQuoted ? 1 : 0;
        if (place === to) return field + 1;
      }
    },
    /** Returns the text of a field in the line that was cut last. */
    textOf(text: string, field: number): string {
      const own = text.slice(starts[field], ends[field]);
      return areQuoted[field] === 1 ? own.replaceAll('""', QUOTE) : own;
    },
    /** Returns the decimal in a field, or NaN if the field holds anything else. */
    decimalOf: (field: number): number => decimals[field] as number,
  };
}

/** Returns the place of the quote that ends a field: one that is not doubled. -1 if there is none. */
function endOfQuoted(text: string, from: number, to: number): number {
  for (let at = text.indexOf(QUOTE, from); at >= 0 && at < to; at = text.indexOf(QUOTE, at + 2)) {
    if (at + 1 >= to || text[at + 1] !== QUOTE) return at;
  }
  return -1;
}

function noRow(expected: number, got: number | undefined): Failure {
  const what = got === undefined ? 'a quoted field that does not end' : `${got}`;
  return failure(
    'INVALID_REQUEST',
    `line: expected ${plural(expected, 'field')}, as many as the header has, got ${what}; fields hold no line breaks`,
  );
}

/**
 * Reads lines with a plain object each. An input is the value of one key, a number, a text or an array, flat or nested,
 * or the values of several keys.
 */
function objectReader(head: LinesHead): LineReader {
  const { inputs = [], keep } = head;
  const used = [...keep, ...inputs.flatMap(({ columns }) => columns)];
  const readObject = (line: string): JsonObject | Failure => {
    if (!isShallow(line)) return TOO_DEEP;
    const object = parseIfJson(line);
    if (!isObject(object)) return noObject(line, object);
    return used.every((key) => isExact(valueOfKey(object, key))) ? object : exactly(line);
  };
  const readInputs = (object: JsonObject, table: TableBuilder, row: number): Failure | undefined => {
    for (const [index, { input, columns, list }] of inputs.entries()) {
      const lost = columns.find((key) => !Object.hasOwn(object, key));
      if (lost !== undefined) {
        return failure('MISSING_INPUT', `input '${input}': expected the key ${preview(lost)}, got none; add it`);
      }
      for (const [column, key] of columns.entries()) {
        const cell = list === undefined ? onlyElement(object[key]) : object[key];
        if (list === undefined && Array.isArray(cell)) {
          const wrong = `expected one value in the key ${preview(key)}, got ${preview(cell)}; fix that row`;
          return failure('INVALID_SHAPE', `input '${input}': ${wrong}`);
        }
        const failed = table.inputs[index]?.write(row, column, cell);
        if (failed !== undefined) return failed;
      }
    }
    return undefined;
  };
  return tableReader(head, (table, id, text, start, end) => {
    const row = table.add(id);
    try {
      const object = readObject(text.slice(start, end));
      if (isFailure(object)) {
        table.fail(row, object);
        return;
      }
      for (const [column, key] of keep.entries()) table.keep(row, column, valueOfKey(object, key));
      const failed = readInputs(object, table, row);
      if (failed !== undefined) table.fail(row, failed);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      // The stack ended. A short text may have thousands of levels.
      table.fail(row, TOO_DEEP);
    }
  });
}

const TOO_DEEP = failure(
  'INVALID_REQUEST',
  `line: expected few arrays and objects, on at most ${MAX_LEVELS} levels, got more; write elements flat`,
);

function noObject(line: string, value: unknown): Failure {
  return value === undefined
    ? failure('INVALID_JSON', `line: expected an object as JSON, got ${line.length} characters that are not JSON`)
    : failure('INVALID_REQUEST', `line: expected an object with the model's inputs, got ${preview(value)}`);
}

function valueOfKey(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Returns the value in arrays of one element each. */
function onlyElement(value: unknown): unknown {
  let only = value;
  while (Array.isArray(only) && only.length === 1) [only] = only;
  return only;
}
