import zlib, { brotliDecompressSync, gunzipSync } from 'node:zlib';
import {
  type AsyncBuffer,
  type ColumnMetaData,
  type Compressors,
  type DecodedArray,
  type FileMetaData,
  type ParquetParsers,
  parquetMetadataAsync,
  parquetScan,
  parquetSchema,
  type SchemaElement,
} from 'hyparquet';
import * as z from 'zod';
import { failure, messageOf } from '../core/failure.ts';
import { DATATYPES } from '../core/tensor.ts';
import { IN_OUR_WORDS, problemsIn } from '../core/wrongValue.ts';
import {
  type ByteRange,
  type InputColumns,
  JobError,
  type JobHead,
  type JobInput,
  type JobStorage,
  type Part,
  type RowPiece,
} from './jobTypes.ts';
import { cellReader, jsonValue, type PieceRow, refusal } from './rowRequests.ts';
import { type PieceReader, type PieceRows, UnreadableError, zstdOfNode } from './textRows.ts';

/** Where the bytes of a file lie: in the bucket of jobs, or on this machine. */
export type RangeStorage = Pick<JobStorage, 'readRange'>;
/** Which file it is, and which of its columns are read. */
type ParquetHead = JobInput & Pick<JobHead, 'inputs' | 'keep' | 'missing'>;

/**
 * The pieces of a part of Parquet: rows of a row group, or of several. Each row becomes a request with
 * `raw_input_contents`, so that one that fails fails alone. Its id is its number in the file, from 0.
 *
 * @param isSuspect whether calls have died of a piece: each is decoded alone
 */
export function openParquet(
  storage: RangeStorage,
  head: ParquetHead,
  part: Pick<Part, 'rows'>,
  isSuspect = false,
): PieceReader {
  const { rows: pieces = [] } = part;
  const names = new Set([...(head.inputs ?? []).flatMap(({ columns }) => columns), ...head.keep]);
  let opened: Promise<Contents> | undefined;
  let group: { readonly number: number; readonly file: GroupFile } | undefined;
  let latest: { readonly span: RowPiece; readonly decoded: Promise<Decoded> } | undefined;
  const decode = async (span: RowPiece): Promise<Decoded> => {
    opened ??= readFooter(storage, head).then(contentsOf);
    const contents = await opened;
    const spans = byGroup(contents, span);
    if (group?.number !== span.group) {
      const chunks = spans.flatMap((one) => chunksOf(contents.footer, one.group, names).map(spanOf));
      group = { number: span.group, file: groupFile(storage, head, chunks) };
    }
    const blocks: Block[] = [];
    for (const one of spans) blocks.push(await decodeRows(group.file, contents, head, one));
    return blocks;
  };
  /** A page that is broken is met with the pieces that it is of, and no others. */
  const decodeAlone = async (span: RowPiece, cause: unknown): Promise<Decoded> => {
    if (!(cause instanceof UnreadableError)) throw cause;
    latest = { span, decoded: decode(span) };
    return latest.decoded;
  };
  return {
    async read(piece) {
      const span = pieces[piece];
      if (span === undefined) return undefined;
      if (latest === undefined || !isWithin(span, latest.span)) {
        const together = decodedTogether(pieces.slice(piece, piece + (isSuspect ? 1 : DECODED_TOGETHER)));
        latest = { span: together, decoded: decode(together) };
      }
      const decoded = await latest.decoded.catch((cause: unknown) => decodeAlone(span, cause));
      const isLast = piece === pieces.length - 1;
      return rowsOf(head, decoded, span, { isLast, columns: names.size });
    },
    close: () => {
      group = undefined;
      latest = undefined;
    },
  };
}

/**
 * Pages hold rows of several pieces, and each is decoded as a whole: so pieces of one row group are decoded together. One
 * by one, pages of 20,000 rows of 64 columns would be decoded 1.6 times.
 */
const DECODED_TOGETHER = 4;

/** The first piece and those after it in its row group. */
function decodedTogether(pieces: readonly RowPiece[]): RowPiece {
  const [{ group, from, to } = { group: 0, from: 0, to: 0 }, ...others] = pieces;
  return { group, from, to: others.findLast((other) => other.group === group)?.to ?? to };
}

function isWithin(one: RowPiece, other: RowPiece): boolean {
  return one.group === other.group && other.from <= one.from && one.to <= other.to;
}

