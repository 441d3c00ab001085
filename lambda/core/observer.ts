import type { Difference } from './difference.ts';

/**
 * Why a micro-batch took no more: `full` no more rows, `budget` no more elements, `padding` another run costs less than
 * the padding that the next request would bring, `dearer` more rows would cost more together than in another run, `end`
 * nothing left to add.
 */
export type CloseReason = 'full' | 'budget' | 'padding' | 'dearer' | 'end';

/** Report of a run, for metrics and to explain why a batch was small. */
export interface MicroBatchReport {
  readonly model: string;
  readonly version: string;
  readonly requests: number;
  readonly rows: number;
  readonly paddedRows: number;
  readonly maxBatchRows: number;
  /** Size that the ragged axis was padded to; 1 without one. */
  readonly paddedLength: number;
  /** Share of the elements run that nobody sent, from 0 to 1. */
  readonly paddingShare: number;
  readonly closedBecause: CloseReason;
  readonly stackMs: number;
  readonly runMs: number;
  readonly encodeMs: number;
}

/** A request that got another answer among others than alone. */
export interface BatchMismatch {
  readonly model: string;
  readonly version: string;
  /** The message that the request came in. */
  readonly messageId: string;
  readonly difference: Difference;
}

/** What the call of a transform's batch hook was, with the calls for each request alone that followed where it failed. */
export interface TransformReport {
  readonly model: string;
  readonly hook: string;
  readonly requests: number;
  readonly transformMs: number;
  /** Why each request was passed to the hook alone after all. */
  readonly split?: string | undefined;
}

type Stage = 'decode' | 'transform' | 'stack' | 'run' | 'encode' | 'write' | 'acknowledge';

/** Subject of a stage: sizes and names, never a message's content. */
type StageDetails = Readonly<Record<string, string | number>>;

/** A request, by its body in the call and its place in that body. */
export interface RequestPlace {
  readonly bodyIndex: number;
  readonly position: number;
}

/** Code that is not ours, at work on requests: a model's run or its transform. */
export interface WorkUnderWay {
  /** True for a run, false for a call of a transform. */
  readonly isRun: boolean;
  readonly model: string;
  /** Milliseconds that it is expected to take; 0 if nothing is known. */
  readonly expectedMs: number;
  readonly requests: readonly RequestPlace[];
}

/** Hears what scoring does while it does it: sizes, times and names, never a message's content. */
export interface Observer {
  /** @param bodies gives the indexes of those whose rows were in the run; a host makes those of its records of them */
  microBatch(report: MicroBatchReport, bodies: () => readonly number[]): void;
  /** Takes the milliseconds that decoding the bodies of a call of `score` took, payloads and `decodeBatch` included. */
  decoded(decodeMs: number): void;
  /** A batch hook of a transform was called. @default nobody counts them */
  transformed?(report: TransformReport): void;
  /** Takes the milliseconds of runs whose answers were compared and not written. */
  checked(checkMs: number): void;
  /** A request got another answer among others than alone: requests of its model run alone from now on. */
  batchMismatch(mismatch: BatchMismatch): void;
  /** Takes the milliseconds that one write of results took, for one or more micro-batches. */
  written(writeMs: number): void;
  /** Takes the number of messages that were kept as samples, or lost. @default nobody counts them */
  captured?(messages: { readonly kept: number; readonly lost: number }): void;
  /**
   * A run, or a call of a transform, begins now. Either may end the process, so that nothing tells of it later.
   *
   * @returns to be called when it has ended
   * @default nobody asks
   */
  begins?(work: WorkUnderWay): () => void;
  /**
   * A stage has ended, once for each call, run or write. `from` and `to` are readings of the scoring's clock. @default
   * nobody traces the stages
   */
  stage?(stage: Stage, from: number, to: number, details: StageDetails): void;
  /** Something that is a bug or an outage rather than a body's fault; the bodies it met are handed back. */
  problem(error: unknown): void;
}

/** Hears nothing. */
export const SILENT: Observer = {
  microBatch: () => {},
  decoded: () => {},
  checked: () => {},
  batchMismatch: () => {},
  written: () => {},
  problem: () => {},
};

/** The CloudWatch namespace of every metric. */
export const METRIC_NAMESPACE = 'batchscore';
/** The dimension that carries the deployment's service name. */
export const SERVICE_DIMENSION = 'service';

type Unit = 'Count' | 'Percent' | 'Milliseconds';

/** The metrics of every host and their units, declared once: hosts emit them, alarms and the dashboard read them. */
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

/** Current state of a device. What it does not tell is undefined, as the use of one that is cut into parts (MIG). */
export interface GpuReading {
  /** Percent of the last sixth of a second to second in which it computed. */
  readonly usedPercent: number | undefined;
  readonly memoryUsedMib: number | undefined;
  readonly memoryMib: number | undefined;
}

/** Those of workers with a GPU, a value for each device. */
export const GPU_METRIC_UNITS = {
  GpuUtilization: 'Percent',
  GpuMemoryUtilization: 'Percent',
} as const satisfies Record<string, Unit>;

export const ALL_METRIC_UNITS = { ...METRIC_UNITS, ...GPU_METRIC_UNITS };

export type MetricName = keyof typeof ALL_METRIC_UNITS;
