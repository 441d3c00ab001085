import * as z from 'zod';
import { DATATYPES, type Datatype } from '../core/tensor.ts';

/** How rows lie in an object. */
export const FORMATS = ['jsonl', 'csv', 'parquet'] as const;
export type Format = (typeof FORMATS)[number];

/** What an object of lines is compressed with; Parquet compresses within itself. */
export const COMPRESSIONS = ['none', 'gzip', 'zstd'] as const;
export type Compression = (typeof COMPRESSIONS)[number];

/*
 * Start, head, parts and reports are also read by calls of another version of the deployment than the one that wrote them:
 * unknown keys are left out, and what lacks a needed one is refused.
 */

const names = z.array(z.string()).readonly();
const count = z.int().min(0);
/** Error results by code. */
const errors = z.record(z.string(), count).readonly();
/** The first error result of each code. */
const reasons = z.record(z.string(), z.object({ message_id: z.string(), error: z.string() }).readonly()).readonly();
export type Reasons = z.infer<typeof reasons>;
const separator = z.string().length(1);
const datatype = z.string().refine((name): name is Datatype => Object.hasOwn(DATATYPES, name));

/** What is asked for, besides the object. Every key has a default. */
const SPEC = z.object({
  /** @default the deployment's default model */
  model: z.string().optional(),
  /** @default the model's highest version, when the job is planned */
  version: z.string().optional(),
  /** @default by the key's ending */
  format: z.enum(FORMATS).optional(),
  /** @default by the key's ending */
  compression: z.enum(COMPRESSIONS).optional(),
  /** Of CSV, Parquet and plain objects: the columns that make up an input, in the order of its elements. @default for each input the column of its name */
  inputs: z.record(z.string(), names).readonly().optional(),
  /** Of CSV, Parquet and plain objects: columns that are carried beside the result. @default none */
  keep: names.optional(),
  /** Of CSV: the character between fields. @default a comma */
  separator: separator.optional(),
  /** What an empty cell, or null, becomes in an input of numbers or booleans, such as `nan` or `0`; in one of texts an empty text. @default an error */
  missing: z.string().optional(),
});
export type Spec = z.infer<typeof SPEC>;

const input = { bucket: z.string(), key: z.string(), etag: z.string(), bytes: count };

/** One version of one object. */
export interface JobInput {
  readonly bucket: string;
  readonly key: string;
  readonly etag: string;
  readonly bytes: number;
}

export const JOB_START = z.object({
  ...input,
  job: z.string(),
  /** 1; 2, 3, … where the job is resumed. */
  run: count,
  /** What the keys of all its objects begin with: it ends in `/`. */
  folder: z.string(),
  /** Most calls at a time. */
  concurrency: count,
  spec: SPEC,
});
export type JobStart = z.infer<typeof JOB_START>;

/** An input or an output, as the model has it. */
const TENSOR = z.object({
  name: z.string(),
  datatype,
  shape: z.array(count.or(z.string())).readonly(),
  batchAxis: count.optional(),
});

/** What makes up one input of the model. */
const INPUT_COLUMNS = z.object({
  input: z.string(),
  datatype,
  /** Of one row, as a request has it: with the batch axis, of size 1. Empty for a column of lists. */
  shape: z.array(count).readonly(),
  columns: names,
  /** Input of one column whose cells are lists, or single values: each row has the shape of its own cell. */
  list: TENSOR.optional(),
});
export type InputColumns = z.infer<typeof INPUT_COLUMNS>;

/** What makes up one input of the model where rows are plain objects: how an array lies in it is seen row by row. */
const OBJECT_INPUT = z.object({ spec: TENSOR, columns: names });
export type ObjectInput = z.infer<typeof OBJECT_INPUT>;

/** What the plan found out, for every call. Written once, before the plan. */
export const JOB_HEAD = z.object({
  ...input,
  job: z.string(),
  model: z.string(),
  version: z.string(),
  format: z.enum(FORMATS),
  compression: z.enum(COMPRESSIONS),
  partBytes: z.int().min(1),
  pieceBytes: z.int().min(1),
  parts: count,
  /** Undefined where only reading it all would tell: the object is compressed. */
  pieces: count.optional(),
  /** Of CSV: the names of the header, in order. */
  columns: names.optional(),
  /** Of CSV and Parquet. */
  inputs: z.array(INPUT_COLUMNS).readonly().optional(),
  /** Of JSON lines that are plain objects. */
  objects: z.array(OBJECT_INPUT).readonly().optional(),
  /** What each result holds, `own` where a transform makes it. */
  outputs: z.array(TENSOR).readonly().or(z.literal('own')).optional(),
  keep: names,
  separator: separator.optional(),
  missing: z.string().optional(),
  plannedAt: z.string(),
});
export type JobHead = z.infer<typeof JOB_HEAD>;

/** Rows `from` until before `to` of the file: some of the row group `group`, or all of it and of those after it. */
const ROW_PIECE = z.object({ group: count, from: count, to: count });
export type RowPiece = z.infer<typeof ROW_PIECE>;

/**
 * What one child of the map scores, a line of the plan. Of text the bytes from `start` until before `end`, cut into
 * pieces of the head's `pieceBytes`; of a compressed object the bytes that it holds, `end` being unknown. Of Parquet
 * the rows, and its pieces are listed.
 */
