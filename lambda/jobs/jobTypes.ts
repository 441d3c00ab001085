import * as z from 'zod';
import { DATATYPES, type Datatype } from '../core/tensor.ts';
import { type ByteRange, COMPRESSIONS, FORMATS } from './jobFiles.ts';

/*
 * A call of another version of the deployment may read a start, a head, a part or a report. It ignores unknown keys and
 * refuses an object without a required key.
 */

const names = z.array(z.string()).readonly();
const count = z.int().min(0);
/** Number of error results by code. */
const errors = z.record(z.string(), count).readonly();
/** First error result of each code. */
const reasons = z.record(z.string(), z.object({ message_id: z.string(), error: z.string() }).readonly()).readonly();
export type Reasons = z.infer<typeof reasons>;
const separator = z.string().length(1);
const datatype = z.string().refine((name): name is Datatype => Object.hasOwn(DATATYPES, name));

/** Settings of a job, besides the object. Every key has a default. */
const SPEC = z.object({
  /** @default the deployment's default model */
  model: z.string().optional(),
  /** @default the model's highest version when the job is planned */
  version: z.string().optional(),
  /** @default the format of the key's extension */
  format: z.enum(FORMATS).optional(),
  /** @default the compression of the key's extension */
  compression: z.enum(COMPRESSIONS).optional(),
  /**
   * Columns of each input, in the order of its elements, for CSV, Parquet and plain objects.
   * @default for each input, the column of the same name
   */
  inputs: z.record(z.string(), names).readonly().optional(),
  /** Columns to copy into the results, for CSV, Parquet and plain objects. @default none */
  keep: names.optional(),
  /** Character between CSV fields. @default a comma */
  separator: separator.optional(),
  /**
   * Value of an empty cell or null in an input of numbers or booleans, such as `nan` or `0`. Text inputs
   * take an empty cell as an empty text. With this setting they take null as one, too. @default an error
   */
  missing: z.string().optional(),
  /** Format of the results. A table needs rows with columns. @default jsonl */
  results: z.enum(FORMATS).optional(),
});
export type Spec = z.infer<typeof SPEC>;

const file = { key: z.string(), etag: z.string(), bytes: count };
const input = { bucket: z.string(), ...file };

export const JOB_START = z.object({
  ...input,
  job: z.string(),
  /** 1, or 2, 3, … if the job is resumed. */
  run: count,
  /** Prefix of all keys of the job. It ends in `/`. */
  folder: z.string(),
  /** Maximum number of concurrent calls. */
  concurrency: count,
  spec: SPEC,
});
export type JobStart = z.infer<typeof JOB_START>;

const TENSOR = z.object({
  name: z.string(),
  datatype,
  shape: z.array(count.or(z.string())).readonly(),
  batchAxis: count.optional(),
});

const INPUT_COLUMNS = z.object({
  input: z.string(),
  datatype,
  /** Shape of one row as in a request: the batch axis has size 1. Empty for a column of lists. */
  shape: z.array(count).readonly(),
  columns: names,
  /** Set if the input is one column of lists or single values. Each row then has the shape of its own cell. */
  list: TENSOR.optional(),
});
export type InputColumns = z.infer<typeof INPUT_COLUMNS>;

/** Result of planning, for every call. It is written once, before the plan. */
export const JOB_HEAD = z.object({
  ...input,
  job: z.string(),
  model: z.string(),
  version: z.string(),
  /** Number of files, if the input is not one object. */
  files: count.optional(),
  format: z.enum(FORMATS),
  /** Compression of the first file. */
  compression: z.enum(COMPRESSIONS),
  partBytes: z.int().min(1),
  pieceBytes: z.int().min(1),
  parts: count,
  /** Undefined with a compressed file whose number of pieces is unknown until it is read. */
  pieces: count.optional(),
  /** CSV only: names in the header, in order. */
  columns: names.optional(),
  /** Undefined if the rows are requests. */
  inputs: z.array(INPUT_COLUMNS).readonly().optional(),
  /** Outputs in each result, or `own` if a transform makes the result. */
  outputs: z.array(TENSOR).readonly().or(z.literal('own')).optional(),
  keep: names,
  separator: separator.optional(),
  missing: z.string().optional(),
  results: z.enum(FORMATS),
  plannedAt: z.string(),
});
export type JobHead = z.infer<typeof JOB_HEAD>;

/** Rows `from` to `to` (exclusive) of the file, in row group `group` and possibly those after it. */
const ROW_PIECE = z.object({ group: count, from: count, to: count });
export type RowPiece = z.infer<typeof ROW_PIECE>;

/**
 * Span of a file.
 *
 * | file            | `start`, `end`                              | pieces                      |
 * | --------------- | ------------------------------------------- | --------------------------- |
 * | text            | bytes, `end` exclusive                      | `pieceBytes` of the head    |
 * | compressed text | decompressed bytes; the `end` is unknown    | `pieceBytes` of the head    |
 * | Parquet         | rows, `end` exclusive                       | listed in `rows`            |
 */
