import type { FileValue } from './fileValue.ts';
import type { NotableOperators } from './notableOperators.ts';
import type { OnnxFile } from './onnxFile.ts';

/** What is known of a model; of one that does not open, what its file says. The members of `--json`. */
export interface Inspection {
  readonly model: string;
  readonly version: string;
  readonly path: string;
  readonly file: Omit<OnnxFile, 'inputs' | 'outputs' | 'operators'>;
  readonly nodes: number;
  readonly operators: OnnxFile['operators'];
  readonly notableOperators: readonly NotableOperators[];
  /** Those that requests give. */
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  /** Undefined where the model does not open. */
  readonly opened?: Opened | undefined;
  /** Why it does not open. */
  readonly error?: string | undefined;
}

/** An input or output, its shape as the model has it. */
export interface Value extends FileValue {
  readonly batchAxis?: number;
  /** The axis along which requests may differ in size. */
  readonly raggedAxis?: number;
}

export type Verdict = 'independent' | 'trusted' | 'unknown' | 'dependent' | 'alone';

export interface Opened {
  /** Whether rows depend on each other. */
  readonly verdict: Verdict;
  /** Rows that were run alone and in company at start. */
  readonly probes: number;
  /** The most that answers of the same row differed by, as a share; null where none were compared. */
  readonly largestDifference: number | null;
  readonly maxBatchRows: number;
  /** The row counts that it is run at; empty: any. */
  readonly ladder: readonly number[];
  readonly ragged: {
    readonly axis: string;
    readonly inputs: readonly string[];
    readonly ladder: readonly number[];
  } | null;
  /** Axes of any size that requests of one run must share. */
  readonly openAxes: readonly string[];
  readonly constants: readonly string[];
  /** Outputs that config.json does not have computed. */
  readonly leftOut: readonly string[];
  readonly hasTransform: boolean;
  readonly warnings: readonly string[];
  readonly samples: readonly Sample[];
  /** Whether the samples are made up. */
  readonly isMadeUp: boolean;
  /** Why there is no sample. */
  readonly noSample?: string | undefined;
  /** The first request that was run and got no scores. */
  readonly failed?: FailedRequest | undefined;
}

/** A request that the model did not answer in each of its forms. */
export interface FailedRequest {
  /** Its file and line, or that it was made up. */
  readonly place: string;
  readonly json: string;
  readonly reason: string;
}

/** A result without its message ID. */
export type Answer = Readonly<Record<string, unknown>>;

/** A request that the model has answered, as JSON text of one line. */
export interface Sample {
  readonly json: string;
  /** Undefined where the model's transform has a form of its own. */
  readonly binary: string | undefined;
  readonly answer: Answer;
}
