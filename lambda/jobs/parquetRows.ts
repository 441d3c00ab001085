import type { DecodedArray, FileMetaData } from 'hyparquet';
import { messageOf } from '../core/failure.ts';
import type { ByteRange, JobInput } from './jobFiles.ts';
import type { JobHead, RowPiece, Span } from './jobTypes.ts';
import { budgetOf, maxSpent, type Spend } from './parquetBudget.ts';
import { chunksOf, type LeafPath, leafKey, leavesOf, type RangeStorage, readFooter, spanOf } from './parquetFooter.ts';
import { type Chunk, type ColumnReader, openColumn } from './parquetPages.ts';
import type { IdPrefix } from './rows.ts';
import { type Table, TableBuilder } from './table.ts';
import { type PieceReader, type PieceRows, STEP_BYTES, UnreadableError } from './textRows.ts';

type ParquetHead = JobInput & IdPrefix & Pick<JobHead, 'inputs' | 'keep' | 'missing'>;

/**
 * Opens a reader of the pieces of a Parquet part. A piece is rows of one row group, or several row groups. A row's id
 * is its number in the file, from 0. The reader holds one page of each column, and the bytes around it.
 */
export function openParquet(
  storage: RangeStorage,
  head: ParquetHead,
  { rows: pieces = [] }: Pick<Span, 'rows'>,
): PieceReader {
  const names = new Set([...(head.inputs ?? []).flatMap(({ columns }) => columns), ...head.keep]);
  let opened: Promise<Contents> | undefined;
  let group: OpenGroup | undefined;
  const decode = async (span: RowPiece): Promise<Table> => {
    opened ??= readFooter(storage, head).then((footer) => contentsOf(footer, head, names));
    const contents = await opened;
    const spans = byGroup(contents, span);
    if (group?.number !== span.group) {
      const chunks = spans.flatMap((one) => chunksOf(contents.footer, one.group, names).map(spanOf));
      const file = groupFile(storage, head, chunks);
      group = { number: span.group, file, columns: new Map() };
    }
    const table = new TableBuilder(head.inputs ?? [], head);
    for (const one of spans) await decodeRows(group, contents, head, one, table);
    return table.finish();
  };
  return {
    async read(piece) {
      const span = pieces[piece];
      if (span === undefined) return undefined;
      const isLast = piece === pieces.length - 1;
      return rowsOf(await decode(span), { isLast, columns: names.size });
    },
    close: () => {
      group = undefined;
    },
  };
}

interface OpenGroup {
  readonly number: number;
  readonly file: GroupFile;
  readonly columns: Map<string, ColumnReader>;
}

/** Footer, indexed so that a row group is found without a search. */
interface Contents {
  readonly footer: FileMetaData;
  /** First row of each row group, and the total number of rows at the end. */
  readonly starts: readonly number[];
  readonly leaves: ReadonlyMap<string, LeafPath>;
  /** Budget of the file. */
  readonly spend: Spend;
}

function contentsOf(footer: FileMetaData, { bytes }: JobInput, names: ReadonlySet<string>): Contents {
  const starts = [0];
  let end = 0;
  for (const { num_rows } of footer.row_groups) {
    end += Number(num_rows);
    starts.push(end);
  }
  const leaves = leavesOf(footer, names);
  return { footer, starts, leaves, spend: budgetOf(maxSpent(bytes, end * leaves.size)) };
}

interface GroupRows extends RowPiece {
  /** First row of the row group. */
  readonly start: number;
}

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

/** Adds rows of one row group to a table. */
async function decodeRows(
  opened: OpenGroup,
  contents: Contents,
  { key, inputs = [], keep }: ParquetHead,
  span: GroupRows,
  table: TableBuilder,
): Promise<void> {
  const { start, from, to } = span;
  const rows = { from: from - start, to: to - start };
  const found = new Map<string, DecodedArray>();
  const read = async (column: string): Promise<DecodedArray> => {
    const before = found.get(column);
    if (before !== undefined) return before;
    try {
      const values = await columnOf(opened, contents, span.group, column).read(rows);
      found.set(column, values);
      if (values.length !== to - from) throw new Error(`${values.length} values`);
      return values;
    } catch (cause) {
      if (cause instanceof StorageError) throw cause.cause;
      throw new UnreadableError(
        `${key}: expected column '${column}' in rows ${from} to ${to - 1}, got bytes that are not (${messageOf(cause)}); ` +
          'write the file again',
        { cause },
      );
    }
  };
  const first = table.length;
  for (let row = from; row < to; row++) table.add(row);
  for (const [index, { columns }] of inputs.entries()) {
    for (const [column, name] of columns.entries()) table.writeColumn(index, column, first, await read(name));
  }
  for (const [column, name] of keep.entries()) {
    const values = await read(name);
    for (let at = 0; at < values.length; at++) table.keep(first + at, column, values[at]);
  }
}