/** What the footer says, so that a row group is found without looking at the others. */
interface Contents {
  readonly footer: FileMetaData;
  /** The row that each row group begins with, and how many there are in all. */
  readonly starts: readonly number[];
  /** The schema of each column at the top: its element, and those below it. */
  readonly schemas: ReadonlyMap<string, readonly SchemaElement[]>;
}

function contentsOf(footer: FileMetaData): Contents {
  const starts = [0];
  let end = 0;
  for (const { num_rows } of footer.row_groups) {
    end += Number(num_rows);
    starts.push(end);
  }
  let at = 1;
  const schemas = new Map<string, readonly SchemaElement[]>();
  for (const { element, count } of parquetSchema(footer).children) {
    schemas.set(element.name, footer.schema.slice(at, at + count));
    at += count;
  }
  return { footer, starts, schemas };
}

interface GroupRows extends RowPiece {
  /** The row that the row group begins with. */
  readonly start: number;
}

/** The rows of a piece, row group by row group. */
function byGroup({ starts }: Contents, { group: first, from, to }: RowPiece): GroupRows[] {
  const spans: GroupRows[] = [];
  for (let group = first, at = from; at < to; group++) {
    const [start, end] = starts.slice(group, group + 2);
    if (start === undefined || end === undefined || start > at) {
      throw new Error(`expected a row group that holds row ${at}, got none; submit the job again`);
    }
    if (end > at) spans.push({ group, start, from: at, to: Math.min(end, to) });
    at = Math.max(at, Math.min(end, to));
  }
  return spans;
}

/**
 * One column of one row group, as if the file had no other: a scan looks at all that it is told of, and to tell each of
 * them of the whole file would cost the square of its row groups.
 */
function chunkAlone({ footer, schemas }: Contents, group: number, column: string): FileMetaData {
  const [root] = footer.schema;
  const rowGroup = footer.row_groups[group];
  const schema = schemas.get(column);
  if (root === undefined || rowGroup === undefined || schema === undefined) {
    throw new Error(`expected column '${column}' in row group ${group}, got none`);
  }
  const columns = rowGroup.columns.filter(({ meta_data }) => meta_data?.path_in_schema[0] === column);
  return {
    ...footer,
    schema: [{ ...root, num_children: 1 }, ...schema],
    num_rows: rowGroup.num_rows,
    row_groups: [{ ...rowGroup, columns }],
  };
}

/** Rows of one row group that are decoded: the model's inputs as they are sent, and the values that are kept, by column. */
interface Block {
  readonly span: GroupRows;
  readonly filled: readonly FilledInput[];
  readonly kept: readonly (readonly [name: string, values: DecodedArray])[];
}

/** In order, without gaps. */
type Decoded = readonly Block[];

async function decodeRows(
  file: GroupFile,
  contents: Contents,
  { key, inputs = [], keep, missing }: ParquetHead,
  span: GroupRows,
): Promise<Block> {
  const { group, start, from, to } = span;
  // A scan holds every column that it has read: of inputs, one is let go once its values are where they are sent from.
  const read = async (column: string): Promise<DecodedArray> => {
    const metadata = chunkAlone(contents, group, column);
    try {
      const options = { columns: [column], parsers: timeFormatters(isUtc(metadata, column)), useOffsetIndex: false };
      const scan = await parquetScan({ file, metadata, compressors: COMPRESSORS, ...options });
      const values = await scan.readColumn({ column, rowStart: from - start, rowEnd: to - start });
      if (values.length !== to - from) throw new Error(`${values.length} values`);
      return values;
    } catch (cause) {
      if (file.hasMet(cause) || cause instanceof JobError) throw cause;
      throw new UnreadableError(
        `${key}: expected column '${column}' in rows ${from} to ${to - 1}, got bytes that are not (${messageOf(cause)}); ` +
          'write the file anew',
        { cause },
      );
    }
  };
  const filled: FilledInput[] = [];
  for (const input of inputs) filled.push(await fillInput(input, read, to - from, missing));
  const kept: [string, DecodedArray][] = [];
  for (const name of keep) kept.push([name, await read(name)]);
  return { span, filled, kept };
}

