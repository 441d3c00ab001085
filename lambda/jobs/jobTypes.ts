import type { Datatype } from '../core/tensor.ts';

/** How rows lie in an object. */
export const FORMATS = ['jsonl', 'csv', 'parquet'] as const;
export type Format = (typeof FORMATS)[number];

/** What an object of lines is compressed with; Parquet compresses within itself. */
export const COMPRESSIONS = ['none', 'gzip', 'zstd'] as const;
export type Compression = (typeof COMPRESSIONS)[number];

/** What is asked for, besides the object. Every key has a default. */
export interface Spec {
  /** @default the deployment's default model */
  readonly model?: string | undefined;
  /** @default the model's highest version, when the job is planned */
  readonly version?: string | undefined;
  /** @default by the key's ending */
  readonly format?: Format | undefined;
  /** @default by the key's ending */
  readonly compression?: Compression | undefined;
  /** Of CSV and Parquet: the columns that make up an input, in the order of its elements. @default for each input the column of its name */
  readonly inputs?: Readonly<Record<string, readonly string[]>> | undefined;
  /** Of CSV and Parquet: columns that are carried beside the result. @default none */
  readonly keep?: readonly string[] | undefined;
}

/** One version of one object. */
export interface JobInput {
  readonly bucket: string;
  readonly key: string;
  readonly etag: string;
  readonly bytes: number;
}

/** What an execution is started with. */
export interface JobStart extends JobInput {
  readonly job: string;
  /** 1; 2, 3, … where the job is resumed. */
  readonly run: number;
  /** What the keys of all its objects begin with: it ends in `/`. */
  readonly folder: string;
  /** Most calls at a time. */
  readonly concurrency: number;
  readonly spec: Spec;
}

/** What makes up one input of the model. */
export interface InputColumns {
  readonly input: string;
  readonly datatype: Datatype;
  /** Of one row, as a request has it: with the batch axis, of size 1. */
  readonly shape: readonly number[];
  readonly columns: readonly string[];
}

/** What the plan found out, for every call. Written once, before the plan. */
export interface JobHead extends JobInput {
  readonly job: string;
  readonly model: string;
  readonly version: string;
  readonly format: Format;
  readonly compression: Compression;
  readonly partBytes: number;
  readonly pieceBytes: number;
  readonly parts: number;
  /** Undefined where only reading it all would tell: the object is compressed. */
  readonly pieces?: number | undefined;
  /** Of CSV: the names of the header, in order. */
  readonly columns?: readonly string[] | undefined;
  /** Of CSV and Parquet. */
  readonly inputs?: readonly InputColumns[] | undefined;
  readonly keep: readonly string[];
  readonly plannedAt: string;
}

/**
 * What one child of the map scores, a line of the plan. Of text the bytes from `start` until before `end`, cut into
 * pieces of the head's `pieceBytes`; of a compressed object the bytes that it holds, `end` being unknown. Of Parquet
 * the rows, and its pieces are listed.
 */
export interface Part {
  readonly part: number;
  readonly start: number;
  /** Undefined: to the end, wherever that is. */
  readonly end?: number | undefined;
  /** Of Parquet: its pieces. */
  readonly rows?: readonly RowPiece[] | undefined;
  /** Of a resumed job: the pieces that have no report. @default all */
  readonly only?: readonly number[] | undefined;
  /** Of a resumed job whose pieces are not known beforehand: those that have a report. @default none */
  readonly except?: readonly number[] | undefined;
  /** Its pieces may be what ended calls before: each is tried with care. */
  readonly suspect?: true | undefined;
}

/** Rows `from` until before `to` of the file: some of the row group `group`, or all of it and of those after it. */
export interface RowPiece {
  readonly group: number;
  readonly from: number;
  readonly to: number;
}

/** Where the next call goes on. What is done within the piece is seen from its data objects. */
export interface Next {
  readonly piece: number;
  /** How many calls in a row have ended without an answer to any row: rows are then scored in smaller steps. @default 0 */
  readonly fruitless?: number | undefined;
  /** Of a suspect: what was known of it when the last call ended. Is it still so, the piece is given up. */
  readonly noted?: string | undefined;
}

/** Written when a piece is done: its presence says so. */
export interface Report {
  readonly part: number;
  readonly piece: number;
  readonly rows: number;
  /** Error results by code. */
  readonly errors: Readonly<Record<string, number>>;
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Data objects. */
  readonly objects: number;
  /** Milliseconds of the call that finished it. */
  readonly ms: number;
  /** Of a compressed object: nothing follows. */
  readonly last?: true | undefined;
}

/** A piece that was given up. */
export interface FailedPiece {
  readonly part: number;
  readonly piece: number;
  readonly code: string;
  readonly error: string;
  /** In the manifest: its first rows, so many, were scored before, and have their results. */
  readonly rows?: number | undefined;
}

/** Written last: its presence means that the job is done. */
export interface Manifest {
  readonly job: string;
  readonly input: JobInput;
  readonly model: string;
  readonly version: string;
  readonly rows: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly failedParts: readonly FailedPiece[];
  /** Objects under `prefix`: their keys in order are the input's order. */
  readonly data: { readonly prefix: string; readonly objects: number };
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly plannedAt: string;
  readonly finishedAt: string;
}

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

export function isJobCode(name: string): name is JobCode {
  return JOB_CODES.some((code) => code === name);
}

/** A range of bytes, from `start` until before `end`. */
export interface Span {
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
export function pieceCount({ start, end }: Span, pieceBytes: number): number {
  return Math.ceil((end - start) / pieceBytes);
}

/** The bytes of one piece of a part. */
export function pieceSpan({ start, end }: Span, pieceBytes: number, piece: number): Span {
  const from = start + piece * pieceBytes;
  return { start: from, end: Math.min(from + pieceBytes, end) };
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
  readRange(input: JobInput, span: Span): Promise<Uint8Array>;
  /** All bytes of it, in order. @throws JobError as above */
  readAll(input: JobInput): Promise<AsyncIterable<Uint8Array>>;
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
