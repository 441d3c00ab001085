import { type Failure, failure, isFailure, plural, preview } from '../core/failure.ts';
import { isObject, type JsonObject, parseIfJson } from '../core/json.ts';
import { isShallow } from '../core/outline.ts';
import type { JobHead } from './jobTypes.ts';
import { exactly, fieldsOf, isBlankLine, isExact, QUOTE } from './rowRequests.ts';
import { type IdPrefix, RequestRows, type Rows } from './rows.ts';
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
  let [ids, texts, failures]: [string[], string[], Map<number, Failure>] = [[], [], new Map()];
  return {
    get length() {
      return ids.length;
    },
    add(id, text, start, end) {
      ids.push(`${idPrefix}${id}`);
      texts.push(text.slice(start, end));
    },
    refuse(id, failed) {
      failures.set(ids.length, failed);
      ids.push(`${idPrefix}${id}`);
      texts.push('');
    },
    take() {
      const rows = new RequestRows(ids, texts, failures);
      [ids, texts, failures] = [[], [], new Map()];
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
  const cut = fieldCutter(columns.length, separator);
  return tableReader(head, (table, id, text, start, end) => {
    const row = table.add(id);
    let found: number | undefined = cut.at(text, start, end);
    let fields: readonly string[] | undefined;
    if (found < 0) {
      fields = fieldsOf(text.slice(start, end), separator);
      found = fields?.length;
    }
    if (found !== columns.length) {
      table.fail(row, noRow(columns.length, found));
      return;
    }
    const fieldAt = (place: number): string => fields?.[place] ?? text.slice(cut.startOf(place), cut.endOf(place));
    for (let column = 0; column < keptPlaces.length; column++) {
      table.keep(row, column, fieldAt(keptPlaces[column] as number));
    }
    for (let index = 0; index < inputPlaces.length; index++) {
      const [places, input] = [inputPlaces[index] as number[], table.inputs[index] as (typeof table.inputs)[number]];
      for (let column = 0; column < places.length; column++) {
        const place = places[column] as number;
        const decimal = fields === undefined ? cut.decimalOf(place) : Number.NaN;
        if (!Number.isNaN(decimal) && input.writeNumber(row, column, decimal)) continue;
        const failed = input.write(row, column, fieldAt(place));
        if (failed === undefined) continue;
        table.fail(row, failed);
        return;
      }
    }
  });
}

/** Decimal digits that a double always holds. */
const EXACT_DIGITS = 15;
const POWER_OF_TEN = Float64Array.from({ length: EXACT_DIGITS + 1 }, (_, exponent) => Number(`1e${exponent}`));
const MINUS = 45;
const POINT = 46;
const ZERO = 48;
const QUOTE_CODE = QUOTE.charCodeAt(0);

/**
 * Finds the fields of lines without quotes, one line at a time, and reads those that are plain decimals, such as -12.5,
 * without creating a text for them. One division of two whole numbers that doubles hold rounds correctly, so the number
 * is the one that `Number` returns.
 *
 * @see https://www.exploringbinary.com/fast-path-decimal-to-floating-point-conversion/
 */
function fieldCutter(columns: number, separator = ',') {
  const code = separator.charCodeAt(0);
  const isInDecimals = /[\d.-]/.test(separator);
  const starts = new Int32Array(columns);
  const ends = new Int32Array(columns);
  const decimals = new Float64Array(columns);
  return {
    /** Returns the number of fields in the line, or -1 if it has a quote. No digit or point follows the line. */
    at(text: string, from: number, to: number): number {
      let place = from;
      for (let field = 0; ; field++, place++) {
        const start = place;
        let decimal = Number.NaN;
        if (!isInDecimals) {
          const isNegative = text.charCodeAt(place) === MINUS;
          if (isNegative) place += 1;
          let whole = 0;
          let digits = -place;
          let fraction = 0;
          let digit = text.charCodeAt(place) - ZERO;
          for (; digit >= 0 && digit <= 9; digit = text.charCodeAt(++place) - ZERO) whole = whole * 10 + digit;
          digits += place;
          if (digit === POINT - ZERO) {
            fraction = -place - 1;
            digit = text.charCodeAt(++place) - ZERO;
            for (; digit >= 0 && digit <= 9; digit = text.charCodeAt(++place) - ZERO) whole = whole * 10 + digit;
            fraction += place;
            digits += fraction;
          }
          if (digits > 0 && digits <= EXACT_DIGITS && (place === to || digit === code - ZERO)) {
            const size = fraction === 0 ? whole : whole / (POWER_OF_TEN[fraction] as number);
            decimal = isNegative ? -size : size;
          }
        }
        for (let character = text.charCodeAt(place); place < to && character !== code; ) {
          if (character === QUOTE_CODE) return -1;
          character = text.charCodeAt(++place);
        }
        starts[field] = start;
        ends[field] = place;
        decimals[field] = decimal;
        if (place === to) return field + 1;
      }
    },
    startOf: (place: number): number => starts[place] as number,
    endOf: (place: number): number => ends[place] as number,
    /** Returns the decimal in a field, or NaN if the field holds anything else. */
    decimalOf: (place: number): number => decimals[place] as number,
  };
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
        const cell = list === undefined && columns.length === 1 ? onlyElement(object[key]) : object[key];
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
      for (const [column, key] of keep.entries()) table.keep(row, column, writable(valueOfKey(object, key)));
      const failed = readInputs(object, table, row);
      if (failed !== undefined) table.fail(row, failed);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      // The stack ended. A short text may have thousands of levels.
      table.fail(row, TOO_DEEP);
    }
  });
}

const TOO_DEEP = failure('INVALID_REQUEST', 'line: expected a few nested levels, got thousands');

function noObject(line: string, value: unknown): Failure {
  return value === undefined
    ? failure('INVALID_JSON', `line: expected an object as JSON, got ${line.length} characters that are not JSON`)
    : failure('INVALID_REQUEST', `line: expected an object with the model's inputs, got ${preview(value)}`);
}

function valueOfKey(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Returns a kept value. @throws RangeError if it has too many levels to be written as JSON */
function writable(value: unknown): unknown {
  if (typeof value === 'object' && value !== null) JSON.stringify(value);
  return value;
}

/** Returns the value in arrays of one element each. */
function onlyElement(value: unknown): unknown {
  let only = value;
  while (Array.isArray(only) && only.length === 1) [only] = only;
  return only;
}
