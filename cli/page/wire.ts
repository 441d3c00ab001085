/** JSON messages to the pages. Times are in milliseconds. `at` is milliseconds since 1970. */
import type { JobStatus } from '../../client/clientJobs.ts';
import type { MicroBatchReport } from '../../lambda/core/observer.ts';

interface Counts {
  readonly answered: number;
  readonly records: number;
  readonly rows: number;
  readonly paddedRows: number;
}

export interface InvocationSeen extends Counts {
  /** Number of the invocation, from 1. */
  readonly number: number;
  readonly at: number;
  readonly batchSize: number;
  /** Reason why the batch was closed, as text for users. */
  readonly endedBecause: string;
  /** Time from the oldest record's sending to the invocation. */
  readonly waitedMs: number;
  readonly durationMs: number;
  readonly errors: number;
  readonly retried: number;
  readonly runs: number;
}

/** Counts for one second. */
export interface SecondSeen extends Counts {
  /** Seconds since 1970. */
  readonly at: number;
  /** Number of records that would have filled the invocations. */
  readonly room: number;
  /** Time from sending to answering. Null if nothing was answered. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
}

export interface QueuesSeen {
  readonly waiting: number;
  /** Messages that are received but not deleted. */
  readonly inFlight: number;
  readonly deadLetters: number;
}

export interface ResultSeen {
  readonly messageId: string;
  readonly at: number;
  /** Time from sending to answering. */
  readonly answeredMs: number;
  readonly invocation: number;
  readonly isError: boolean;
  /** First 16,384 characters of the JSON text. */
  readonly body: string;
  readonly characters: number;
  /** Known for messages of the page that ran. */
  readonly microBatch?: (Omit<MicroBatchReport, 'closedBecause'> & { readonly closedBecause: string }) | undefined;
}

export interface TensorSeen {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly (number | string)[];
}

export interface ModelSeen {
  readonly name: string;
  readonly version: string;
  readonly inputs: readonly TensorSeen[];
  readonly hasTransform: boolean;
  /** Text of a request that the default version has answered: its first sample, or a generated one. */
  readonly sample?: string | undefined;
  readonly noSample?: string | undefined;
}

/** Status of a job, with the number of skipped pieces in place of their list. `rows` is also there while it runs. */
export interface JobSeen extends Omit<JobStatus, 'failedParts'> {
  readonly givenUp: number;
  readonly rowsPerSecond?: number | undefined;
  readonly leftMs?: number | undefined;
}

/** State that the `dev` page shows. The last item of each list is the newest. */
export interface State {
  readonly models: readonly ModelSeen[];
  /** Warnings about the models since they were loaded. */
  readonly warnings: readonly string[];
  readonly jobs: readonly JobSeen[];
  readonly endpoint: string;
  readonly requestQueueUrl: string;
  readonly batchSize: number;
  readonly windowSeconds: number;
  readonly queues: QueuesSeen;
  /** Counts since the stack was started. */
  readonly totals: {
    readonly answered: number;
    readonly errors: Readonly<Record<string, number>>;
    readonly retries: Readonly<Record<string, number>>;
    /** By name and version, such as `digits/1`. */
    readonly models: Readonly<Record<string, { readonly rows: number; readonly runs: number }>>;
  };
  readonly seconds: readonly SecondSeen[];
  readonly invocations: readonly InvocationSeen[];
  /** Newest results and newest errors, or those of a search. */
  readonly results: readonly ResultSeen[];
  /** Result of the message that the page awaits, once it is there. */
  readonly awaited: ResultSeen | undefined;
}

/** Lines over time, or over a logarithmic axis. */
export interface Chart {
  readonly title: string;
  /** Summary in words, shown above the drawing. */
  readonly essence?: string;
  /** Summary for screen readers. @default the essence */
  readonly words?: string;
  /** Values in ascending order. They are seconds since 1970 unless the axis has a base of a logarithm. */
  readonly x: { readonly title?: string; readonly values: readonly number[]; readonly base?: 2 | 10 };
  readonly y: {
    readonly title?: string;
    readonly isLogarithmic?: boolean;
    readonly format: 'dollars' | 'duration' | 'percent' | 'short';
  };
  readonly lines: readonly Line[];
}

export interface Line {
  readonly name: string;
  /** Value to show after the name. */
  readonly value?: string;
  /** One value for each x. Null is a gap, or a size that was not measured. */
  readonly values: readonly (number | null)[];
  /** `points` for measured values, `ring` for a highlighted value. @default a line */
  readonly as?: 'points' | 'ring';
}

export interface TableShown {
  readonly caption: string;
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Row to mark. */
  readonly chosen?: number;
}

/** Contents of the `batchscore profile` report. */
export interface ReportPage {
  readonly title: string;
  /** Date and machine of the measurement, and versions. */
  readonly measured: string;
  readonly lead: string;
  readonly reasons: readonly string[];
  readonly facts: readonly (readonly [name: string, value: string, more: string])[];
  /** Lines of code. */
  readonly props: string;
  readonly findings: readonly string[];
  readonly charts: readonly Chart[];
  readonly question: string;
  readonly settings: TableShown;
  readonly runs: TableShown;
  readonly notes: readonly string[];
}