/** Returns a column of a row group. It stays open as long as the row group. */
function columnOf(opened: OpenGroup, contents: Contents, group: number, column: string): ColumnReader {
  const key = `${group} ${column}`;
  const reader =
    opened.columns.get(key) ?? openColumn(columnChunks(opened.file, contents, group, column), contents.spend);
  opened.columns.set(key, reader);
  return reader;
}

function columnChunks(file: GroupFile, { footer, leaves }: Contents, group: number, column: string): Chunk[] {
  return chunksOf(footer, group, new Set([column])).map((about) => {
    const span = spanOf(about);
    return {
      about,
      rows: Number(footer.row_groups[group]?.num_rows),
      path: leaves.get(leafKey(about.path_in_schema)) ?? [],
      length: span.end - span.start,
      read: (start, end) => file.read(span, { start: span.start + start, end: span.start + end }),
    };
  });
}

function rowsOf(table: Table, { isLast, columns }: { readonly isLast: boolean; readonly columns: number }): PieceRows {
  let next = 0;
  return {
    bytes: table.length * columns * VALUE_BYTES,
    isLast,
    take(max) {
      if (next === table.length) return undefined;
      const from = next;
      // A dictionary stores a long text once, but each row holds a copy.
      for (let taken = 0; next < table.length && next - from < max && taken < STEP_BYTES; next++) {
        taken += table.bytesOf(next);
      }
      return table.slice(from, next);
    },
  };
}

/** Assumed size of a value of any type. */
const VALUE_BYTES = 8;

interface GroupFile {
  read(column: ByteRange, span: ByteRange): Promise<Uint8Array>;
}

/** Failure to read bytes, kept in `cause`. The file may be sound. */
class StorageError extends Error {}

/** Maximum bytes to hold of a row group's columns, unless pages are larger. */
const HELD_BYTES = 4 * 1024 * 1024;
const MIN_WINDOW_BYTES = 256 * 1024;

/**
 * Opens the bytes of a row group's columns. If they are few, one GET reads columns that lie close together. Otherwise
 * each column has a window that moves forward.
 *
 * @param chunks extents of the needed columns
 */
function groupFile(storage: RangeStorage, input: JobInput, chunks: readonly ByteRange[]): GroupFile {
  const bytes = chunks.reduce((sum, { start, end }) => sum + end - start, 0);
  const runs = bytes <= HELD_BYTES ? mergeNearby(chunks) : [];
  const windowBytes = Math.max(MIN_WINDOW_BYTES, Math.floor(HELD_BYTES / chunks.length));
  const windows = new Map<number, { readonly span: ByteRange; readonly reading: Promise<Uint8Array> }>();
  return {
    async read(column, { start, end }) {
      const run = runs.find((one) => one.start <= column.start && column.end <= one.end);
      const key = (run ?? column).start;
      let window = windows.get(key);
      if (window === undefined || start < window.span.start || end > window.span.end) {
        const span = run ?? { start, end: Math.max(end, Math.min(column.end, start + windowBytes)) };
        window = { span, reading: storage.readRange(input, span) };
        windows.set(key, window);
      }
      const held = await window.reading.catch((cause: unknown) => {
        throw new StorageError(messageOf(cause), { cause });
      });
      return held.subarray(start - window.span.start, end - window.span.start);
    },
  };
}

/** Maximum gap between two ranges that one GET reads. Reading the gap takes as long as another GET. */
const GAP_BYTES = 1024 * 1024;

function mergeNearby(chunks: readonly ByteRange[]): ByteRange[] {
  const runs: { start: number; end: number }[] = [];
  for (const { start, end } of chunks.toSorted((a, b) => a.start - b.start)) {
    const last = runs.at(-1);
    if (last !== undefined && start - last.end <= GAP_BYTES) last.end = Math.max(last.end, end);
    else runs.push({ start, end });
  }
  return runs;
}
