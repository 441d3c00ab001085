import { type Failure, failure, plural } from '../core/failure.ts';
import { allocate, copyInto, elementCount, encodeRaw, type TensorData, viewOf } from '../core/tensor.ts';
import type { InputColumns, JobHead } from './jobTypes.ts';
import { cellReader, fieldsOf, jsonValue, type LineReader, type PieceRow, refusal } from './rowRequests.ts';

/** Rows of a file with columns: elements of the model's inputs, and values of the columns that are kept. */
export interface Table {
  readonly inputs: readonly TableInput[];
  readonly kept: readonly (readonly [name: string, values: ArrayLike<unknown>])[];
}

/** Elements of one input, row after row. */
export interface TableInput {
  readonly input: Pick<InputColumns, 'input' | 'datatype' | 'shape'>;
  readonly data: TensorData;
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
    for (const { input, data } of this.table.inputs) {
      const width = elementCount(input.shape);
      if (!Array.isArray(data)) bytes += width * data.BYTES_PER_ELEMENT;
      else for (let at = this.at * width; at < (this.at + 1) * width; at++) bytes += lengthOf(data[at]);
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
 * @param rows at least one, none of which failed; several only for inputs with the batch axis at 0
 * @param isBinary whether the answer is to be binary too
 */
export function requestOfRows(rows: readonly TableRow[], isBinary: boolean): string {
  const inputs = (rows[0] as TableRow).table.inputs.map(({ input }) => input);
  const specs = inputs.map(({ input, datatype, shape }) => {
    const sizes = rows.length === 1 ? shape : shape.with(0, rows.length);
    return `{"name":${JSON.stringify(input)},"datatype":"${datatype}","shape":[${sizes.join(',')}]}`;
  });
  const contents = inputs.map((input, index) => encodeRaw(gather(rows, input, index)));
  return (
    `{"inputs":[${specs.join(',')}],"parameters":{"binary_data_output":${isBinary}},` +
    `"raw_input_contents":["${contents.join('","')}"]}`
  );
}

/** Elements of one input of all rows. Rows that lie together are copied together. */
function gather(rows: readonly TableRow[], { datatype, shape }: TableInput['input'], input: number): TensorData {
  const width = elementCount(shape);
  const all = allocate(datatype, rows.length * width);
  for (let from = 0; from < rows.length; ) {
    const { table, at } = rows[from] as TableRow;
    let to = from + 1;
    while (rows[to]?.table === table && rows[to]?.at === at + to - from) to += 1;
    const { data } = table.inputs[input] as TableInput;
    copyInto(all, from * width, viewOf(data, at * width, (at + to - from) * width));
    from = to;
  }
  return all;
}

/** Bytes of elements that one request has at the most, unless one row has more. */
const BYTES_A_REQUEST = 4 * 1024 * 1024;

/**
 * Cuts rows into those that share a request. The first row is a request of its own, so that the scorer has requests to
 * compare with runs of them alone.
 *
 * @param maxRows of a request
 */
export function cutIntoRequests(rows: readonly TableRow[], maxRows: number): (readonly TableRow[])[] {
  const chunks = rows.length === 0 ? [] : [rows.slice(0, 1)];
  let max = maxRows - 1;
  for (let from = 1; from < rows.length; ) {
    let to = from;
    for (let bytes = 0; to < rows.length && (to === from || to - from < max) && bytes < BYTES_A_REQUEST; to++) {
      bytes += (rows[to] as TableRow).bytes;
    }
    chunks.push(rows.slice(from, to));
    from = to;
    max = maxRows;
  }
  return chunks;
}

/** Puts a cell into the elements of an input, if it is a value of the input's datatype. @returns why it is not */
export function cellWriter(
  { datatype, columns }: Pick<InputColumns, 'datatype' | 'columns'>,
  missing: string | undefined,
): (data: TensorData, row: number, column: number, cell: unknown) => Failure | undefined {
  const read = cellReader(datatype, missing);
  const width = columns.length;
  const ofEmpty = columns.map((column) => failure('INVALID_DATA', refusal(column, datatype, null)));
  return (data, row, column, cell) => {
    const value = read(cell);
    if (value === undefined) {
      return cell === null
        ? ofEmpty[column]
        : failure('INVALID_DATA', refusal(columns[column] as string, datatype, cell));
    }
    data[row * width + column] = value as never;
    return undefined;
  };
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
    write: cellWriter(input, missing),
  }));
  const keptPlaces = keep.map((name) => placeOf.get(name) ?? -1);
  const elements = inputs.reduce((sum, input) => sum + input.columns.length, 0);
  const size = Math.max(1, Math.min(ROWS_A_TABLE, Math.floor(BYTES_A_TABLE / (BYTES_A_VALUE * elements))));
  let table = newTable();
  let used = 0;

  function newTable() {
    return {
      inputs: inputs.map((input) => ({ input, data: allocate(input.datatype, size * input.columns.length) })),
      kept: keep.map((name) => [name, [] as string[]] as const),
    };
  }

  return (line, id) => {
    const fields = fieldsOf(line, separator);
    if (fields?.length !== columns.length) return { id, text: '', failed: noRow(columns.length, fields?.length) };
    if (used === size) {
      table = newTable();
      used = 0;
    }
    const at = used++;
    for (const [index, place] of keptPlaces.entries()) table.kept[index]?.[1].push(fields[place] as string);
    let failed: Failure | undefined;
    for (let input = 0; input < readers.length; input++) {
      const { places, write } = readers[input] as (typeof readers)[number];
      const { data } = table.inputs[input] as TableInput;
      for (let column = 0; column < places.length; column++) {
        failed ??= write(data, at, column, fields[places[column] as number]);
      }
    }
    return new TableRow(id, table, at, failed);
  };
}

function noRow(expected: number, got: number | undefined) {
  const what = got === undefined ? 'a quoted field that does not end' : `${got}`;
  return failure(
    'INVALID_REQUEST',
    `line: expected ${plural(expected, 'field')}, as many as the header has, got ${what}; fields hold no line breaks`,
  );
}
