/** JSON messages to the pages. Times are in milliseconds. `at` is milliseconds since 1970. */
import type { JobStatus } from '../../client/clientJobs.ts';

export interface InvocationSeen {
  /** Number of the invocation, from 1. */
  readonly number: number;
  readonly at: number;
  readonly records: number;
  readonly batchSize: number;
  /** Reason why the batch was closed, as text for users. */
  readonly endedBecause: string;
  /** Time from the oldest record's sending to the invocation. */
  readonly waitedMs: number;
  readonly durationMs: number;
  readonly errors: number;
  readonly retried: number;
}

/** Counts for one second. */
export interface SecondSeen {
  /** Seconds since 1970. */
  readonly at: number;
  readonly answered: number;
  /** Number of records of the invocations, and number that would have filled them. */
  readonly records: number;
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
}

export interface TensorSeen {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly (number | string)[];
}

/** Model in its default version. */
export interface ModelSeen {
  readonly name: string;
  readonly version: string;
  readonly inputs: readonly TensorSeen[];
  readonly hasTransform: boolean;
  /** Text of a request that the model has answered: its first sample, or a generated one. Undefined if it has none. */
  readonly sample: string | undefined;
}

/** Status of a job, with the number of skipped pieces in place of their list. */
export interface JobSeen extends Omit<JobStatus, 'failedParts'> {
  readonly givenUp: number;
}

/** State that the `dev` page shows. The last item of each list is the newest. */
export interface State {
  readonly models: readonly ModelSeen[];
  /** Warnings about the models since they were loaded. */
  readonly warnings: readonly string[];
  readonly jobs: readonly JobSeen[];
  readonly endpoint: string;
  readonly batchSize: number;
  readonly windowSeconds: number;
  readonly queues: QueuesSeen;
  /** Counts since the stack was started. */
  readonly totals: {
    readonly answered: number;
    readonly errors: Readonly<Record<string, number>>;
    readonly retries: Readonly<Record<string, number>>;
  };
  readonly seconds: readonly SecondSeen[];
  readonly invocations: readonly InvocationSeen[];
  /** Newest results and newest errors. */
  readonly results: readonly ResultSeen[];
  /** Result of the message that the page awaits, once it is there. */
  readonly awaited: ResultSeen | undefined;
}

/** Lines over time, or over a logarithmic axis. */
export interface Chart {
  readonly title: string;
  /** Summary for screen readers. */
  readonly words: string;
  /** Values in ascending order. They are seconds since 1970 unless the axis is logarithmic. */
  readonly x: { readonly title?: string; readonly values: readonly number[]; readonly isLogarithmic?: boolean };
  readonly y: { readonly title?: string; readonly format: 'duration' | 'percent' | 'short' };
  readonly lines: readonly Line[];
}

export interface Line {
  readonly name: string;
  /** Value to show after the name. */
  readonly value?: string;
  /** One value for each x. Null is a gap. */
  readonly values: readonly (number | null)[];
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
  /** Lines of code. */
  readonly props: string;
  readonly findings: readonly string[];
  readonly chart: Chart;
  readonly question: string;
  readonly settings: TableShown;
  readonly notes: readonly string[];
}
