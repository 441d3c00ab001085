import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { ByteWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer';
import type { TensorSpec } from '../../lambda/core/model.ts';
import { DATATYPES, type Datatype, elementCount } from '../../lambda/core/tensor.ts';
import type { Format, JobHead } from '../../lambda/jobs/jobTypes.ts';
import { spanOf } from '../../lambda/jobs/parquetFooter.ts';
import { type PieceRow, withKept } from '../../lambda/jobs/rowRequests.ts';
import { TableRow } from '../../lambda/jobs/tableRows.ts';
import { type RowResult, TableResult } from '../../lambda/jobs/tableScores.ts';

/** Returns the format of a results file by the extension of its name. The default is lines of JSON. */
export function formatOfResults(path = ''): Format {
  if (/\.csv$/i.test(path)) return 'csv';
  return /\.(parquet|pq)$/i.test(path) ? 'parquet' : 'jsonl';
}

/** Writer of a results file: its head, its rows, and its end. */
export interface ResultFile {
  readonly head: string;
  rows(results: readonly RowOut[]): readonly (string | Uint8Array)[];
  end(): string | Uint8Array;
  /**
   * Prepares to continue a results file whose rows and end are written.
   *
   * @param bytes size of the file
   * @returns the number of bytes to keep. The bytes after them are written again.
   * @throws Error if the file has no end
   */
  resume(path: string, bytes: number): Promise<number>;
}

const asIs = async (_: string, bytes: number): Promise<number> => bytes;

/** Row and its result. The text in a job's results includes the kept columns. */
export interface RowOut {
  readonly result: Pick<RowResult, 'text'>;
  readonly row?: PieceRow | undefined;
}

function textIn({ result, row }: RowOut): string {
  return withKept(result.text, row?.kept);
}

/**
 * Creates a writer. A table has a row for each row of the input file, and a requests file may have many results per
 * row.
 *
 * @param outputs outputs in each result
 * @param kept names of the columns that are copied to the results
 */
export function createResultFile(format: Format, outputs: Outputs, kept: readonly string[]): ResultFile {
  if (format === 'parquet') return parquetResults(outputs, kept);
  if (format === 'csv') return csvResults(outputs, kept);
  return { head: '', rows: (results) => joinLines(results.map(textIn)), end: () => '', resume: asIs };
}

type Outputs = NonNullable<JobHead['outputs']>;

function csvResults(outputs: Outputs, kept: readonly string[]): ResultFile {
  const { columns, outputs: outputColumns, cellsOfResult } = resultColumns(outputs, kept);
  const areFloats = columns.map(({ datatype }) => isFloat(datatype));
  const writers = outputColumns.map(cellsWriter);
  const lineOf = (out: RowOut): string => {
    const { row, result } = out;
    if (row instanceof TableRow && result instanceof TableResult) return lineOfTable(row, result, writers);
    const cells = cellsOfResult(out);
    return cells.map((cell, at) => cellOf(cell, areFloats[at])).join(',');
  };
  return {
    head: `${columns.map(({ name }) => cellOf(name)).join(',')}\n`,
    rows: (results) => joinLines(results.map(lineOf)),
    end: () => '',
    resume: asIs,
  };
}

/**
 * Formats the line of a row that shared a request. It is separate because most rows are of this kind, and it builds
 * only the texts that they need.
 */
function lineOfTable(row: TableRow, result: TableResult, writers: readonly CellsWriter[]): string {
  let line = row.id;
  for (const value of row.keptValues()) line += `,${cellOf(value)}`;
  for (const write of writers) line += write(result);
  return `${line},,`;
}

/** Formats the cells of one output, each after a comma. */
type CellsWriter = (result: TableResult) => string;

function cellsWriter(output: OutputColumns): CellsWriter {
  const { name, elements } = output;
  if (elements === undefined) {
    return (result) =>
      cellsOf(output, result.valuesOf(name))
        .map((cell) => `,${cellOf(cell)}`)
        .join('');
  }
  const datatype = output.columns[0]?.datatype;
  const isText = datatype === undefined || DATATYPES[datatype].kind === 'string';
  const formatted = isText ? cellOf : isFloat(datatype) ? floatCell : String;
  return (result) => {
    const { texts, width, start } = result.textsOf(name) ?? { texts: [], width: 0, start: 0 };
    if (width !== elements) throw otherWidth(output, width);
    let cells = '';
    for (let at = start; at < start + width; at++) cells += `,${formatted(texts[at] as string)}`;
    return cells;
  };
}

function floatCell(text: string): string {
  return INFINITIES.get(text) ?? text;
}

function isFloat(datatype: Datatype | undefined): boolean {
  return datatype !== undefined && DATATYPES[datatype].kind === 'float';
}

/** Maximum characters in one text. V8 limits a string to about 500 million. */
const PIECE_CHARACTERS = 64 * 1024 * 1024;

function joinLines(lines: readonly string[]): string[] {
  const pieces: string[] = [];
  let [from, characters] = [0, 0];
  for (const [index, { length }] of lines.entries()) {
    if (index > from && characters + length > PIECE_CHARACTERS) {
      pieces.push(`${lines.slice(from, index).join('\n')}\n`);
      [from, characters] = [index, 0];
    }
    characters += length;
  }
  if (from < lines.length) pieces.push(`${lines.slice(from).join('\n')}\n`);
  return pieces;
}

const CELLS_A_GROUP = 100_000;

function parquetResults(outputs: Outputs, kept: readonly string[]): ResultFile {
  const { columns, cellsOfResult } = resultColumns(outputs, kept);
  const table = columns.map(({ name, datatype = 'BYTES' }) => ({
    name,
    ...PARQUET_TYPES[datatype],
    data: [] as unknown[],
  }));
  const writer = new ByteWriter();
  const parquet = new ParquetWriter({ writer, schema: schemaFromColumnData({ columnData: table }) });
  const taken = (): Uint8Array => {
    const bytes = writer.getBytes().slice();
    writer.index = 0;
    return bytes;
  };
  const groupRows = Math.ceil(CELLS_A_GROUP / columns.length);
  const writeGroup = (): void => {
    const rows = table[0]?.data.length ?? 0;
    // A later run that continues this file reads its footer with hyparquet. The footer has only fields that hyparquet
    // reads.
    const columnData = table.map(({ name, data, type }) => {
      return { name, data, offsetIndex: false, statistics: type !== 'FLOAT' && type !== 'DOUBLE' };
    });
    if (rows > 0) parquet.write({ columnData, rowGroupSize: rows });
    for (const column of table) column.data = [];
  };
  return {
    head: '',
    rows(results) {
      for (const out of results) {
        const cells = cellsOfResult(out);
        for (const [at, { data, of }] of table.entries())
          data.push(cells[at] === undefined || cells[at] === null ? null : of(cells[at]));
        if ((table[0]?.data.length ?? 0) >= groupRows) writeGroup();
      }
      return [taken()];
    },
    end() {
      writeGroup();
      parquet.finish();
      return taken();
    },
    async resume(path, bytes) {
      const { slice } = await asyncBufferFromFile(path);
      const file = { byteLength: bytes, slice: (start: number, end = bytes) => slice(start, end) };
      const metadata = await parquetMetadataAsync(file);
      const whole = metadata.row_groups.filter(({ num_rows: rows }) => Number(rows) === groupRows);
      parquet.row_groups = whole;
      parquet.num_rows = BigInt(whole.length * groupRows);
      // The last group was not full. Its rows become the first rows of the next group.
      for (const row of await parquetReadObjects({ file, metadata, rowStart: whole.length * groupRows })) {
        for (const { name, data } of table) data.push(row[name]);
      }
      const [rest] = metadata.row_groups.slice(whole.length);
      const about = rest?.columns[0]?.meta_data;
      writer.offset = about === undefined ? bytes - metadata.metadata_length - 8 : spanOf(about).start;
      writer.index = 0;
      return writer.offset;
    },
  };
}

const INT32 = { type: 'INT32', of: Number } as const;
const INT64 = { type: 'INT64', of: (cell: unknown) => BigInt(String(cell)) } as const;
const FLOAT = { type: 'FLOAT', of: Number } as const;
const TEXT = { type: 'STRING', of: textOf } as const;
/** Parquet type of each datatype, and the conversion of a JSON value to it. */
const PARQUET_TYPES = {
  BOOL: { type: 'BOOLEAN', of: Boolean },
  UINT8: INT32,
  UINT16: INT32,
  UINT32: INT64,
  // No numeric type of Parquet can hold all values here.
  UINT64: TEXT,
  INT8: INT32,
  INT16: INT32,
  INT32,
  INT64,
  FP16: FLOAT,
  FP32: FLOAT,
  FP64: { type: 'DOUBLE', of: Number },
  BYTES: TEXT,
} as const satisfies Record<Datatype, { readonly type: string; readonly of: (cell: unknown) => unknown }>;

interface OutputColumns {
  readonly name: string;
  /** Number of elements. Undefined if the output is one cell of JSON. */
  readonly elements: number | undefined;
  readonly columns: readonly ResultColumn[];
}

interface Result {
  readonly message_id: string;
  readonly code?: string;
  readonly error?: string;
  readonly outputs?: readonly { readonly name: string; readonly data: readonly unknown[] }[];
  readonly result?: unknown;
  readonly kept?: Readonly<Record<string, unknown>>;
}

/** Maximum number of columns per output. An output with more elements per row is one cell. */
const MAX_COLUMNS = 1024;
/** Output name for the result of a transform. */
const OWN_RESULT = 'result';

/** Column of results: one element of an output, or a text. */
interface ResultColumn {
  readonly name: string;
  readonly datatype: Datatype | undefined;
}

/**
 * Returns the columns of results with a line for each row: `message_id`, the kept columns, one column for each element
 * of an output (`probabilities.0`, `probabilities.1`, …), `code` and `error`. The last two are empty if the row has
 * scores. An output with more axes, with an open one, or with more than `MAX_COLUMNS` elements is one cell of JSON.
 *
 * @param kept names of the columns that are copied to the results
 */
function resultColumns(given: Outputs, kept: readonly string[]) {
  const names = new Set(kept);
  const [idName, ...errorNames] = ['message_id', 'code', 'error'].map((name) => takeName(name, 'result', names));
  const hasOwnForm = given === 'own';
  const outputs = hasOwnForm ? [] : given.map((spec) => columnsOf(spec, names));
  const own = hasOwnForm ? [takeName(OWN_RESULT, 'output', names)] : [];
  const textColumn = (name = ''): ResultColumn => ({ name, datatype: undefined });
  const columns = [
    ...[idName, ...kept].map(textColumn),
    ...outputs.flatMap((output) => output.columns),
    ...[...own, ...errorNames].map(textColumn),
  ];
  const cellsOfResult = (out: RowOut): readonly unknown[] => {
    const { row, result: found } = out;
    if (row instanceof TableRow && found instanceof TableResult) {
      const cells: unknown[] = [row.id, ...row.keptValues()];
      for (const output of outputs) cells.push(...cellsOf(output, found.valuesOf(output.name)));
      cells.push(undefined, undefined);
      return cells;
    }
    const {
      message_id: id,
      code,
      error,
      outputs: scores,
      result,
      kept: carried = {},
    }: Result = JSON.parse(textIn(out));
    return [
      id,
      ...kept.map((name) => (Object.hasOwn(carried, name) ? carried[name] : undefined)),
      ...outputs.flatMap((output) => cellsOf(output, scores?.find(({ name }) => name === output.name)?.data)),
      ...(hasOwnForm ? [result] : []),
      code,
      error,
    ];
  };
  return { columns, outputs, cellsOfResult };
}

function columnsOf({ name, shape, datatype }: TensorSpec, names: Set<string>): OutputColumns {
  const row = shape.slice(1);
  const axes = row.filter((size) => size !== 1);
  const isVector = shape.length > 0 && axes.length < 2 && axes.every((size) => typeof size === 'number');
  const elements = elementCount(axes as number[]);
  const isOneCell = !isVector || elements > MAX_COLUMNS;
  const columns =
    isOneCell || axes.length === 0 ? [name] : Array.from({ length: elements }, (_, index) => `${name}.${index}`);
  return {
    name,
    elements: isOneCell ? undefined : elements,
    columns: columns.map((column) => ({
      name: takeName(column, 'output', names),
      datatype: isOneCell ? undefined : datatype,
    })),
  };
}

/** Returns a unique column name. A kept column keeps its name, and any other column with that name gets a prefix. */
function takeName(name: string, prefix: 'output' | 'result', names: Set<string>): string {
  if (names.has(name)) return takeName(`${prefix}.${name}`, prefix, names);
  names.add(name);
  return name;
}

function cellsOf({ name, elements, columns }: OutputColumns, data: readonly unknown[] | undefined): readonly unknown[] {
  if (data === undefined) return columns.map(() => undefined);
  if (elements === undefined) return [data];
  if (data.length === elements) return data;
  throw otherWidth({ name, elements }, data.length);
}

function otherWidth({ name, elements }: Pick<OutputColumns, 'name' | 'elements'>, got: number): Error {
  return new Error(
    `output '${name}': expected ${elements} elements a row, as the model says, got ${got}; write the results ` +
      'as lines of JSON',
  );
}

/** Spellings that NumPy reads and writes. */
const INFINITIES = new Map<unknown, string>([
  ['Infinity', 'inf'],
  ['-Infinity', '-inf'],
]);

/** Formats arrays and objects as JSON, and other values as text. */
function textOf(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Formats a cell of CSV, in quotes if necessary. @see https://www.rfc-editor.org/rfc/rfc4180 */
function cellOf(value: unknown, isFloat = false): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = (isFloat && INFINITIES.get(value)) || textOf(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
