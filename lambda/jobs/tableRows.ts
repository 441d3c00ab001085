import { type Failure, failure, plural, preview } from '../core/failure.ts';
import { parseIfJson } from '../core/json.ts';
import { shapeInModel, type TensorSpec } from '../core/model.ts';
import { isShallow } from '../core/outline.ts';
import { allocate, copyInto, type Datatype, elementCount, encodeRaw, type TensorData, viewOf } from '../core/tensor.ts';
import type { InputColumns, JobHead } from './jobTypes.ts';
import {
  cellReader,
  exactly,
  fieldsOf,
  isEmpty,
  isExact,
  jsonValue,
  type LineReader,
  type PieceRow,
  QUOTE,
  refusal,
  rowShape,
} from './rowRequests.ts';

/** Rows of a file with columns: elements of the model's inputs, and values of the columns that are kept. */
export interface Table {
  readonly inputs: readonly TableInput[];
  readonly kept: readonly (readonly [name: string, values: ArrayLike<unknown>])[];
}

/** Elements of one input, row after row. */
export interface TableInput {
  readonly input: Pick<InputColumns, 'input' | 'datatype' | 'shape'>;
  readonly data: TensorData;
  /** Elements of a row of the input's shape. */
  readonly width: number;
  /** Shape of each row, and where its elements begin. @default all rows are of the input's shape */
  readonly lists?: { readonly shapes: readonly (readonly number[])[]; readonly starts: readonly number[] } | undefined;
}

function shapeOf({ input, lists }: TableInput, at: number): readonly number[] {
  return lists?.shapes[at] ?? input.shape;
}

/** Number of elements of a row. */
function widthOf(input: TableInput, at: number): number {
  return input.lists === undefined ? input.width : elementCount(shapeOf(input, at));
}

/** Returns the elements of `rows` rows that follow each other and have one shape. */
function elementsOf(input: TableInput, at: number, rows: number): TensorData {
  const width = widthOf(input, at);
  const start = startOf(input, at, width);
  return viewOf(input.data, start, start + rows * width);
}

function startOf({ lists }: TableInput, at: number, width: number): number {
  return lists === undefined ? at * width : (lists.starts[at] ?? 0);
}

/** One row of a table. */
export class TableRow implements PieceRow {
  readonly id: string;
  readonly table: Table;
  /** Place of the row in the table. */
  readonly at: number;
  readonly failed: Failure | undefined;

  constructor(id: string, table: Table, at: number, failed?: Failure) {
    this.id = id;
    this.table = table;
    this.at = at;
    this.failed = failed;
  }

  /** Request of this row alone. */
  get text(): string {
    return this.failed === undefined ? requestOfRows([this], false) : '';
  }

  get kept(): string | undefined {
    const { kept } = this.table;
    if (kept.length === 0) return undefined;
    const entries = kept.map(
      ([name, values]) => `${JSON.stringify(name)}:${JSON.stringify(values[this.at] ?? null, jsonValue)}`,
    );
    return `{${entries.join(',')}}`;
  }

  /** Values of the columns that are kept, as JSON has them. */
  keptValues(): unknown[] {
    return this.table.kept.map(([, values]) => {
      const value = jsonValue('', values[this.at] ?? null);
      return typeof value === 'object' && value !== null ? JSON.parse(JSON.stringify(value, jsonValue)) : value;
    });
  }

  /** Bytes of its elements and of the texts that are kept. */
  get bytes(): number {
    let bytes = 0;
    for (const [, values] of this.table.kept) bytes += lengthOf(values[this.at]);
    for (const input of this.table.inputs) {
      const width = widthOf(input, this.at);
      const { data } = input;
      if (!Array.isArray(data)) bytes += width * data.BYTES_PER_ELEMENT;
      else if (this.failed === undefined) {
        const start = startOf(input, this.at, width);
        for (let index = start; index < start + width; index++) bytes += lengthOf(data[index]);
      }
    }
    return bytes;
  }
}

function lengthOf(value: unknown): number {
  if (typeof value === 'string' || value instanceof Uint8Array) return value.length;
  return typeof value === 'object' && value !== null ? JSON.stringify(value, jsonValue).length : BYTES_A_VALUE;
}

