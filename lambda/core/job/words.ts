import type { Datatype } from '../tensor.ts';

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
export type JobCode = (typeof JOB_CODES)[number];

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