function rowsOf(
  { inputs = [] }: ParquetHead,
  blocks: Decoded,
  { from, to }: RowPiece,
  { isLast, columns }: { readonly isLast: boolean; readonly columns: number },
): PieceRows {
  const specs = inputs.map(
    ({ input, datatype, shape }) =>
      `{"name":${JSON.stringify(input)},"datatype":"${datatype}","shape":[${shape.join(',')}]}`,
  );
  const head = `{"inputs":[${specs.join(',')}],"parameters":{"binary_data_output":false},"raw_input_contents":["`;
  let block = 0;
  const rowOf = (number: number): PieceRow => {
    const id = String(number);
    // Rows are handed out in order, and blocks follow each other.
    let held = blocks[block];
    while (held !== undefined && number >= held.span.to) {
      block += 1;
      held = blocks[block];
    }
    if (held === undefined) throw new Error(`expected row ${id} to be decoded, it is not`);
    const { span, filled, kept } = held;
    const row = number - span.from;
    const beside = kept.length === 0 ? {} : { kept: serializeKept(kept, row) };
    const problem = filled.find(({ problems }) => problems.has(row))?.problems.get(row);
    if (problem !== undefined) return { id, text: '', failed: failure('INVALID_DATA', problem), ...beside };
    return { id, text: `${head}${filled.map(({ raw }) => raw(row)).join('","')}"]}`, ...beside };
  };
  let next = from;
  return {
    bytes: (to - from) * columns * VALUE_BYTES,
    isLast,
    take(max) {
      const end = Math.min(to, next + max);
      const rows: PieceRow[] = [];
      for (; next < end; next++) rows.push(rowOf(next));
      return rows;
    },
  };
}

/** What a value is taken for, whatever it is and however it is stored. */
const VALUE_BYTES = 8;

/** The values of one input of some rows, and which rows cannot be what the model takes: why, by row. */
interface FilledInput {
  /** What `raw_input_contents` holds for one row. */
  raw(row: number): string;
  readonly problems: ReadonlyMap<number, string>;
}

/** The `rows` values of a column. */
type ReadColumn = (name: string) => Promise<DecodedArray>;

/** Reads the columns of an input one after the other. */
function fillInput(
  input: InputColumns,
  read: ReadColumn,
  rows: number,
  missing: string | undefined,
): Promise<FilledInput> {
  const fill = DATATYPES[input.datatype].kind === 'string' ? fillTexts : fillNumbers;
  return fill(input, read, rows, missing);
}

async function fillNumbers(
  { datatype, columns }: InputColumns,
  readColumn: ReadColumn,
  rows: number,
  missing: string | undefined,
): Promise<FilledInput> {
  const info = DATATYPES[datatype];
  if (info.kind === 'string') throw new Error('expected a datatype of numbers');
  const width = columns.length;
  const values = new info.array(rows * width);
  const problems = new Map<number, string>();
  const read = cellReader(datatype, missing);
  for (const [place, name] of columns.entries()) {
    const column = await readColumn(name);
    for (let row = 0; row < rows; row++) {
      const value = read(column[row]);
      if (value !== undefined) values[row * width + place] = value as never;
      else if (!problems.has(row)) problems.set(row, refusal(name, datatype, column[row]));
    }
  }
  const bytes = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
  const size = width * info.array.BYTES_PER_ELEMENT;
  return { problems, raw: (row) => bytes.toString('base64', row * size, (row + 1) * size) };
}

/** Each text stands after its length in bytes. @see docs/message-format.md */
async function fillTexts(
  { columns, datatype }: InputColumns,
  readColumn: ReadColumn,
  rows: number,
  missing: string | undefined,
): Promise<FilledInput> {
  const read = cellReader(datatype, missing);
  const problems = new Map<number, string>();
  const data: DecodedArray[] = [];
  for (const name of columns) {
    const column = await readColumn(name);
    data.push(column);
    for (let row = 0; row < rows; row++) {
      if (read(column[row]) === undefined) problems.set(row, refusal(name, datatype, column[row]));
    }
  }
  const raw = (row: number): string => {
    const texts = data.map((column) => Buffer.from(String(read(column[row]))));
    const lengths = texts.map((text) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(text.length);
      return length;
    });
    return Buffer.concat(texts.flatMap((text, index) => [lengths[index] as Buffer, text])).toString('base64');
  };
  return { problems, raw };
}

/** The values of one row of the columns that are kept, as the JSON text of an object. */
function serializeKept(kept: readonly (readonly [name: string, values: DecodedArray])[], row: number): string {
  return `{${kept.map(([name, values]) => `${JSON.stringify(name)}:${JSON.stringify(values[row] ?? null, jsonValue)}`).join(',')}}`;
}

type TimeParsers = Pick<
  ParquetParsers,
  'dateFromDays' | 'timestampFromMilliseconds' | 'timestampFromMicroseconds' | 'timestampFromNanoseconds'