export const PART = z.object({
  part: count,
  start: count,
  /** Undefined: to the end, wherever that is. */
  end: count.optional(),
  rows: z.array(ROW_PIECE).readonly().optional(),
  /** Of a resumed job: the pieces that have no report. @default all */
  only: z.array(count).readonly().optional(),
  /** Of a resumed job whose pieces are not known beforehand: those that have a report. @default none */
  except: z.array(count).readonly().optional(),
});
export type Part = z.infer<typeof PART>;

/** Where the next call goes on. What is done within the piece is seen from its data objects. */
export interface Next {
  readonly piece: number;
  /** How many calls in a row have ended without an answer to any row: rows are then scored in smaller steps. @default 0 */
  readonly fruitless?: number | undefined;
  /** Calls have died of the piece, or of one that was read beside it: it is read once more by itself. */
  readonly isSuspect?: true | undefined;
}

/** Written when a piece is done: its presence says so. */
export const REPORT = z.object({
  part: count,
  piece: count,
  rows: count,
  errors,
  bytesIn: count,
  bytesOut: count,
  objects: count,
  /** Milliseconds of the call that finished it. */
  ms: z.number(),
  /** Of a compressed object: nothing follows. */
  last: z.literal(true).optional(),
});
export type Report = z.infer<typeof REPORT>;

export const FAILED_PIECE = z.object({
  part: count,
  piece: count,
  code: z.string(),
  error: z.string(),
  /** In the manifest: its first rows, so many, were scored before, and have their results. */
  rows: count.optional(),
});
export type FailedPiece = z.infer<typeof FAILED_PIECE>;

/** What is said about a data object. */
export const ANSWERED = z.object({ rows: z.int().min(1), errors });

/** Written last: its presence means that the job is done. */
export const MANIFEST = z.object({
  job: z.string(),
  input: z.object(input),
  model: z.string(),
  version: z.string(),
  rows: count,
  errors,
  reasons: reasons.optional(),
  failedParts: z.array(FAILED_PIECE).readonly(),
  /** Objects under `prefix`: their keys in order are the input's order. */
  data: z.object({ prefix: z.string(), objects: count }),
  bytesIn: count,
  bytesOut: count,
  plannedAt: z.string(),
  finishedAt: z.string(),
});
export type Manifest = z.infer<typeof MANIFEST>;

/** Why a job ended without a manifest. */
export const FAILURE = z.object({ code: z.string(), message: z.string() });
export type JobFailure = z.infer<typeof FAILURE>;

/** Why a job ends without a manifest. The state machine knows them as the names of errors. */
export const JOB_CODES = [
  'INPUT_CHANGED',
  'INPUT_NOT_FOUND',
  'INVALID_JOB',
  'PIECES_MISSING',
  'RESULTS_MISSING',
] as const;
type JobCode = (typeof JOB_CODES)[number];

/** The job cannot go on, whatever is tried again. */
export class JobError extends Error {
  constructor(code: JobCode, message: string) {
    super(message);
    this.name = code;
  }
}

/** A range of bytes, from `start` until before `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Cuts `bytes` into parts, in order and without gaps. Where there are no rows there is one part, which is empty: a plan
 * has a line.
 *
 * @param start of the first, where something comes before the rows
 */
export function partsOf(bytes: number, partBytes: number, start = 0): Part[] {
  const parts: Part[] = [];
  for (let at = start; at < bytes; at += partBytes) {
    parts.push({ part: parts.length, start: at, end: Math.min(at + partBytes, bytes) });
  }
  return parts.length > 0 ? parts : [{ part: 0, start, end: Math.max(start, bytes) }];
}

/** How many pieces the bytes from `start` until before `end` are cut into. */
function pieceCount({ start, end }: ByteRange, pieceBytes: number): number {
  return Math.ceil((end - start) / pieceBytes);
}

/** How many pieces a part has; undefined where only reading it all would tell. */
export function piecesOf({ start, end, rows }: Part, pieceBytes: number): number | undefined {
  if (rows !== undefined) return rows.length;
  return end === undefined ? undefined : pieceCount({ start, end }, pieceBytes);
}

/** The first piece of a part from `piece` on that is to be scored; Infinity when it is known that there is none. */
export function wantedFrom({ only, except }: Part, piece: number): number {
  if (only !== undefined) return only.find((one) => one >= piece) ?? Number.POSITIVE_INFINITY;
  let wanted = piece;
  while (except?.includes(wanted)) wanted += 1;
  return wanted;
}

/** The one bucket of jobs. What fails for a while is tried again beneath; what is thrown ends the call. */
export interface JobStorage {
  /**
   * Bytes of the version that the job was started for.
   *
   * @throws JobError INPUT_CHANGED or INPUT_NOT_FOUND when another one lies there, or none
   */
  readRange(input: JobInput, span: ByteRange): Promise<Uint8Array>;
  /** All bytes of it, in order. @throws JobError as above */
  readAll(input: JobInput): AsyncIterable<Uint8Array>;
  /** An object's text; undefined when there is none. */
  get(key: string): Promise<string | undefined>;
  put(key: string, body: string | Uint8Array): Promise<void>;
  /** Puts an object with a few words about it, unless there is one of that key. @returns whether it was put */
  putNew(key: string, body: Uint8Array, about: string): Promise<boolean>;
  /** What {@link putNew} was told about an object, and how large it is; undefined when there is none. */
  look(key: string): Promise<{ readonly about: string; readonly bytes: number } | undefined>;
  /** Without one it does nothing. */
  remove(key: string): Promise<void>;
  /** Objects whose keys begin with `prefix`, in the order of their keys. */
  list(prefix: string): AsyncIterable<{ readonly key: string; readonly bytes: number }>;
}