const SPAN = z.object({
  start: count,
  /** Undefined if the span ends where the text ends. */
  end: count.optional(),
  rows: z.array(ROW_PIECE).readonly().optional(),
});
export type Span = z.infer<typeof SPAN>;

const PART_FILE = SPAN.extend({
  ...file,
  /** Path in the results. Empty if the input of the job is one object. */
  path: z.string(),
  compression: z.enum(COMPRESSIONS),
});
export type PartFile = z.infer<typeof PART_FILE>;

/** Work of one child of the map: one line of the plan. */
export const PART = z.object({
  part: count,
  /** One file, or several small files of one piece each. */
  files: z.array(PART_FILE).min(1).readonly(),
  /** Pieces without a report, if the job is resumed. @default all */
  only: z.array(count).readonly().optional(),
  /** Pieces with a report, if the job is resumed and the number of pieces is unknown. @default none */
  except: z.array(count).readonly().optional(),
});
export type Part = z.infer<typeof PART>;

/** Start of the next call. The data objects tell how much of the piece is done. */
export interface Next {
  readonly piece: number;
  /** Number of successive calls that answered no row. The next call uses smaller steps. @default 0 */
  readonly fruitless?: number | undefined;
  /** Set if calls died while they scored this piece or read one beside it. The next call reads it alone. */
  readonly isSuspect?: true | undefined;
}

/** Written when a piece is done. A piece with a report is done. */
export const REPORT = z.object({
  part: count,
  piece: count,
  rows: count,
  errors,
  bytesIn: count,
  bytesOut: count,
  objects: count,
  /** Duration of the call that finished the piece. */
  ms: z.number(),
  /** Set for the last piece of a compressed object. */
  last: z.literal(true).optional(),
});
export type Report = z.infer<typeof REPORT>;

export const FAILED_PIECE = z.object({
  part: count,
  piece: count,
  /** Path of the file, if the input of the job is not one object. */
  path: z.string().optional(),
  code: z.string(),
  error: z.string(),
  /** Manifest only: number of rows at the start of the piece that have results. */
  rows: count.optional(),
});
export type FailedPiece = z.infer<typeof FAILED_PIECE>;

/** Metadata of a data object. */
export const ANSWERED = z.object({ rows: z.int().min(1), errors, reasons: reasons.optional() });

/** Written last. A job with a manifest is done. */
export const MANIFEST = z.object({
  job: z.string(),
  input: z.object(input),
  /** Number of files, if the input is not one object. */
  files: count.optional(),
  model: z.string(),
  version: z.string(),
  rows: count,
  errors,
  reasons: reasons.optional(),
  failedParts: z.array(FAILED_PIECE).readonly(),
  /** Objects under `prefix`. The order of their keys is the order of each file. */
  data: z.object({ prefix: z.string(), objects: count, format: z.enum(FORMATS) }),
  bytesIn: count,
  bytesOut: count,
  plannedAt: z.string(),
  finishedAt: z.string(),
});
export type Manifest = z.infer<typeof MANIFEST>;

export const FAILURE = z.object({ code: z.string(), message: z.string() });
export type JobFailure = z.infer<typeof FAILURE>;

/**
 * Splits `bytes` into spans, in order and without gaps. An empty object has one empty span, because a plan needs at
 * least one line.
 *
 * @param start first byte of the rows, after a header
 */
export function spansOf(bytes: number, partBytes: number, start = 0): Span[] {
  const spans: Span[] = [];
  for (let at = start; at < bytes; at += partBytes) spans.push({ start: at, end: Math.min(at + partBytes, bytes) });
  return spans.length > 0 ? spans : [{ start, end: Math.max(start, bytes) }];
}

function pieceCount({ start, end }: ByteRange, pieceBytes: number): number {
  return Math.ceil((end - start) / pieceBytes);
}

/** Returns the number of pieces of a part, or undefined if only reading it all tells. */
export function piecesOf({ files }: Pick<Part, 'files'>, pieceBytes: number): number | undefined {
  const [{ start, end, rows }] = files as readonly [PartFile];
  if (files.length > 1) return files.length;
  if (rows !== undefined) return rows.length;
  return end === undefined ? undefined : pieceCount({ start, end }, pieceBytes);
}

/** Returns the file of a piece, and the number of the piece in it. The file is undefined past the last piece. */
export function pieceIn(
  { files }: Part,
  piece: number,
): { readonly file: PartFile | undefined; readonly piece: number } {
  return files.length === 1 ? { file: files[0], piece } : { file: files[piece], piece: 0 };
}

/** Returns the first piece to score at or after `piece`, or Infinity if there is none. */
export function wantedFrom({ only, except }: Part, piece: number): number {
  if (only !== undefined) return only.find((one) => one >= piece) ?? Number.POSITIVE_INFINITY;
  let wanted = piece;
  while (except?.includes(wanted)) wanted += 1;
  return wanted;
}