>;

/**
 * Dates and moments in ISO 8601, `2026-11-22` and `2026-11-22T13:22:09.000123Z`, with as many digits as a moment needs. One
 * that no calendar has is left as the number that it is.
 *
 * @param isUtc whether moments are UTC; those of no zone have no `Z`
 */
function timeFormatters(isUtc: boolean): TimeParsers {
  const end = isUtc ? 'Z' : '';
  return {
    dateFromDays: (days) => isoOf(BigInt(days) * MS_A_DAY)?.slice(0, -'T00:00:00.000Z'.length) ?? days,
    timestampFromMilliseconds: (ms) => formatMoment(BigInt(ms), 0, end),
    timestampFromMicroseconds: (us) => formatMoment(BigInt(us), 3, end),
    timestampFromNanoseconds: (ns) => formatMoment(BigInt(ns), 6, end),
  };
}

const MS_A_DAY = 86_400_000n;

/** @param digits that a tick is smaller than a millisecond by */
function formatMoment(ticks: bigint, digits: number, end: string): string | bigint {
  const ticksAMs = 10n ** BigInt(digits);
  const rest = ((ticks % ticksAMs) + ticksAMs) % ticksAMs;
  const iso = isoOf((ticks - rest) / ticksAMs);
  if (iso === undefined) return ticks;
  const fraction = digits === 0 ? '' : String(rest).padStart(digits, '0');
  return `${iso.slice(0, -1)}${fraction}`.replace(/\.?0+$/, '') + end;
}

