import { addAbortSignal, type Readable } from 'node:stream';
import { isFailure, preview } from '../../lambda/core/failure.ts';
import type { ModelDescription } from '../../lambda/core/model.ts';
import type { ByteRange } from '../../lambda/jobs/jobFiles.ts';
import type { Spec } from '../../lambda/jobs/jobTypes.ts';
import {
  columnsIn,
  firstObject,
  type LineReader,
  lineReaderOf,
  readLines,
  refuseOtherLayouts,
} from '../../lambda/jobs/lineRows.ts';
import { matchColumns, matchKeys } from '../../lambda/jobs/matchColumns.ts';
import { arePlainObjects, isBlankLine } from '../../lambda/jobs/rowRequests.ts';
import type { Rows } from '../../lambda/jobs/rows.ts';
import { UsageError } from '../arguments.ts';
import {
  batchesOfLines,
  failedLine,
  type InputFile,
  type Line,
  type LineBatchLimits,
  textsOf,
  untilAborted,
} from '../textFiles.ts';

export interface RowBatch {
  readonly rows: Rows;
  /** Share of the file up to the last row, from 0 to 1. Undefined if the file's size is unknown. */
  readonly share: number | undefined;
}

/**
 * Yields the rows of a file in batches, in order. The ID of a row is the number of its line, or in Parquet its index
 * from 0.
 *
 * @param signal ends the sequence after the requested batch
 * @param skip number of rows to leave out at the start
 * @throws Error if the file has no rows, no header, or the wrong columns
 */
export async function* rowBatches(
  input: InputFile,
  options: RowOptions,
  signal: AbortSignal,
  skip = 0,
): AsyncGenerator<RowBatch> {
  if (input.bytes === 0) throw noRows(options.name, 'an empty file');
  let isEmpty = skip === 0;
  let left = skip;
  for await (const { rows, share } of batchesIn(input, options, signal)) {
    isEmpty = false;
    const skipped = Math.min(left, rows.length);
    left -= skipped;
    if (skipped < rows.length) yield { rows: rows.slice(skipped), share };
  }
  if (isEmpty && !signal.aborted) throw noRows(options.name, 'none');
}

function noRows(name: string, got: string): Error {
  return new Error(`${name}: expected rows to score, got ${got}; check what wrote it`);
}

function batchesIn(input: InputFile, options: RowOptions, signal: AbortSignal): AsyncGenerator<RowBatch> {
  if (options.format === 'parquet') return parquetBatches(input, options, signal);
  if (options.format !== 'csv') return jsonBatches(input, options, signal);
  return untilAborted(csvBatches(addAbortSignal(signal, input.stream), input, options), signal);
}

async function* csvBatches(
  stream: Readable,
  { lineLimit, shareOf }: InputFile,
  options: RowOptions,
): AsyncGenerator<RowBatch> {
  const { limits, spec } = options;
  let reader: LineReader | undefined;
  let [lines, characters, bytes] = [0, 0, 0];
  let share: number | undefined;
  for await (const text of textsOf(stream, lineLimit, () => lines)) {
    if (isFailure(text)) {
      lines += 1;
      if (reader === undefined) throw failedLine(text, lines);
      reader.refuse(lines, text);
      continue;
    }
    const textBytes = Buffer.byteLength(text);
    let at = 0;
    while (reader === undefined && at < text.length) {
      const end = text.indexOf('\n', at);
      const header = text.slice(at, end < 0 ? undefined : end);
      lines += 1;
      at = end < 0 ? text.length : end + 1;
      if (!isBlankLine(header, spec.separator)) reader = readerOfCsv(header, options);
    }
    while (reader !== undefined && at < text.length) {
      const from = at;
      at = readLines(text, from, reader, limits.lines, spec.separator, () => ++lines);
      characters += at - from;
      share = shareOf(bytes + (textBytes * Math.min(at, text.length)) / text.length);
      if (reader.length < limits.lines && characters < limits.characters) continue;
      if (reader.length > 0) yield { rows: reader.take(), share };
      characters = 0;
    }
    bytes += textBytes;
  }
  if (reader !== undefined && reader.length > 0) yield { rows: reader.take(), share };
}

async function* jsonBatches(input: InputFile, options: RowOptions, signal: AbortSignal): AsyncGenerator<RowBatch> {
  let reader: LineReader | undefined;
  let bytes = 0;
  for await (const batch of batchesOfLines(input, options.limits, signal)) {
    reader ??= readerOfJson(batch, options);
    for (const { number, text, failed } of batch) {
      bytes += Buffer.byteLength(text) + 1;
      if (failed === undefined) reader.add(number, text, 0, text.length);
      else reader.refuse(number, failed);
    }
    yield { rows: reader.take(), share: input.shareOf(bytes) };
  }
}

/** Bytes of Parquet columns that are decoded together. */
const PIECE_BYTES = 2 * 1024 * 1024;

