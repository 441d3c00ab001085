import type { FileMetaData } from 'hyparquet';
import type { JobStorage } from '../../core/job/storage.ts';
import {
  type InputColumns,
  JobError,
  type JobInput,
  type Part,
  type RowPiece,
  type Spec,
} from '../../core/job/words.ts';
import type { Model } from '../../core/model.ts';
import { DATATYPES } from '../../core/tensor.ts';
import { type ColumnKind, chunksOf, columnsOf } from '../read/parquet/columnsOf.ts';
import { CODECS, readFooter } from '../read/parquet/parquetFile.ts';
import { matchColumns } from './matchColumns.ts';

export interface ParquetOptions {
  readonly spec: Spec;
  readonly model: Model;
  readonly partBytes: number;
  readonly pieceBytes: number;
}

/** Compressed bytes of the needed columns of one row group: they are in memory together. */
const MOST_GROUP_BYTES = 256 * 1024 * 1024;
/** What a row takes besides its values. */
const ROW_BYTES = 64;

/** Cuts Parquet: a piece is rows of one row group, or several row groups, that come to `pieceBytes`, a part some of them. */
export async function layOutParquet(storage: JobStorage, input: JobInput, options: ParquetOptions) {
  const { model, spec, partBytes, pieceBytes } = options;
  const footer = await readFooter(storage, input);
  const columns = columnsOf(footer);
  const inputs = matchColumns(model, [...columns.keys()], spec);
  refuseKinds(inputs, columns);
  const names = new Set([...inputs.flatMap((one) => one.columns), ...(spec.keep ?? [])]);
  refuseGroups(input, footer, names);
  const pieces = piecesIn(footer, names, inputs, pieceBytes);
  return { inputs, parts: inParts(pieces, partBytes, pieceBytes) };
}

function refuseKinds(inputs: readonly InputColumns[], columns: ReadonlyMap<string, ColumnKind>): void {
  for (const { input, datatype, columns: wanted } of inputs) {
    const kind: ColumnKind = DATATYPES[datatype].kind === 'string' ? 'text' : 'number';
    const wrong = wanted.find((name) => columns.get(name) !== kind);
    if (wrong === undefined) continue;
    const expected = kind === 'text' ? 'texts' : 'booleans, integers or floats, not dates, decimals or lists,';
    throw new JobError(
      'INVALID_JOB',
      `column '${wrong}': expected ${expected} for the input '${input}' of ${datatype}, got another type; convert it`,
    );
  }
}

function refuseGroups({ key }: JobInput, footer: FileMetaData, names: ReadonlySet<string>): void {
  for (const group of footer.row_groups.keys()) {
    const chunks = chunksOf(footer, group, names);
    const codec = chunks.find((chunk) => !CODECS.includes(chunk.codec))?.codec;
    if (codec !== undefined) {
      throw new JobError(
        'INVALID_JOB',
        `${key}: expected one of ${CODECS.join(', ')}, got ${codec}; write it with another`,
      );
    }
    const bytes = chunks.reduce((sum, chunk) => sum + Number(chunk.total_compressed_size), 0);
    if (bytes <= MOST_GROUP_BYTES) continue;
    const rows = Number(footer.row_groups[group]?.num_rows ?? 0);
    throw new JobError(
      'INVALID_JOB',
      `${key}: expected row groups of at most ${MOST_GROUP_BYTES} bytes in the columns that are read, got ${bytes} ` +
        `(row group ${group}, ${rows} rows); write at most ${Math.floor((rows * MOST_GROUP_BYTES) / bytes)} rows into one`,
    );
  }
}

function piecesIn(
  footer: FileMetaData,
  names: ReadonlySet<string>,
  inputs: readonly InputColumns[],
  pieceBytes: number,
): RowPiece[] {
  const pieces: RowPiece[] = [];
  const least = inputs.reduce((sum, { columns }) => sum + 8 * columns.length, ROW_BYTES);
  let start = 0;
  /** What the last piece comes to where it is whole row groups, so that the next may be taken together with them. */
  let bytesOfWhole = Number.POSITIVE_INFINITY;
  for (const [group, { num_rows }] of footer.row_groups.entries()) {
    const rows = Number(num_rows);
    if (rows === 0) continue;
    const stored = chunksOf(footer, group, names).reduce((sum, one) => sum + Number(one.total_uncompressed_size), 0);
    // A dictionary stores a long text once, and each row of it takes memory.
    const rowBytes = Math.max(least, stored / rows);
    const last = pieces.at(-1);
    if (last !== undefined && bytesOfWhole + rows * rowBytes <= pieceBytes) {
      pieces[pieces.length - 1] = { ...last, to: start + rows };
      bytesOfWhole += rows * rowBytes;
    } else {
      const step = Math.max(1, Math.floor(pieceBytes / rowBytes));
      for (let at = 0; at < rows; at += step) {
        pieces.push({ group, from: start + at, to: start + Math.min(at + step, rows) });
      }
      bytesOfWhole = rows <= step ? rows * rowBytes : Number.POSITIVE_INFINITY;
    }
    start += rows;
  }
  return pieces;
}

function inParts(pieces: readonly RowPiece[], partBytes: number, pieceBytes: number): Part[] {
  const most = Math.max(1, Math.floor(partBytes / pieceBytes));
  const parts: Part[] = [];
  for (let at = 0; at < pieces.length; at += most) {
    const rows = pieces.slice(at, at + most);
    parts.push({ part: parts.length, start: rows[0]?.from ?? 0, end: rows.at(-1)?.to ?? 0, rows });
  }
  return parts.length > 0 ? parts : [{ part: 0, start: 0, end: 0, rows: [] }];
}