function isoOf(ms: bigint): string | undefined {
  const date = new Date(Number(ms));
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** What a column holds, as far as requests go. */
type ColumnKind = 'number' | 'text' | 'other';

export interface ColumnType {
  readonly kind: ColumnKind;
  /** As Parquet calls it, for messages: `DATE`, `LIST`, `BYTE_ARRAY`. */
  readonly name: string;
}

/** Name and type of each column at the top of the schema. */
export function columnsOf(footer: FileMetaData): ReadonlyMap<string, ColumnType> {
  const { children } = parquetSchema(footer);
  return new Map(
    children.map(({ element, children }) => {
      const { name, logical_type: logical, converted_type: converted, type } = element;
      const typeName = converted ?? logical?.type ?? type ?? 'STRUCT';
      return [name, { kind: children.length > 0 ? 'other' : kindOf(element), name: typeName }];
    }),
  );
}

const NUMBERS: readonly (string | undefined)[] = ['BOOLEAN', 'INT32', 'INT64', 'FLOAT', 'DOUBLE'];
const WHOLE = /^U?INT_\d+$/;

function kindOf({ type, repetition_type, converted_type, logical_type }: SchemaElement): ColumnKind {
  if (repetition_type === 'REPEATED') return 'other';
  const logical = logical_type?.type;
  if (logical === 'FLOAT16') return 'number';
  if (type === 'BYTE_ARRAY') {
    const isText = logical === undefined || logical === 'STRING' || logical === 'ENUM';
    const wasText = converted_type === undefined || converted_type === 'UTF8' || converted_type === 'ENUM';
    return isText && wasText ? 'text' : 'other';
  }
  const isPlain = logical === undefined || logical === 'INTEGER';
  const wasPlain = converted_type === undefined || WHOLE.test(converted_type);
  return NUMBERS.includes(type) && isPlain && wasPlain ? 'number' : 'other';
}

/** Whether the moments of a column are UTC, and not of no zone; of one that has none it means nothing. */
function isUtc({ schema }: FileMetaData, name: string): boolean {
  const { type, logical_type: logical } = schema.find((element) => element.name === name) ?? {};
  return type !== 'INT96' && !(logical?.type === 'TIMESTAMP' && !logical.isAdjustedToUTC);
}

/** What a row group says of the columns that are needed. */
export function chunksOf(footer: FileMetaData, group: number, names: ReadonlySet<string>): ColumnMetaData[] {
  const { columns = [] } = footer.row_groups[group] ?? {};
  return columns.flatMap(({ meta_data: about }) =>
    about !== undefined && names.has(about.path_in_schema[0] ?? '') ? [about] : [],
  );
}

/** Where a column of a row group lies. */
function spanOf({ dictionary_page_offset, data_page_offset, total_compressed_size }: ColumnMetaData): ByteRange {
  // Some writers say 0 where there is no dictionary.
  const start = Number(dictionary_page_offset || data_page_offset);
  return { start, end: start + Number(total_compressed_size) };
}

/** Columns may be compressed with these; hyparquet itself reads SNAPPY. */
const COMPRESSORS: Compressors = {
  GZIP: (bytes) => gunzipSync(bytes),
  ZSTD: (bytes) => zstdOfNode(zlib.zstdDecompressSync)(bytes),
  BROTLI: (bytes) => brotliDecompressSync(bytes),
};
export const CODECS: readonly string[] = ['UNCOMPRESSED', 'SNAPPY', ...Object.keys(COMPRESSORS)];

/** The footer of Parquet: its columns and row groups. @throws JobError when the object has none */
export async function readFooter(storage: RangeStorage, input: JobInput): Promise<FileMetaData> {
  const reads: unknown[] = [];
  const file: AsyncBuffer = {
    byteLength: input.bytes,
    async slice(start, end = input.bytes) {
      try {
        return await readBuffer(storage, input, { start, end });
      } catch (error) {
        reads.push(error);
        throw error;
      }
    },
  };
  const notParquet = (why: string) =>
    new JobError('INVALID_JOB', `${input.key}: expected Parquet, got bytes that are not (${why})`);
  const footer = await parquetMetadataAsync(file, { geoparquet: false }).catch((cause: unknown) => {
    throw reads.length > 0 ? reads[0] : notParquet(messageOf(cause));
  });
  // Numbers and lists are what the bytes say that they are.
  const { error } = FOOTER.safeParse(footer, IN_OUR_WORDS);
  if (error !== undefined) throw notParquet(problemsIn(error.issues.slice(0, 1), footer).join());
  const rows = footer.row_groups.reduce((sum, { num_rows }) => sum + Number(num_rows), 0);
  if (rows > MAX_ROWS) throw notParquet(`expected at most ${MAX_ROWS} rows, got ${rows}`);
  return footer;
}

/** Rows of a file: a plan lists its pieces. */
const MAX_ROWS = 1e10;

const amount = z.bigint().min(0n).max(BigInt(Number.MAX_SAFE_INTEGER));

/** What is read of a footer, apart from what hyparquet itself needs. */
const FOOTER = z.looseObject({
  row_groups: z.array(
    z.looseObject({
      num_rows: amount,
      columns: z.array(
        z.looseObject({
          meta_data: z
            .looseObject({
              path_in_schema: z.array(z.string()),
              total_compressed_size: amount,
              total_uncompressed_size: amount,
              data_page_offset: amount,
              dictionary_page_offset: amount.optional(),
            })
            .optional(),
        }),
      ),
    }),
  ),
});

interface GroupFile extends AsyncBuffer {
  /** Whether an error is of reading the object, and not of what lies in it. */
  hasMet(error: unknown): boolean;
}

/**
 * The bytes of one row group's columns, each read once however many of its pieces are. Columns that lie close together
 * are read by one GET.
 *
 * @param chunks where the columns lie that are needed
 */
function groupFile(storage: RangeStorage, input: JobInput, chunks: readonly ByteRange[]): GroupFile {
  const reads = new Map<ByteRange, Promise<ArrayBuffer>>();
  const runs = together(chunks);
  const met = new Set<unknown>();
  return {
    hasMet: (error) => met.has(error),
    byteLength: input.bytes,
    async slice(start, end = input.bytes) {
      const run = runs.find((one) => one.start <= start && end <= one.end) ?? { start, end };
      const reading = reads.get(run) ?? readBuffer(storage, input, run);
      reads.set(run, reading);
      const bytes = await reading.catch((error: unknown) => {
        met.add(error);
        throw error;
      });
      return bytes.slice(start - run.start, end - run.start);
    },
  };
}

/** A GET costs as much as reading so many bytes more. */
const GAP_BYTES = 1024 * 1024;

function together(chunks: readonly ByteRange[]): ByteRange[] {
  const runs: { start: number; end: number }[] = [];
  for (const { start, end } of chunks.toSorted((a, b) => a.start - b.start)) {
    const last = runs.at(-1);
    if (last !== undefined && start - last.end <= GAP_BYTES) last.end = Math.max(last.end, end);
    else runs.push({ start, end });
  }
  return runs;
}

async function readBuffer(storage: RangeStorage, input: JobInput, span: ByteRange): Promise<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = await storage.readRange(input, span);
  if (byteOffset === 0 && byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) return buffer;
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
}