/**
 * Writes rows as one binary request.
 *
 * @param rows at least one, none of which failed, of the same shapes; several only for inputs with the batch axis at 0
 * @param isBinary whether the answer is to be binary too
 */
export function requestOfRows(rows: readonly TableRow[], isBinary: boolean): string {
  const [{ table, at }] = rows as readonly [TableRow];
  const specs = table.inputs.map((one) => {
    const shape = shapeOf(one, at);
    const sizes = rows.length === 1 ? shape : shape.with(0, rows.length);
    return `{"name":${JSON.stringify(one.input.input)},"datatype":"${one.input.datatype}","shape":[${sizes.join(',')}]}`;
  });
  const contents = table.inputs.map((_, index) => encodeRaw(gather(rows, index)));
  return (
    `{"inputs":[${specs.join(',')}],"parameters":{"binary_data_output":${isBinary}},` +
    `"raw_input_contents":["${contents.join('","')}"]}`
  );
}

/** Elements of one input of all rows. Rows that lie together are copied together. */
function gather(rows: readonly TableRow[], input: number): TensorData {
  const first = rows[0] as TableRow;
  const own = first.table.inputs[input] as TableInput;
  const width = widthOf(own, first.at);
  const all = allocate(own.input.datatype, rows.length * width);
  for (let from = 0; from < rows.length; ) {
    const { table, at } = rows[from] as TableRow;
    let to = from + 1;
    while (rows[to]?.table === table && rows[to]?.at === at + to - from) to += 1;
    copyInto(all, from * width, elementsOf(table.inputs[input] as TableInput, at, to - from));
    from = to;
  }
  return all;
}

/** Bytes of elements that one request has at the most, unless one row has more. */
const BYTES_A_REQUEST = 4 * 1024 * 1024;

/**
 * Cuts rows into those that share a request: neighbours whose lists are of one shape. The first row is a request of its own,
 * so that the scorer has requests to compare with runs of them alone.
 *
 * @param maxRows of a request
 */
export function cutIntoRequests(rows: readonly TableRow[], maxRows: number): (readonly TableRow[])[] {
  const chunks = rows.length === 0 ? [] : [rows.slice(0, 1)];
  let max = maxRows - 1;
  for (let from = 1; from < rows.length; ) {
    let to = from;
    const first = rows[from] as TableRow;
    for (let bytes = 0; to < rows.length && (to === from || to - from < max) && bytes < BYTES_A_REQUEST; to++) {
      const row = rows[to] as TableRow;
      if (!areAlike(first, row)) break;
      bytes += row.bytes;
    }
    chunks.push(rows.slice(from, to));
    from = to;
    max = maxRows;
  }
  return chunks;
}

function areAlike(one: TableRow, other: TableRow): boolean {
  return one.table.inputs.every((input, index) => {
    if (input.lists === undefined) return true;
    const shape = shapeOf(input, one.at);
    return shapeOf(other.table.inputs[index] as TableInput, other.at).every((size, axis) => size === shape[axis]);
  });
}

/** An input that is filled cell by cell. */
interface Filling {
  readonly filled: TableInput;
  /** Puts a cell into the elements of a row, if it is a value of the input's datatype. @returns why it is not */
  write(row: number, column: number, cell: unknown): Failure | undefined;
  /** Does the same with the decimal in a field of CSV. Returns false if the datatype does not hold it. */
  writeDecimal(row: number, column: number, decimal: number): boolean;
}

/** Returns what makes room for an input of some rows. */
export function inputFiller(input: InputColumns, missing: string | undefined): (rows: number) => Filling {
  if (input.list !== undefined) return listFiller(input, input.list);
  const { datatype, columns } = input;
  const read = cellReader(datatype, missing);
  const width = columns.length;
  const isText = datatype === 'BYTES';
  // No decimal of so few digits is too large for these.
  const isWide = datatype === 'FP32' || datatype === 'FP64';
  const ofEmpty = columns.map((column) => failure('INVALID_DATA', refusal(column, datatype, null)));
  return (rows) => {
    const data = allocate(datatype, rows * width);
    const write = (row: number, column: number, cell: unknown): Failure | undefined => {
      const value = read(cell);
      if (value === undefined) {
        return cell === null
          ? ofEmpty[column]
          : failure('INVALID_DATA', refusal(columns[column] as string, datatype, cell));
      }
      data[row * width + column] = value as never;
      return undefined;
    };
    const writeDecimal: Filling['writeDecimal'] = (row, column, decimal) => {
      const value = isText ? undefined : isWide ? decimal : read(decimal);
      if (value === undefined) return false;
      data[row * width + column] = value as never;
      return true;
    };
    return { filled: { input, data, width }, write, writeDecimal };
  };
}

