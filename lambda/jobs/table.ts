import { type Failure, failure, preview } from '../core/failure.ts';
import { parseIfJson } from '../core/json.ts';
import type { Body, TensorRequest } from '../core/microBatch.ts';
import { shapeInModel, type TensorSpec } from '../core/model.ts';
import { isShallow } from '../core/outline.ts';
import { allocate, copyInto, DATATYPES, type Datatype, elementCount, type TensorData, viewOf } from '../core/tensor.ts';
import type { InputColumns, JobHead } from './jobTypes.ts';
import { type CellReader, cellReader, exactly, isEmpty, isExact, jsonValue, refusal, rowShape } from './rowRequests.ts';
import type { IdPrefix, Rows } from './rows.ts';

/** Elements of one input, row after row. */
interface TableInput {
  readonly input: Pick<InputColumns, 'input' | 'datatype' | 'shape'>;
  readonly data: TensorData;
  /** Elements of a row of the input's shape. */
  readonly width: number;
  /** Shape of each row, and where its elements begin. @default all rows are of the input's shape */
  readonly lists?: { readonly shapes: readonly (readonly number[])[]; readonly starts: readonly number[] } | undefined;
}

interface Columns {
  readonly inputs: readonly TableInput[];
  readonly kept: readonly (readonly [name: string, values: ArrayLike<unknown>])[];
  readonly idOf: (row: number) => string;
  /** Reasons why rows cannot be scored, by row. Their elements are arbitrary. */
  readonly failures: ReadonlyMap<number, Failure>;
}

/** Rows as columns: elements of the model's inputs, and values of the kept columns. */
export class Table implements Rows {
  readonly length: number;
  readonly #columns: Columns;
  /** First row in the columns. */
  readonly #from: number;

  constructor(columns: Columns, length: number, from = 0) {
    this.length = length;
    this.#columns = columns;
    this.#from = from;
  }

  slice(from: number, to = this.length): Table {
    return new Table(this.#columns, to - from, this.#from + from);
  }

  idOf(row: number): string {
    return this.#columns.idOf(this.#from + row);
  }

  failureOf(row: number): Failure | undefined {
    return this.#columns.failures.get(this.#from + row);
  }

  requestOf(row: number): Body {
    return this.failureOf(row) === undefined ? this.requestOfRows([row], 'json') : '';
  }

  keptOf(row: number): string | undefined {
    const at = this.#from + row;
    const { kept } = this.#columns;
    // A line that is no row has no values.
    if (kept.every(([, values]) => values[at] === undefined)) return undefined;
    const entries = kept.map(([name, values]) => `${JSON.stringify(name)}:${jsonOf(values[at])}`);
    return `{${entries.join(',')}}`;
  }

  /** Returns the value of a kept column, as JSON has it. Undefined if the line is no row. */
  keptValue(column: number, row: number): unknown {
    const value = this.#columns.kept[column]?.[1][this.#from + row];
    return value instanceof KeptJson ? JSON.parse(value.text) : jsonValue('', value);
  }

  /** Returns the assumed memory of a row: its elements and kept values. */
  bytesOf(row: number): number {
    const at = this.#from + row;
    let bytes = 0;
    for (const [, values] of this.#columns.kept) bytes += lengthOf(values[at]);
    for (const input of this.#columns.inputs) {
      const { data } = input;
      const width = widthOf(input, at);
      if (!Array.isArray(data)) bytes += width * data.BYTES_PER_ELEMENT;
      else {
        const start = startOf(input, at, width);
        for (let index = start; index < start + width; index++) bytes += lengthOf(data[index]);
      }
    }
    return bytes;
  }

  /**
   * Returns rows as one request.
   *
   * @param rows at least one, without failures and of the same shapes. Several only for inputs with the batch axis at 0
   */
  requestOfRows(rows: readonly number[], reply: TensorRequest['reply']): TensorRequest {
    const inputs = this.#columns.inputs.map((one) => {
      const { input: name, datatype } = one.input;
      const shape = shapeOf(one, this.#from + (rows[0] as number));
      const data = this.#elementsOf(one, rows);
      return { name, datatype, shape: rows.length === 1 ? shape : shape.with(0, rows.length), data };
    });
    return { inputs, reply };
  }

  /** Returns the elements of one input in some rows. Neighbours are copied together, and not at all if they are all. */
  #elementsOf(input: TableInput, rows: readonly number[]): TensorData {
    const width = widthOf(input, this.#from + (rows[0] as number));
    let all: TensorData | undefined;
    for (let from = 0; from < rows.length; ) {
      const row = rows[from] as number;
      let to = from + 1;
      while (rows[to] === row + to - from) to += 1;
      const start = startOf(input, this.#from + row, width);
      const some = viewOf(input.data, start, start + (to - from) * width);
      if (to - from === rows.length) return some;
      all ??= allocate(input.input.datatype, rows.length * width);
      copyInto(all, from * width, some);
      from = to;
    }
    return all as TensorData;
  }

  /**
   * Cuts the rows without failures into those that share a request: neighbours whose lists have the same shapes. The
   * first row is a request of its own, so that the scorer has requests to compare with runs of them alone.
   *
   * @param maxRows of a request
   */
  cutIntoRequests(maxRows: number): readonly (readonly number[])[] {
    const requests: number[][] = [];
    let [last, bytes, max]: [number[], number, number] = [[], 0, 1];
    for (let row = 0; row < this.length; row++) {
      if (this.failureOf(row) !== undefined) continue;
      if (last.length >= max || bytes >= BYTES_A_REQUEST || !this.#areAlike(last[0] ?? row, row)) {
        max = requests.length === 1 ? maxRows - 1 : maxRows;
        [last, bytes] = [[], 0];
      }
      if (last.push(row) === 1) requests.push(last);
      bytes += this.bytesOf(row);
    }
    return requests;
  }

  #areAlike(one: number, other: number): boolean {
    return this.#columns.inputs.every(({ lists }) => {
      if (lists === undefined) return true;
      const [shape, expected] = [lists.shapes[this.#from + other], lists.shapes[this.#from + one]];
      return shape === expected || shape?.every((size, axis) => size === expected?.[axis]);
    });
  }
}

function shapeOf({ input, lists }: TableInput, at: number): readonly number[] {
  return lists?.shapes[at] ?? input.shape;
}

/** Returns the number of elements of a row. */
function widthOf(input: TableInput, at: number): number {
  return input.lists === undefined ? input.width : elementCount(shapeOf(input, at));
}

function startOf({ lists }: TableInput, at: number, width: number): number {
  return lists === undefined ? at * width : (lists.starts[at] ?? 0);
}

/** Assumed memory of a value that is no text. */
const BYTES_A_VALUE = 8;

function lengthOf(value: unknown): number {
  if (value instanceof KeptJson) return value.text.length;
  return typeof value === 'string' || value instanceof Uint8Array ? value.length : BYTES_A_VALUE;
}

/** List or object of a kept column. It is written several times, and rows may share it. */
class KeptJson {
  readonly text: string;

