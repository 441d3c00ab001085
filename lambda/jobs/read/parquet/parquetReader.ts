import { type DecodedArray, type FileMetaData, parquetScan, parquetSchema, type SchemaElement } from 'hyparquet';
import { failure, messageOf } from '../../../core/failure.ts';
import type { JobStorage } from '../../../core/job/storage.ts';
import type { JobHead, Part, RowPiece } from '../../../core/job/words.ts';
import { type PieceReader, type PieceRow, type PieceRows, UnreadableError } from '../pieceRows.ts';
import { chunksOf, isUtc, spanOf } from './columnsOf.ts';
import { type FilledInput, fillInput } from './fillInput.ts';
import { COMPRESSORS, type GroupFile, groupFile, readFooter } from './parquetFile.ts';
import { spellKept } from './spellKept.ts';
import { spellTimes } from './spellTimes.ts';

/**
 * The pieces of a part of Parquet: rows of a row group, or of several. Each row becomes a request with
 * `raw_input_contents`, so that one that fails fails alone. Its id is its number in the file, from 0.
 */
export function openParquet(storage: JobStorage, head: JobHead, part: Part): PieceReader {
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
        const together = decodedTogether(pieces, piece);
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

/** A piece and those after it in its row group, as many as are decoded together. */
function decodedTogether(pieces: readonly RowPiece[], first: number): RowPiece {
  const [{ group, from, to } = { group: 0, from: 0, to: 0 }, ...others] = pieces.slice(first, first + DECODED_TOGETHER);
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

/** Rows of one row group. */
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
  { key, inputs = [], keep }: JobHead,
  span: GroupRows,
): Promise<Block> {
  const { group, start, from, to } = span;
  // A scan holds every column that it has read: of inputs, one is let go once its values are where they are sent from.
  const read = async (column: string): Promise<DecodedArray> => {
    const metadata = chunkAlone(contents, group, column);
    try {
      const options = { columns: [column], parsers: spellTimes(isUtc(metadata, column)), useOffsetIndex: false };
      const scan = await parquetScan({ file, metadata, compressors: COMPRESSORS, ...options });
      const values = await scan.readColumn({ column, rowStart: from - start, rowEnd: to - start });
      if (values.length !== to - from) throw new Error(`${values.length} values`);
      return values;
    } catch (cause) {
      if (file.hasMet(cause)) throw cause;
      throw new UnreadableError(
        `${key}: expected column '${column}' in rows ${from} to ${to - 1}, got bytes that are not (${messageOf(cause)}); ` +
          'write the file anew',
        { cause },
      );
    }
  };
  const filled: FilledInput[] = [];
  for (const input of inputs) filled.push(await fillInput(input, read, to - from));
  const kept: [string, DecodedArray][] = [];
  for (const name of keep) kept.push([name, await read(name)]);
  return { span, filled, kept };
}

function rowsOf(
  { inputs = [] }: JobHead,
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
    const beside = kept.length === 0 ? {} : { kept: spellKept(kept, row) };
    const problem = filled.find(({ problems }) => problems.has(row))?.problems.get(row);
    if (problem !== undefined) return { id, text: '', failed: failure('INVALID_DATA', problem), ...beside };
    return { id, text: `${head}${filled.map(({ raw }) => raw(row)).join('","')}"]}`, ...beside };
  };
  let next = from;
  return {
    bytes: (to - from) * columns * VALUE_BYTES,
    isLast,
    take(most) {
      const end = Math.min(to, next + most);
      const rows: PieceRow[] = [];
      for (; next < end; next++) rows.push(rowOf(next));
      return rows;
    },
  };
}

/** What a value is taken for, whatever it is and however it is stored. */
const VALUE_BYTES = 8;