function listFiller(input: InputColumns, spec: TensorSpec): (rows: number) => Filling {
  const { datatype, columns } = input;
  const [column = ''] = columns;
  const read = cellReader(datatype, undefined);
  const refuse = (cell: unknown, element: number): Failure =>
    failure(
      'INVALID_DATA',
      `column '${column}': expected values of ${datatype}, got ${preview(cell)} at element ${element}; fix that row`,
    );
  return () => {
    let data = allocate(datatype, 0);
    let used = 0;
    const starts: number[] = [];
    const shapes: (readonly number[])[] = [];
    const write = (row: number, _: number, cell: unknown): Failure | undefined => {
      const value = typeof cell === 'string' ? listIn(cell) : cell;
      if (isEmpty(value) || value === NO_LIST) return failure('INVALID_DATA', refusal(column, datatype, cell));
      const shape = rowShape(spec, value);
      if ('code' in shape) return shape;
      const end = used + elementCount(shape);
      if (end > data.length) data = grown(data, datatype, end);
      const elements = Array.isArray(value) ? flat(value, shape.slice(1)) : [value];
      if (elements === undefined) {
        const message = `column '${column}': expected lists of one length within each other, got others; fix that row`;
        return failure('INVALID_SHAPE', message);
      }
      for (const [at, element] of elements.entries()) {
        const one = read(element);
        if (one === undefined) return refuse(element, at);
        data[used + at] = one as never;
      }
      starts[row] = used;
      shapes[row] = shapeInModel(spec, shape);
      used = end;
      return undefined;
    };
    return {
      filled: {
        input,
        width: elementCount(input.shape),
        get data() {
          return data;
        },
        lists: { shapes, starts },
      },
      write,
      writeDecimal: () => false,
    };
  };
}

function grown(data: TensorData, datatype: Datatype, length: number): TensorData {
  const room = allocate(datatype, Math.max(length, 2 * data.length));
  copyInto(room, 0, data);
  return room;
}

/** Returns the elements of a list, or of lists of `sizes` within each other; undefined if one has another size. */
function flat(list: readonly unknown[], sizes: readonly number[]): readonly unknown[] | undefined {
  if (!Array.isArray(list[0])) return list;
  const [, ...inner] = sizes;
  const parts = list.map((one) => (Array.isArray(one) && one.length === inner[0] ? flat(one, inner) : undefined));
  return parts.includes(undefined) ? undefined : parts.flat();
}

const NO_LIST = Symbol('no list');

/** Returns what a cell of CSV says: a list as JSON has it, whole numbers as exact as they are written, or the text. */
function listIn(text: string): unknown {
  if (!text.trimStart().startsWith('[')) return text;
  const value = isShallow(text) ? parseIfJson(text) : undefined;
  if (!Array.isArray(value)) return NO_LIST;
  return isExact(value) ? value : exactly(text);
}

/** Rows of CSV that share arrays, and bytes that these may have: some rows may outlive the others. */
const ROWS_A_TABLE = 512;
const BYTES_A_TABLE = 1024 * 1024;
/** Bytes that a value is taken for, whatever it is. */
const BYTES_A_VALUE = 8;