/** Yields the rows of a Parquet file in pieces, as jobs do. */
async function* parquetBatches(
  { bytes, readRange }: InputFile,
  { model, name, spec, limits }: RowOptions,
  signal: AbortSignal,
): AsyncGenerator<RowBatch> {
  if (bytes === undefined) {
    throw new UsageError(`${name}: expected a file of Parquet, whose columns lie apart, got a pipe; save it first`);
  }
  // Other formats start 60 ms sooner without these.
  const { layOutParquet } = await import('../../lambda/jobs/planJob.ts');
  const { openParquet } = await import('../../lambda/jobs/parquetRows.ts');
  const file = { bucket: '', key: name, etag: '', bytes };
  const storage = { readRange: (_: unknown, { start, end }: ByteRange) => readRange(start, end) };
  const limit = { storage, partBytes: bytes, pieceBytes: PIECE_BYTES };
  const { inputs, parts } = await layOutParquet(file, spec, model, limit);
  const pieces = parts.flatMap(({ rows = [] }) => rows);
  const all = pieces.at(-1)?.to ?? 0;
  const reader = openParquet(storage, { ...file, ...spec, inputs, keep: spec.keep ?? [] }, { rows: pieces });
  for (const [piece, { from, to }] of pieces.entries()) {
    const found = await reader.read(piece, () => true);
    for (let end = from; found !== undefined && end < to && !signal.aborted; ) {
      const rows = found.take(limits.lines);
      if (rows === undefined) break;
      end += rows.length;
      yield { rows, share: end / all };
    }
  }
}

function readerOfJson(batch: readonly Line[], options: RowOptions): LineReader {
  const { model, name, format, spec, takesRequests } = options;
  const [{ text: line, number, failed }, ...rest] = batch as readonly [Line, ...Line[]];
  if (failed !== undefined) throw failedLine(failed, number);
  const others = rest.map(({ text }) => text);
  if (format === undefined && ![line, ...others].some((text) => /^\s*[{[]/.test(text))) {
    throw new Error(
      `${name}: expected lines of JSON, got ${preview(line)} first; where that is a header of CSV, add --format csv`,
    );
  }
  if (format !== 'requests') refuseOtherLayouts(name, [line, ...others], model);
  const first = firstObject([line, ...others]);
  if (format === 'objects' || (format === undefined && arePlainObjects(first, model))) {
    const { keep = [], missing } = spec;
    return lineReaderOf({ inputs: matchKeys(model, first, spec), keep, missing });
  }
  refuseColumns(spec, 'requests, one a line');
  if (!takesRequests) {
    throw new UsageError(
      'expected rows of a data file for results as a table, got requests; write the results as jsonl, or give CSV ' +
        'or plain objects',
    );
  }
  return lineReaderOf({ keep: [] });
}

function readerOfCsv(header: string, { model, name, spec }: RowOptions): LineReader {
  const columns = columnsIn(name, header, spec.separator);
  return lineReaderOf({ ...spec, columns, inputs: matchColumns(model, columns, spec), keep: spec.keep ?? [] });
}

function refuseColumns(spec: ColumnSpec, got: string): void {
  const option = (['inputs', 'keep', 'separator', 'missing'] as const).find((name) => spec[name] !== undefined);
  if (option === undefined) return;
  throw new UsageError(
    `--${option}: expected a file with columns, CSV, Parquet or plain objects, got ${got}; leave it out`,
  );
}

/** Options for columns: the columns of each input, the columns to copy to the results, and the values of cells. */
type ColumnSpec = Pick<Spec, 'inputs' | 'keep' | 'separator' | 'missing'>;

/** Limits of the next batch. */
export interface BatchLimits extends LineBatchLimits {
  /** Takes what a batch took. */
  record(rows: number, ms: number): void;
}

/** Options for a file of rows that are known before it is read. */
export interface RowOptions {
  readonly model: ModelDescription;
  /** Name of the file for messages. */
  readonly name: string;
  /** @default the format that the first line shows */
  readonly format: DataFormat | undefined;
  readonly spec: ColumnSpec;
  /** True if lines may be requests. Results of requests have no columns. */
  readonly takesRequests: boolean;
  readonly limits: BatchLimits;
}

/** Formats of input: one request or plain object per line, CSV with a header, or Parquet. */
export const DATA_FORMATS = ['requests', 'objects', 'csv', 'parquet'] as const;
type DataFormat = (typeof DATA_FORMATS)[number];

/**
 * Returns the format by the extension of a name. It is undefined for lines of JSON, because only the first line shows
 * their kind.
 */
export function formatByEnding(path: string): DataFormat | undefined {
  if (/\.[ct]sv(\.gz)?$/i.test(path)) return 'csv';
  return /\.(parquet|pq)$/i.test(path) ? 'parquet' : undefined;
}
