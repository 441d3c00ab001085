import { givesOwnForm, type ModelDescription, type TensorSpec } from '../core/model.ts';
import { DATATYPES, type Datatype, elementCount, elementsPerRow, type Tensor } from '../core/tensor.ts';
import { encodeData } from '../core/values.ts';
import { type Format, JobError } from './jobFiles.ts';
import type { JobHead } from './jobTypes.ts';
import { documentVisitor, type Results, type ResultVisitor, type SharedScores, visitResults } from './results.ts';
import { withKept } from './rows.ts';

/** Returns the format of a results file by the extension of its name. The default is lines of JSON. */
export function formatOfResults(path = ''): Format {
  if (/\.csv$/i.test(path)) return 'csv';
  return /\.(parquet|pq)$/i.test(path) ? 'parquet' : 'jsonl';
}

/** Files of other programs, which cannot be written. */
export function isOtherTable(path: string): boolean {
  return /\.(xlsx?|xlsm|ods|numbers|arrow|feather|orc|avro|sqlite|db)$/i.test(path);
}

/** Writer of a results file: its head, its rows, and its end. */
export interface ResultFile {
  readonly head: string;
  /** Characters, or bytes, that were added since the last `take`. Values of a Parquet table count as eight bytes. */
  readonly size: number;
  /**
   * Adds results.
   *
   * @param from first row to add
   * @param isFull asked after each row; true ends it. @default adds all
   * @returns the first row that is not added
   */
  add(results: Results, from?: number, isFull?: () => boolean): number;
  /** Returns what was added. Parquet keeps rows until they fill a row group. */
  take(): readonly (string | Uint8Array)[];
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

/**
 * Creates a writer. A table has a row for each row of the input file, and a requests file may have many results per
 * row.
 *
 * @param outputs outputs in each result
 * @param kept names of the columns that are copied to the results
 */
export async function createResultFile(format: Format, outputs: Outputs, kept: readonly string[]): Promise<ResultFile> {
  if (format === 'parquet') return parquetResults(outputs, kept);
  if (format === 'csv') return csvResults(outputs, kept);
  const lines = createLines();
  return {
    head: '',
    get size() {
      return lines.size;
    },
    add: (results, from, isFull) => visitResults(results, documentVisitor(results, lines.push), from, isFull),
    take: lines.take,
    end: () => '',
    resume: asIs,
  };
}

type Outputs = NonNullable<JobHead['outputs']>;

/** Returns the outputs in each result, or `own` if a transform makes the result. */
export function outputsOf(model: ModelDescription): Outputs {
  if (givesOwnForm(model)) return 'own';
  return model.outputs.map(({ name, datatype, shape, batchAxis }) => ({ name, datatype, shape, batchAxis }));
}

function csvResults(outputs: Outputs, kept: readonly string[]): ResultFile {
  const { columns, outputs: outputColumns, cellsOfDocument } = resultColumns(outputs, kept);
  const areFloats = columns.map(({ datatype }) => isFloat(datatype));
  const lines = createLines();
  const lineOfDocument = (text: string): string =>
    cellsOfDocument(text)
      .map((cell, at) => cellOf(cell, areFloats[at]))
      .join(',');
  return {
    head: `${columns.map(({ name }) => cellOf(name)).join(',')}\n`,
    get size() {
      return lines.size;
    },
    take: lines.take,
    add(results, from, isFull) {
      const { rows } = results;
      let written: SharedScores | undefined;
      let texts: readonly CellTexts[] = [];
      const visitor: ResultVisitor = {
        single: (row, { text }) => lines.push(lineOfDocument(withKept(text, rows.keptOf(row)))),
        shared(row, scores, place) {
          if (scores !== written)
            texts = outputColumns.map((output, at) => cellTexts(output, scores.outputs[at] as Tensor));
          written = scores;
          let line = rows.idOf(row);
          for (let column = 0; column < kept.length; column++)
            line += `,${cellOf(scores.table.keptValue(column, row))}`;
          for (const { cells, width } of texts) {
            for (let at = place * width; at < (place + 1) * width; at++) line += `,${cells[at]}`;
          }
          lines.push(`${line},,`);
        },
      };
      return visitResults(results, visitor, from, isFull);
    },
    end: () => '',
    resume: asIs,
  };
}

/** Cells of one output, row after row. */
interface CellTexts {
  readonly cells: readonly string[];
  /** Cells of a row. */
  readonly width: number;
}

function cellTexts(output: OutputColumns, { datatype, shape, data }: Tensor): CellTexts {
  const width = elementsPerRow(shape);
  if (output.elements === undefined) {
    const arrays = Array.from({ length: shape[0] as number }, (_, row) =>
      encodeData(datatype, data, row * width, (row + 1) * width),
    );
    return { cells: arrays.map((elements) => cellOf(`[${elements}]`)), width: 1 };
  }
  refuseOtherWidth(output, width);
  if (Array.isArray(data)) return { cells: data.map((text) => cellOf(text)), width };
  const text = encodeData(datatype, data);
  const cells = text.split(',');
  return { cells: text.includes('"') ? cells.map((cell) => cellOf(unquoted(cell), isFloat(datatype))) : cells, width };
}

/** JSON has numbers in quotes if they are not finite, or if a double does not hold them. */
function unquoted(text: string): string {
  return text.startsWith('"') ? text.slice(1, -1) : text;
}

function isFloat(datatype: Datatype | undefined): boolean {
  return datatype !== undefined && DATATYPES[datatype].kind === 'float';
}

function createLines() {
  let lines: string[] = [];
  let size = 0;
  return {
    get size() {
      return size;
    },
    push(line: string): void {
      lines.push(line);
      size += line.length + 1;
    },
    take(): readonly string[] {
      const taken = joinLines(lines);
      [lines, size] = [[], 0];
      return taken;
    },
  };
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
const VALUE_BYTES = 8;

/** Imports what it needs when it is called, because other formats start 60 ms sooner without it. */
async function parquetResults(outputs: Outputs, kept: readonly string[]): Promise<ResultFile> {
  const { ByteWriter, ParquetWriter, schemaFromColumnData } = await import('hyparquet-writer');
  const { columns, outputs: outputColumns, cellsOfDocument } = resultColumns(outputs, kept);
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
  /** @param cells those at the end may be left out */
  const addRow = (cells: readonly unknown[]): void => {
    for (let at = 0; at < table.length; at++) {
      const { data, of } = table[at] as (typeof table)[number];
      data.push(cells[at] === undefined || cells[at] === null ? null : of(cells[at]));
    }
    if ((table[0]?.data.length ?? 0) >= groupRows) writeGroup();
  };
  return {
    head: '',
    get size() {
      return writer.index + VALUE_BYTES * columns.length * (table[0]?.data.length ?? 0);
    },
    add(results, from, isFull) {
      const { rows } = results;
      const visitor: ResultVisitor = {
        single: (row, { text }) => addRow(cellsOfDocument(withKept(text, rows.keptOf(row)))),
        shared(row, { table, outputs }, place) {
          const cells: unknown[] = [rows.idOf(row)];
          for (let column = 0; column < kept.length; column++) cells.push(table.keptValue(column, row));
          for (let at = 0; at < outputColumns.length; at++) {
            addCells(cells, outputColumns[at] as OutputColumns, outputs[at] as Tensor, place);
          }
          addRow(cells);
        },
      };
      return visitResults(results, visitor, from, isFull);
    },
    take: () => [taken()],
    end() {
      writeGroup();
      parquet.finish();
      return taken();
    },
    async resume(path, bytes) {
      const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import('hyparquet');
      const { spanOf } = await import('./parquetFooter.ts');
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

/** Adds the elements of one row of an output. */
function addCells(cells: unknown[], output: OutputColumns, { datatype, shape, data }: Tensor, row: number): void {
  const width = elementsPerRow(shape);
  const [from, to] = [row * width, (row + 1) * width];
  if (output.elements === undefined) cells.push(`[${encodeData(datatype, data, from, to)}]`);
  else {
    refuseOtherWidth(output, width);
    for (let at = from; at < to; at++) cells.push(data[at]);
  }
}

const INT32 = { type: 'INT32', of: Number } as const;
const INT64 = {
  type: 'INT64',
  of: (cell: unknown) => (typeof cell === 'bigint' ? cell : BigInt(String(cell))),
} as const;
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
  const cellsOfDocument = (text: string): readonly unknown[] => {
    const { message_id: id, code, error, outputs: scores, result, kept: carried = {} }: Result = JSON.parse(text);
    return [
      id,
      ...kept.map((name) => (Object.hasOwn(carried, name) ? carried[name] : undefined)),
      ...outputs.flatMap((output) => cellsOf(output, scores?.find(({ name }) => name === output.name)?.data)),
      ...(hasOwnForm ? [result] : []),
      code,
      error,
    ];
  };
  return { columns, outputs, cellsOfDocument };
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

function cellsOf(output: OutputColumns, data: readonly unknown[] | undefined): readonly unknown[] {
  if (data === undefined) return output.columns.map(() => undefined);
  if (output.elements === undefined) return [data];
  refuseOtherWidth(output, data.length);
  return data;
}

function refuseOtherWidth({ name, elements }: OutputColumns, got: number): void {
  if (got === elements) return;
  throw new JobError(
    'INVALID_JOB',
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