/** Reads lines of CSV as rows of tables. A line that is no row, or has a cell that is no value, is a row that failed. */
export function rowsOfFields({
  columns = [],
  inputs = [],
  keep,
  separator,
  missing,
}: Pick<JobHead, 'columns' | 'inputs' | 'keep' | 'separator' | 'missing'>): LineReader {
  const placeOf = new Map(columns.map((name, place) => [name, place]));
  const readers = inputs.map((input) => ({
    places: input.columns.map((name) => placeOf.get(name) ?? -1),
    fill: inputFiller(input, missing),
  }));
  const keptPlaces = keep.map((name) => placeOf.get(name) ?? -1);
  const elements = inputs.reduce((sum, input) => sum + input.columns.length, 0);
  const size = Math.max(1, Math.min(ROWS_A_TABLE, Math.floor(BYTES_A_TABLE / (BYTES_A_VALUE * elements))));
  let table = newTable();
  let used = 0;

  function newTable() {
    const fillings = readers.map(({ fill }) => fill(size));
    return {
      inputs: fillings.map(({ filled }) => filled),
      kept: keep.map((name) => [name, [] as string[]] as const),
      fillings,
    };
  }

  const cut = fieldCutter(columns.length, separator);

  return (line, id) => {
    const fields = line.includes(QUOTE) ? fieldsOf(line, separator) : undefined;
    const found = fields?.length ?? (line.includes(QUOTE) ? undefined : cut.at(line));
    if (found !== columns.length) return { id, text: '', failed: noRow(columns.length, found) };
    if (used === size) {
      table = newTable();
      used = 0;
    }
    const at = used++;
    const fieldAt = (place: number): string => fields?.[place] ?? line.slice(cut.startOf(place), cut.endOf(place));
    for (let index = 0; index < keptPlaces.length; index++) {
      table.kept[index]?.[1].push(fieldAt(keptPlaces[index] as number));
    }
    let failed: Failure | undefined;
    for (let input = 0; input < readers.length && failed === undefined; input++) {
      const { places } = readers[input] as (typeof readers)[number];
      const filling = table.fillings[input] as Filling;
      for (let column = 0; column < places.length && failed === undefined; column++) {
        const place = places[column] as number;
        const decimal = fields === undefined ? cut.decimalOf(place) : Number.NaN;
        if (Number.isNaN(decimal) || !filling.writeDecimal(at, column, decimal)) {
          failed = filling.write(at, column, fieldAt(place));
        }
      }
    }
    return new TableRow(id, table, at, failed);
  };
}

/** Decimal digits that a double always holds. */
const EXACT_DIGITS = 15;
const POWER_OF_TEN = Float64Array.from({ length: EXACT_DIGITS + 1 }, (_, exponent) => Number(`1e${exponent}`));
const MINUS = 45;
const POINT = 46;
const ZERO = 48;

/**
 * Finds the fields of lines without quotes, one line at a time, and reads those that are plain decimals, such as -12.5,
 * without creating a text for them. One division of two whole numbers that doubles hold rounds correctly, so the number
 * is the one that `Number` returns.
 *
 * @see https://www.exploringbinary.com/fast-path-decimal-to-floating-point-conversion/
 */
function fieldCutter(columns: number, separator = ',') {
  const code = separator.charCodeAt(0);
  const ends = new Int32Array(columns);
  const decimals = new Float64Array(columns);
  return {
    /** Returns the number of fields. */
    at(line: string): number {
      let fields = 0;
      let isPlain = true;
      let isNegative = false;
      let whole = 0;
      let digits = 0;
      /** Digits before the point, or -1. */
      let before = -1;
      let start = 0;
      for (let place = 0; place <= line.length; place++) {
        const character = place < line.length ? line.charCodeAt(place) : code;
        const digit = character - ZERO;
        if (character === code) {
          const size = before < 0 ? whole : whole / (POWER_OF_TEN[digits - before] as number);
          decimals[fields] = isPlain && digits > 0 && digits <= EXACT_DIGITS ? (isNegative ? -size : size) : Number.NaN;
          ends[fields++] = place;
          start = place + 1;
          [isPlain, isNegative, whole, digits, before] = [true, false, 0, 0, -1];
        } else if (digit >= 0 && digit <= 9) {
          whole = whole * 10 + digit;
          digits += 1;
        } else if (character === POINT && before < 0) before = digits;
        else if (character === MINUS && place === start) isNegative = true;
        else isPlain = false;
      }
      return fields;
    },
    startOf: (place: number): number => (place === 0 ? 0 : (ends[place - 1] as number) + 1),
    endOf: (place: number): number => ends[place] as number,
    /** Returns the decimal in a field, or NaN if something else is there. */
    decimalOf: (place: number): number => decimals[place] as number,
  };
}

function noRow(expected: number, got: number | undefined) {
  const what = got === undefined ? 'a quoted field that does not end' : `${got}`;
  return failure(
    'INVALID_REQUEST',
    `line: expected ${plural(expected, 'field')}, as many as the header has, got ${what}; fields hold no line breaks`,
  );
}
