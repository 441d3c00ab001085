/* Files of jobs: their formats, the bucket that they are in, and what may be wrong with them. */

export const FORMATS = ['jsonl', 'csv', 'parquet'] as const;
export type Format = (typeof FORMATS)[number];

/** Compression of a text object. Parquet compresses within the file. */
export const COMPRESSIONS = ['none', 'gzip', 'zstd'] as const;
export type Compression = (typeof COMPRESSIONS)[number];

/**
 * Input of a job: an object, a manifest of objects, or all objects under a prefix or a glob. A prefix and a glob have
 * the hash of their listing as the ETag.
 */
export interface JobInput {
  readonly bucket: string;
  readonly key: string;
  readonly etag: string;
  readonly bytes: number;
}

/** File of a job. */
export interface InputFile extends JobInput {
  /** Path in the results. Empty if the input of the job is one object. */
  readonly path: string;
}

/** Bytes `start` to `end` (exclusive). */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Bucket of the jobs. Implementations retry transient failures. An error that they throw ends the call. */
export interface JobStorage {
  /**
   * Reads bytes of the version that the job was started for.
   *
   * @throws JobError INPUT_CHANGED if the object is another version, INPUT_NOT_FOUND if it does not exist
   */
  readRange(input: JobInput, span: ByteRange): Promise<Uint8Array>;
  /** Reads all bytes, in order. @throws JobError like {@link readRange} */
  readAll(input: JobInput): AsyncIterable<Uint8Array>;
  /** Returns the text of an object, or undefined if it does not exist. */
  get(key: string): Promise<string | undefined>;
  put(key: string, body: string | Uint8Array): Promise<void>;
  /** Puts an object with metadata `about` if its key does not exist. @returns true if the object was put */
  putNew(key: string, body: Uint8Array, about: string): Promise<boolean>;
  /** Returns size and version of an object and the metadata of {@link putNew}, or undefined if it does not exist. */
  look(key: string): Promise<{ readonly about: string; readonly etag: string; readonly bytes: number } | undefined>;
  remove(key: string): Promise<void>;
  list(prefix: string): AsyncIterable<{ readonly key: string; readonly etag: string; readonly bytes: number }>;
}

/** Reasons why a job ends without a manifest. The state machine uses them as error names. */
export const JOB_CODES = [
  'INPUT_CHANGED',
  'INPUT_NOT_FOUND',
  'INVALID_JOB',
  'PIECES_MISSING',
  'RESULTS_MISSING',
] as const;
type JobCode = (typeof JOB_CODES)[number];

export class JobError extends Error {
  readonly code: JobCode;

  constructor(code: JobCode, message: string) {
    super(message);
    this.name = code;
    this.code = code;
  }
}
