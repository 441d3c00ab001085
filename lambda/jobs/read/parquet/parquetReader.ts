import { type AsyncBuffer, type DecodedArray, type FileMetaData, parquetScan } from 'hyparquet';
import { failure } from '../../../core/contract/failure.ts';
import type { JobStorage } from '../../../core/job/storage.ts';
import type { JobHead, Part, RowPiece } from '../../../core/job/words.ts';
import type { PieceReader, PieceRow, PieceRows } from '../pieceRows.ts';
import { chunksOf, spanOf } from './columnsOf.ts';
import { fillInput } from './fillInput.ts';
import { COMPRESSORS, groupFile, readFooter } from './parquetFile.ts';

/**
 * The pieces of a part of Parquet: rows of one row group. Each row becomes a request with `raw_input_contents`, so that
 * one that fails fails alone. Its id is its number in the file, from 0.
 */
export function openParquet(storage: JobStorage, head: JobHead, part: Part): PieceReader {
  const { rows: pieces = [] } = part;
  const names = [...new Set([...(head.inputs ?? []).flatMap(({ columns }) => columns), ...head.keep])];
  let footer: Promise<FileMetaData> | undefined;
  let latest: { readonly group: number; readonly file: AsyncBuffer } | undefined;
  const fileOf = (metadata: FileMetaData, group: number): AsyncBuffer => {
    if (latest?.group !== group) {
      const chunks = chunksOf(metadata, group, new Set(names)).map(spanOf);
      latest = { group, file: groupFile(storage, head, chunks) };
    }
    return latest.file;
  };
  return {
    async read(piece) {
      const span = pieces[piece];
      if (span === undefined) return undefined;
      footer ??= readFooter(storage, head);
      const metadata = await footer;
      const data = await readColumns(fileOf(metadata, span.group), metadata, names, span);
      return rowsOf(head, data, span, piece === pieces.length - 1);
    },
    close: () => {
      latest = undefined;
    },
  };
}

async function readColumns(
  file: AsyncBuffer,
  metadata: FileMetaData,
  names: readonly string[],
  { from, to }: RowPiece,
): Promise<ReadonlyMap<string, DecodedArray>> {
  const scan = await parquetScan({
    file,
    metadata,
    columns: [...names],
    compressors: COMPRESSORS,
    useOffsetIndex: false,
  });
  const data = new Map<string, DecodedArray>();
  for (const column of names) data.set(column, await scan.readColumn({ column, rowStart: from, rowEnd: to }));
  return data;
}

function rowsOf(
  { inputs = [], keep }: JobHead,
  data: ReadonlyMap<string, DecodedArray>,
  { from, to }: RowPiece,
  isLast: boolean,
): PieceRows {
  const column = (name: string): DecodedArray => data.get(name) ?? [];
  const count = to - from;
  const filled = inputs.map((input) => fillInput(input, input.columns.map(column), count));
  const specs = inputs.map(
    ({ input, datatype, shape }) =>
      `{"name":${JSON.stringify(input)},"datatype":"${datatype}","shape":[${shape.join(',')}]}`,
  );
  const head = `{"inputs":[${specs.join(',')}],"parameters":{"binary_data_output":false},"raw_input_contents":["`;
  const kept = keep.map((name) => [JSON.stringify(name), column(name)] as const);
  const rowAt = (row: number): PieceRow => {
    const id = String(from + row);
    const beside = kept.length === 0 ? {} : { kept: spellKept(kept, row) };
    const problem = filled.find(({ problems }) => problems.has(row))?.problems.get(row);
    if (problem !== undefined) return { id, text: '', failed: failure('INVALID_DATA', problem), ...beside };
    return { id, text: `${head}${filled.map(({ raw }) => raw(row)).join('","')}"]}`, ...beside };
  };
  let next = 0;
  return {
    bytes: [...data.values()].reduce(
      (sum, values) => sum + (ArrayBuffer.isView(values) ? values.byteLength : 8 * count),
      0,
    ),
    isLast,
    take(most) {
      const end = Math.min(count, next + most);
      const rows: PieceRow[] = [];
      for (; next < end; next++) rows.push(rowAt(next));
      return rows;
    },
  };
}

function spellKept(kept: readonly (readonly [name: string, values: DecodedArray])[], row: number): string {
  return `{${kept.map(([name, values]) => `${name}:${JSON.stringify(values[row] ?? null, spellable)}`).join(',')}}`;
}

/** What JSON has no word for: integers that a double cannot hold are digits, bytes base64. */
function spellable(_: string, value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;
}
