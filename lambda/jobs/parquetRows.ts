import type { DecodedArray, FileMetaData, SchemaTree } from 'hyparquet';
import { parquetSchema } from 'hyparquet';
import { getTreePath } from 'hyparquet/src/schema.js';
import { type Failure, messageOf } from '../core/failure.ts';
import {
  type ByteRange,
  type InputColumns,
  JobError,
  type JobHead,
  type JobInput,
  type Part,
  type RowPiece,
} from './jobTypes.ts';
import { chunksOf, type RangeStorage, readFooter, spanOf } from './parquetFooter.ts';
import { budgetOf, type Chunk, maxInflation, readColumn } from './parquetPages.ts';
import { inputFiller, type Table, type TableInput, TableRow } from './tableRows.ts';
import { type PieceReader, type PieceRows, STEP_BYTES, UnreadableError } from './textRows.ts';

/** Which file it is, and which of its columns are read. */
type ParquetHead = JobInput & Pick<JobHead, 'inputs' | 'keep' | 'missing'>;

/**
 * The pieces of a part of Parquet: rows of a row group, or of several. A row's id is its
 * number in the file, from 0.
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
      return rowsOf(decoded, span, { isLast, columns: names.size });
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
  readonly schema: SchemaTree;
  readonly columns: ReadonlyMap<string, SchemaTree>;
}

function contentsOf(footer: FileMetaData): Contents {
  const starts = [0];
  let end = 0;
  for (const { num_rows } of footer.row_groups) {
    end += Number(num_rows);
    starts.push(end);
  }
  const schema = parquetSchema(footer);
  return { footer, starts, schema, columns: new Map(schema.children.map((column) => [column.element.name, column])) };
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

/** Rows of one row group that are decoded. */
interface Block extends Table {
  readonly span: GroupRows;
  readonly failed: ReadonlyMap<number, Failure>;
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
  const rows = { from: from - start, to: to - start };
  const inflation = budgetOf(maxInflation(file.bytes));
  const read = async (column: string): Promise<DecodedArray> => {
    const chunks = await readChunks(file, contents, group, column);
    try {
      const values = readColumn(chunks, rows, inflation);
      if (values.length !== to - from) throw new Error(`${values.length} values`);
      return values;
    } catch (cause) {
      if (cause instanceof JobError) throw cause;
      throw new UnreadableError(
        `${key}: expected column '${column}' in rows ${from} to ${to - 1}, got bytes that are not (${messageOf(cause)}); ` +
          'write the file anew',
        { cause },
      );
    }
  };
  const failed = new Map<number, Failure>();
  const filled: TableInput[] = [];
  for (const input of inputs) filled.push(await fillInput(input, read, to - from, missing, failed));
  const kept: [string, DecodedArray][] = [];
  for (const name of keep) kept.push([name, await read(name)]);
  return { span, inputs: filled, failed, kept };
}

/** The leaves of a column in a row group. */
async function readChunks(
  file: GroupFile,
  { footer, schema, columns }: Contents,
  group: number,
  column: string,
): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for (const about of chunksOf(footer, group, new Set([column]))) {
    const top = columns.get(column);
    if (top === undefined) break;
    const path = [schema, ...getTreePath(top, about.path_in_schema.slice(1))];
    chunks.push({ about, path, bytes: await file.read(spanOf(about)) });
  }
  return chunks;
}

function rowsOf(
  blocks: Decoded,
  { from, to }: RowPiece,
  { isLast, columns }: { readonly isLast: boolean; readonly columns: number },
): PieceRows {
  let block = 0;
  const rowOf = (number: number): TableRow => {
    // Rows are handed out in order, and blocks follow each other.
    let held = blocks[block];
    while (held !== undefined && number >= held.span.to) {
      block += 1;
      held = blocks[block];
    }
    if (held === undefined) throw new Error(`expected row ${number} to be decoded, it is not`);
    const at = number - held.span.from;
    return new TableRow(String(number), held, at, held.failed.get(at));
  };
  let next = from;
  return {
    bytes: (to - from) * columns * VALUE_BYTES,
    isLast,
    take(max) {
      const rows: TableRow[] = [];
      // A dictionary has a long text once, and each row of it another.
      for (let taken = 0; next < to && rows.length < max && taken < STEP_BYTES; next++) {
        const row = rowOf(next);
        rows.push(row);
        taken += row.bytes;
      }
      return rows;
    },
  };
}

/** What a value is taken for, whatever it is and however it is stored. */
const VALUE_BYTES = 8;

/** The `rows` values of a column. */
type ReadColumn = (name: string) => Promise<DecodedArray>;

/** Reads the columns of an input one after the other. @param failed takes why rows cannot be what the model takes, by row */
async function fillInput(
  input: InputColumns,
  readColumn: ReadColumn,
  rows: number,
  missing: string | undefined,
  failed: Map<number, Failure>,
): Promise<TableInput> {
  const { filled, write } = inputFiller(input, missing)(rows);
  for (const [place, name] of input.columns.entries()) {
    const column = await readColumn(name);
    for (let row = 0; row < rows; row++) {
      const problem = write(row, place, column[row]);
      if (problem !== undefined && !failed.has(row)) failed.set(row, problem);
    }
  }
  return filled;
}

interface GroupFile {
  /** Of all columns that are needed. */
  readonly bytes: number;
  /** @param span of a column */
  read(span: ByteRange): Promise<Uint8Array>;
}

/**
 * The bytes of one row group's columns, each read once however many of its pieces are. Columns that lie close together
 * are read by one GET.
 *
 * @param chunks where the columns lie that are needed
 */
function groupFile(storage: RangeStorage, input: JobInput, chunks: readonly ByteRange[]): GroupFile {
  const reads = new Map<ByteRange, Promise<Uint8Array>>();
  const runs = together(chunks);
  return {
    bytes: chunks.reduce((sum, { start, end }) => sum + end - start, 0),
    async read({ start, end }) {
      const run = runs.find((one) => one.start <= start && end <= one.end) ?? { start, end };
      const reading = reads.get(run) ?? storage.readRange(input, run);
      reads.set(run, reading);
      const bytes = await reading;
      return bytes.subarray(start - run.start, end - run.start);
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