  constructor(value: object) {
    this.text = JSON.stringify(value, jsonValue);
  }
}

function jsonOf(value: unknown): string {
  return value instanceof KeptJson ? value.text : JSON.stringify(jsonValue('', value));
}

/** Maximum bytes of elements in one request, unless one row has more. */
const BYTES_A_REQUEST = 4 * 1024 * 1024;

export type TableOptions = Pick<JobHead, 'keep' | 'missing'> & IdPrefix;

/** Table that is filled row after row, or column after column. */
export class TableBuilder {
  /** Model inputs, in order. */
  readonly inputs: readonly Filling[];
  readonly #kept: readonly (readonly [name: string, values: unknown[]])[];
  readonly #ids: number[] = [];
  readonly #idPrefix: string;
  readonly #failures = new Map<number, Failure>();
  #last: { readonly value: object; readonly json: KeptJson } | undefined;

  constructor(inputs: readonly InputColumns[], { keep, missing, idPrefix = '' }: TableOptions) {
    this.#idPrefix = idPrefix;
    this.inputs = inputs.map((input) => fillingOf(input, missing));
    this.#kept = keep.map((name) => [name, []]);
  }

  /** Number of rows. */
  get length(): number {
    return this.#ids.length;
  }

  /** Begins a row. Returns its place. */
  add(id: number): number {
    for (const [, values] of this.#kept) values.push(undefined);
    return this.#ids.push(id) - 1;
  }

  /** Sets the reason why a row cannot be scored, unless it has one. */
  fail(row: number, failed: Failure): void {
    if (!this.#failures.has(row)) this.#failures.set(row, failed);
  }

  /** Writes the cells of some rows into one column of an input. */
  writeColumn(index: number, column: number, from: number, cells: ArrayLike<unknown>): void {
    const input = this.inputs[index] as Filling;
    for (let at = 0; at < cells.length; at++) {
      const cell = cells[at];
      if (typeof cell === 'number' && input.writeNumber(from + at, column, cell)) continue;
      const failed = input.write(from + at, column, cell);
      if (failed !== undefined) this.fail(from + at, failed);
    }
  }

  keep(row: number, column: number, value: unknown): void {
    const isJson = typeof value === 'object' && value !== null && !(value instanceof Uint8Array);
    (this.#kept[column]?.[1] as unknown[])[row] = isJson ? this.#jsonOf(value) : (value ?? null);
  }

  #jsonOf(value: object): KeptJson {
    if (value !== this.#last?.value) this.#last = { value, json: new KeptJson(value) };
    return this.#last.json;
  }

  finish(): Table {
    const [ids, idPrefix, failures] = [this.#ids, this.#idPrefix, this.#failures];
    const inputs = this.inputs.map((input) => input.filled());
    return new Table({ inputs, kept: this.#kept, idOf: (row) => `${idPrefix}${ids[row]}`, failures }, ids.length);
  }
}

/** Input that is filled cell by cell. */
interface Filling {
  /** Writes a cell. Returns the reason if it is no value of the input. */
  write(row: number, column: number, cell: unknown): Failure | undefined;
  /** Does the same with a number, without a failure. Returns false if the input does not take it. */
  writeNumber(row: number, column: number, number: number): boolean;
  filled(): TableInput;
}

function fillingOf(input: InputColumns, missing: string | undefined): Filling {
  return input.list === undefined ? new CellFilling(input, missing) : new ListFilling(input, input.list);
}

/** Input of one cell for each element. */
class CellFilling implements Filling {
  readonly #input: InputColumns;
  readonly #width: number;
  readonly #read: CellReader;
  readonly #isFloat: boolean;
  #data: TensorData;

  constructor(input: InputColumns, missing: string | undefined) {
    const { datatype, columns } = input;
    this.#input = input;
    this.#width = columns.length;
    this.#read = cellReader(datatype, missing);
    this.#isFloat = DATATYPES[datatype].kind === 'float';
    this.#data = allocate(datatype, 0);
  }

  write(row: number, column: number, cell: unknown): Failure | undefined {
    const value = this.#read(cell);
    if (value === undefined) {
      const { columns, datatype } = this.#input;
      return failure('INVALID_DATA', refusal(columns[column] as string, datatype, cell));
    }
    this.#put(row * this.#width + column, value);
    return undefined;
  }

  writeNumber(row: number, column: number, number: number): boolean {
    const at = row * this.#width + column;
    const value = this.#isFloat ? number : this.#read(number);
    if (value === undefined) return false;
    this.#put(at, value);
    return !this.#isFloat || Number.isFinite(this.#data[at]) || !Number.isFinite(number);
  }

  #put(at: number, value: number | bigint | string): void {
    if (at >= this.#data.length) this.#data = grown(this.#data, this.#input.datatype, at + 1);
    this.#data[at] = value as never;
  }

  filled(): TableInput {
    return { input: this.#input, data: this.#data, width: this.#width };
  }
}

/** Input of one list for each row. */
class ListFilling implements Filling {
  readonly #input: InputColumns;
  readonly #spec: TensorSpec;
  readonly #read: CellReader;
  readonly #starts: number[] = [];
  readonly #shapes: (readonly number[])[] = [];
  #data: TensorData;
  #used = 0;

  constructor(input: InputColumns, spec: TensorSpec) {
    this.#input = input;
    this.#spec = spec;
    this.#read = cellReader(input.datatype, undefined);
    this.#data = allocate(input.datatype, 0);
  }

  write(row: number, _: number, cell: unknown): Failure | undefined {
    const {
      datatype,
      columns: [column = ''],
    } = this.#input;
    const value = typeof cell === 'string' ? listIn(cell) : cell;
    if (isEmpty(value) || value === NO_LIST) return failure('INVALID_DATA', refusal(column, datatype, cell));
    const shape = rowShape(this.#spec, value);
    if ('code' in shape) return shape;
    const end = this.#used + elementCount(shape);
    if (end > this.#data.length) this.#data = grown(this.#data, datatype, end);
    const elements = Array.isArray(value) ? flat(value, shape.slice(1)) : [value];
    if (elements === undefined) {
      const message = `column '${column}': expected lists of one length within each other, got others; fix that row`;
      return failure('INVALID_SHAPE', message);
    }
    for (const [at, element] of elements.entries()) {
      const one = this.#read(element);
      if (one === undefined) return refuseElement(column, datatype, element, at);
      this.#data[this.#used + at] = one as never;
    }
    this.#starts[row] = this.#used;
    this.#shapes[row] = shapeInModel(this.#spec, shape);
    this.#used = end;
    return undefined;
  }

  writeNumber(): boolean {
    return false;
  }

  filled(): TableInput {
    const lists = { shapes: this.#shapes, starts: this.#starts };
    return { input: this.#input, data: this.#data, width: elementCount(this.#input.shape), lists };
  }
}

function refuseElement(column: string, datatype: Datatype, element: unknown, at: number): Failure {
  const wrong = `expected values of ${datatype}, got ${preview(element)} at element ${at}`;
  return failure('INVALID_DATA', `column '${column}': ${wrong}; fix that row`);
}

const ELEMENTS_AT_FIRST = 256;

function grown(data: TensorData, datatype: Datatype, length: number): TensorData {
  const room = allocate(datatype, Math.max(ELEMENTS_AT_FIRST, length, 2 * data.length));
  copyInto(room, 0, data);
  return room;
}

/** Returns the elements of a list, or of lists of `sizes` within each other. Undefined if one has another size. */
function flat(list: readonly unknown[], sizes: readonly number[]): readonly unknown[] | undefined {
  if (!Array.isArray(list[0])) return list;
  const [, ...inner] = sizes;
  const parts = list.map((one) => (Array.isArray(one) && one.length === inner[0] ? flat(one, inner) : undefined));
  return parts.includes(undefined) ? undefined : parts.flat();
}

const NO_LIST = Symbol('no list');

/** Reads a cell of CSV: a list as in JSON, with whole numbers exactly as written, or the text. */
function listIn(text: string): unknown {
  if (!text.trimStart().startsWith('[')) return text;
  const value = isShallow(text) ? parseIfJson(text) : undefined;
  if (!Array.isArray(value)) return NO_LIST;
  return isExact(value) ? value : exactly(text);
}
