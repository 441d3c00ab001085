import { type DecodedArray, type FileMetaData, parquetScan } from 'hyparquet';
import { failure, messageOf } from '../../../core/contract/failure.ts';
import type { JobStorage } from '../../../core/job/storage.ts';
import type { JobHead, Part, RowPiece } from '../../../core/job/words.ts';
import { type PieceReader, type PieceRow, type PieceRows, UnreadableError } from '../pieceRows.ts';
import { chunksOf, isUtc, spanOf } from './columnsOf.ts';
import { type FilledInput, fillInput } from './fillInput.ts';
import { COMPRESSORS, type GroupFile, groupFile, readFooter } from './parquetFile.ts';
import { spellKept } from './spellKept.ts';
import { spellTimes } from './spellTimes.ts';

/**
 * The pieces of a part of Parquet: rows of one row group. Each row becomes a request with `raw_input_contents`, so that
 * one that fails fails alone. Its id is its number in the file, from 0.
 */
export function openParquet(storage: JobStorage, head: JobHead, part: Part): PieceReader {
  const { rows: pieces = [] } = part;
  const names = new Set([...(head.inputs ?? []).flatMap(({ columns }) => columns), ...head.keep]);
  let footer: Promise<FileMetaData> | undefined;
  let group: { readonly number: number; readonly file: GroupFile } | undefined;
  let latest: { readonly span: RowPiece; readonly decoded: Promise<Decoded> } | undefined;
  const decode = async (span: RowPiece): Promise<Decoded> => {
    footer ??= readFooter(storage, head);
    const metadata = await footer;
    if (group?.number !== span.group) {
      const chunks = chunksOf(metadata, span.group, names).map(spanOf);
      group = { number: span.group, file: groupFile(storage, head, chunks) };
    }
    return decodeRows(group.file, metadata, head, span);
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
      return rowsOf(head, decoded, latest.span.from, span, { isLast, columns: names.size });
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

/** Rows that are decoded: the model's inputs as they are sent, and the values that are kept, by column. */
interface Decoded {
  readonly filled: readonly FilledInput[];
  readonly kept: readonly (readonly [name: string, values: DecodedArray])[];
}

async function decodeRows(
  file: GroupFile,
  metadata: FileMetaData,
  { key, inputs = [], keep }: JobHead,
  { from, to }: RowPiece,
): Promise<Decoded> {
  // A scan holds every column that it has read: of inputs, one is let go once its values are where they are sent from.
  const read = async (column: string): Promise<DecodedArray> => {
    const options = { columns: [column], parsers: spellTimes(isUtc(metadata, column)), useOffsetIndex: false };
    try {
      const scan = await parquetScan({ file, metadata, compressors: COMPRESSORS, ...options });
      const values = await scan.readColumn({ column, rowStart: from, rowEnd: to });
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
  return { filled, kept };
}

/** @param first of the rows that are decoded: its number in the file */
function rowsOf(
  { inputs = [] }: JobHead,
  { filled, kept }: Decoded,
  first: number,
  { from, to }: RowPiece,
  { isLast, columns }: { readonly isLast: boolean; readonly columns: number },
): PieceRows {
  const specs = inputs.map(
    ({ input, datatype, shape }) =>
      `{"name":${JSON.stringify(input)},"datatype":"${datatype}","shape":[${shape.join(',')}]}`,
  );
  const head = `{"inputs":[${specs.join(',')}],"parameters":{"binary_data_output":false},"raw_input_contents":["`;
  const rowOf = (number: number): PieceRow => {
    const id = String(number);
    const row = number - first;
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
