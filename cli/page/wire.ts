/** What pages are told, as JSON. Times are milliseconds; `at` counts from 1970. */
import type { JobStatus } from '../../client/clientJobs.ts';
import type { MicroBatchReport } from '../../lambda/core/observer.ts';

/** One call of the function. */
export interface InvocationSeen {
  /** From 1. */
  readonly number: number;
  readonly at: number;
  readonly records: number;
  /** Batch size of the mapping. */
  readonly batchSize: number;
  /** Why the batch was handed over, as a person reads it. */
  readonly endedBecause: string;
  /** From the oldest record's sending to the call. */
  readonly waitedMs: number;
  readonly durationMs: number;
  /** Milliseconds of each stage, added up. */
  readonly stages: Readonly<Record<'decode' | 'stack' | 'run' | 'encode' | 'write', number>>;
  readonly answered: number;
  /** Requests that were answered with an error. */
  readonly errors: number;
  readonly retried: number;
  /** Records that had been received before. */
  readonly cameBefore: number;
  readonly runs: number;
  readonly rows: number;
  readonly paddedRows: number;
}

/** What ended in a second. */
export interface SecondSeen {
  /** Seconds since 1970. */
  readonly at: number;
  readonly answered: number;
  readonly records: number;
  /** Records that the invocations could have taken. */
  readonly room: number;
  readonly rows: number;
  readonly paddedRows: number;
  /** From being sent to being answered; null if nothing was answered. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
}

/** Messages on the queues. */
export interface QueuesSeen {
  readonly waiting: number;
  /** Received and not deleted. */
  readonly inFlight: number;
  readonly deadLetters: number;
}

export interface ResultSeen {
  readonly messageId: string;
  readonly at: number;
  readonly invocation: number;
  readonly isError: boolean;
  /** First 16,384 characters of the JSON text. */
  readonly body: string;
  /** Characters of the whole text. */
  readonly characters: number;
}

/** What became of a message that was sent from the page. */
export interface AnswerSeen {
  readonly messageId: string;
  /** Undefined if the message goes back to the queue. */
  readonly result?: ResultSeen | undefined;
  /** From being sent to its invocation, and to its answer. */
  readonly waitedMs: number;
  readonly answeredMs?: number | undefined;
  readonly invocation: InvocationSeen;
  /** Undefined for a request that was refused before it ran. */
  readonly microBatch?: (Omit<MicroBatchReport, 'closedBecause'> & { readonly closedBecause: string }) | undefined;
}

export interface TensorSeen {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly (number | string)[];
}

export interface ModelSeen {
  readonly name: string;
  readonly inputs: readonly TensorSeen[];
  readonly hasTransform: boolean;
  /** Text of a request that the model has answered: the first of its samples, else a made-up one. */
  readonly sample?: string | undefined;
  /** Why there is none. */
  readonly noSample?: string | undefined;
}

/** Without the pieces that were given up, but for their number. */
export interface JobSeen extends Omit<JobStatus, 'failedParts'> {
  readonly givenUp: number;
}

/** All that the page of `dev` shows. The newest of each list is the last. */
export interface State {
  readonly models: readonly ModelSeen[];
  readonly jobs: readonly JobSeen[];
  /** URL of the queues and buckets. */
  readonly endpoint: string;
  readonly batchSize: number;
  readonly windowSeconds: number;
  readonly queues: QueuesSeen | undefined;
  /** Since the stack was started. */
  readonly totals: {
    readonly answered: number;
    readonly errors: Readonly<Record<string, number>>;
    readonly retries: Readonly<Record<string, number>>;
  };
  readonly seconds: readonly SecondSeen[];
  readonly invocations: readonly InvocationSeen[];
  readonly results: readonly ResultSeen[];
  readonly errors: readonly ResultSeen[];
}

/** The events of the stream, by name. */
export interface Events {
  /** When a page is opened, and each second. */
  readonly state: State;
  readonly answer: AnswerSeen;
}

/** Lines over time, or over a logarithmic axis. */
export interface Chart {
  readonly title: string;
  /** What the chart shows, in words, above the drawing. */
  readonly essence?: string;
  /** The same for those who hear the page. @default the essence */
  readonly words?: string;
  /** Values are ascending: seconds since 1970 if there is no base of a logarithm. */
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
  /** Shown behind the name. */
  readonly value?: string;
  /** One for each x. A null is a gap, or a size that was not measured. */
  readonly values: readonly (number | null)[];
  /** `points` for measured values, `ring` for one that stands out, `across` for a limit. @default a line */
  readonly as?: 'points' | 'ring' | 'across';
}

export interface TableShown {
  readonly caption: string;
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Index of the row to mark. */
  readonly chosen?: number;
}

/** All that the report of `batchscore profile` shows. */
export interface ReportPage {
  readonly model: string;
  readonly version: string;
  /** When, and on what. */
  readonly measured: string;
  readonly lead: string;
  readonly reason: string;
  readonly facts: readonly (readonly [name: string, value: string, more: string])[];
  readonly sharesRuns: boolean;
  readonly safety: string;
  /** Lines of code. */
  readonly props: string;
  readonly findings: readonly string[];
  readonly charts: readonly (Chart & { readonly id: string })[];
  /** What says more in a sentence than in a drawing. */
  readonly remarks: readonly string[];
  readonly runs: TableShown;
  readonly question: string;
  readonly settings: TableShown;
  readonly about: readonly (readonly [name: string, value: string])[];
  readonly notes: readonly string[];
}
