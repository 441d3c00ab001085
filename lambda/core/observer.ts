import type { Difference } from './difference.ts';

/**
 * Reason why a micro-batch took no more: `full` of rows, `budget` of elements used up, `padding` of another request
 * would cost more than another run, `dearer` per row with more rows, `end` of the requests.
 */
export type CloseReason = 'full' | 'budget' | 'padding' | 'dearer' | 'end';

/** Report of a run, for metrics and to explain a small batch. */
export interface MicroBatchReport {
  readonly model: string;
  readonly version: string;
  readonly requests: number;
  readonly rows: number;
  readonly paddedRows: number;
  readonly maxBatchRows: number;
  /** Padded size of the ragged axis, or 1 if there is none. */
  readonly paddedLength: number;
  /** Share of padding in the elements of the run, from 0 to 1. */
  readonly paddingShare: number;
  readonly closedBecause: CloseReason;
  readonly stackMs: number;
  readonly runMs: number;
  readonly encodeMs: number;
}

/** Request whose answer in a batch differed from its answer alone. */
export interface BatchMismatch {
  readonly model: string;
  readonly version: string;
  readonly messageId: string;
  readonly difference: Difference;
}

/** Report of a call of a transform's batch hook, with the calls for single requests that followed a failure. */
export interface TransformReport {
  readonly model: string;
  readonly hook: string;
  readonly requests: number;
  readonly transformMs: number;
  /** Reason why the hook was called for each request alone. */
  readonly split?: string | undefined;
}

type Stage = 'decode' | 'transform' | 'stack' | 'run' | 'encode' | 'write' | 'acknowledge';

type StageDetails = Readonly<Record<string, string | number>>;

/** Place of a request: its body in the call, and its position in that body. */
export interface RequestPlace {
  readonly bodyIndex: number;
  readonly position: number;
}

/** Foreign code that is working on requests: a model's run or its transform. */
export interface WorkUnderWay {
  /** True for a run, false for a call of a transform. */
  readonly isRun: boolean;
  readonly model: string;
  /** Expected duration in milliseconds, or 0 if unknown. */
  readonly expectedMs: number;
  readonly requests: readonly RequestPlace[];
}

/** Takes events of scoring: sizes, times and names, never a message's content. */
export interface Observer {
  /** Takes the report of a run. @param bodies returns the indexes of the bodies with rows in the run */
  microBatch(report: MicroBatchReport, bodies: () => readonly number[]): void;
  /** Takes the milliseconds for decoding the bodies of a `score` call, including payloads and `decodeBatch`. */
  decoded(decodeMs: number): void;
  /** Takes the report of a batch hook's call. @default not counted */
  transformed?(report: TransformReport): void;
  /** Takes the milliseconds of runs for comparison, whose answers are not written. */
  checked(checkMs: number): void;
  /** Takes a mismatch. Requests of the model run alone from then on. */
  batchMismatch(mismatch: BatchMismatch): void;
  /** Takes the milliseconds of one write of results, for one or more micro-batches. */
  written(writeMs: number): void;
  /** Takes the number of messages that were kept as samples or lost. @default not counted */
  captured?(messages: { readonly kept: number; readonly lost: number }): void;
  /**
   * Called before each run and each call of a transform, because both may end the process.
   *
   * @returns a function to call at its end
   * @default ignored
   */
  begins?(work: WorkUnderWay): () => void;
  /**
   * Takes the end of a stage, once for each call, run or write. `from` and `to` are readings of the scoring clock.
   * @default not traced
   */
  stage?(stage: Stage, from: number, to: number, details: StageDetails): void;
  /** Takes a bug or an outage. The affected bodies are handed back. */
  problem(error: unknown): void;
}

export const SILENT: Observer = {
  microBatch: () => {},
  decoded: () => {},
  checked: () => {},
  batchMismatch: () => {},
  written: () => {},
  problem: () => {},
};

export const METRIC_NAMESPACE = 'batchscore';
/** Dimension with the deployment's service name. */
export const SERVICE_DIMENSION = 'service';

type Unit = 'Count' | 'Percent' | 'Milliseconds';

/** Metrics of all hosts with their units. Hosts emit them; alarms and the dashboard read them. */
export const METRIC_UNITS = {
  MicroBatches: 'Count',
  Rows: 'Count',
  PaddingRows: 'Count',
  PaddingShare: 'Percent',
  Fill: 'Percent',
  StackTime: 'Milliseconds',
  RunTime: 'Milliseconds',
  CheckTime: 'Milliseconds',
  EncodeTime: 'Milliseconds',
  WriteTime: 'Milliseconds',
  ClosedFull: 'Count',
  ClosedBudget: 'Count',
  ClosedPadding: 'Count',
  ClosedDearer: 'Count',
  ClosedEnd: 'Count',
  BatchSize: 'Count',
  BatchFill: 'Percent',
  DecodeTime: 'Milliseconds',
  TransformTime: 'Milliseconds',
  Answered: 'Count',
  Requests: 'Count',
  Errors: 'Count',
  Retries: 'Count',
  MissingOrDenied: 'Count',
  BatchMismatch: 'Count',
  ScorersLost: 'Count',
  Captured: 'Count',
  CaptureLost: 'Count',
} as const satisfies Record<string, Unit>;

/** Execution providers whose devices are NVIDIA's. */
export const OF_NVIDIA: readonly string[] = ['cuda', 'tensorrt'];

/** Current state of a GPU. A value is undefined if the device does not report it, such as a MIG slice. */
export interface GpuReading {
  /** Percentage of time with computation, over the last sixth of a second to second. */
  readonly usedPercent: number | undefined;
  readonly memoryUsedMib: number | undefined;
  readonly memoryMib: number | undefined;
}

/** Metrics of workers with GPUs, one value for each device. */
export const GPU_METRIC_UNITS = {
  GpuUtilization: 'Percent',
  GpuMemoryUtilization: 'Percent',
} as const satisfies Record<string, Unit>;

export const ALL_METRIC_UNITS = { ...METRIC_UNITS, ...GPU_METRIC_UNITS };

export type MetricName = keyof typeof ALL_METRIC_UNITS;
