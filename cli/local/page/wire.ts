/** What the page is told, as JSON. Times are milliseconds; `at` counts from 1970. */
import type { JobStatus } from '../../../client/clientJobs.ts';
import type { MicroBatchReport } from '../../../lambda/core/observer.ts';

export interface MicroBatchSeen extends Omit<MicroBatchReport, 'closedBecause'> {
  /** As a person reads it. */
  readonly closedBecause: string;
}

/** One call of the function. */
export interface InvocationSeen {
  /** Counted from 1. */
  readonly number: number;
  readonly at: number;
  readonly records: number;
  /** What the batch size was. */
  readonly batchSize: number;
  /** As a person reads it. */
  readonly endedBecause: string;
  /** From when the oldest record was sent until the function was called. */
  readonly waitedMs: number;
  readonly durationMs: number;
  readonly decodeMs: number;
  /** In batch hooks of transforms: part of what decoding and encoding took. */
  readonly transformMs: number;
  readonly writeMs: number;
  readonly answered: number;
  /** Requests that were answered with an error. */
  readonly errors: number;
  readonly retried: number;
  /** Records that had been received before. */
  readonly cameBefore: number;
  /** The first ones, 32 at the most. */
  readonly microBatches: readonly MicroBatchSeen[];
  /** What all of them were. */
  readonly runs: number;
  readonly rows: number;
  readonly paddedRows: number;
}

/** A second, and what ended in it. */
export interface SecondSeen {
  /** Seconds since 1970. */
  readonly at: number;
  readonly sent: number;
  readonly answered: number;
  readonly errors: number;
  readonly retried: number;
  readonly invocations: number;
  readonly records: number;
  /** What the invocations could have taken. */
  readonly room: number;
  readonly rows: number;
  readonly paddedRows: number;
  readonly runs: number;
  /** From being sent to being answered; null where nothing was answered. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
}

/** What lies on the queues. */
export interface QueuesSeen {
  readonly waiting: number;
  /** Received and not deleted: in a batch that is gathered, or being scored. */
  readonly inFlight: number;
  readonly deadLetters: number;
  /** On the result queue, for whoever receives them. */
  readonly results: number;
}

export interface ResultSeen {
  readonly messageId: string;
  readonly at: number;
  readonly invocation: number;
  readonly isError: boolean;
  /** True if the page's load sent the message. */
  readonly isLoad: boolean;
  /** The JSON text, its first 16,384 characters. */
  readonly body: string;
  /** Of the whole text. */
  readonly characters: number;
}

export interface EventSeen {
  readonly at: number;
  /** What happened, and to what. */
  readonly title: string;
  /** The whole of it, as JSON text. */
  readonly body: string;
}

/** What became of a message that was sent from the page. */
export interface AnswerSeen {
  readonly messageId: string;
  /** Undefined where the message goes back to the queue. */
  readonly result?: ResultSeen | undefined;
  /** From being sent to its invocation, and to its answer. */
  readonly waitedMs: number;
  readonly answeredMs?: number | undefined;
  readonly invocation: InvocationSeen;
  /** Its place in the invocation's micro-batches; undefined where it was refused before, or is none of the first. */
  readonly microBatch?: number | undefined;
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
  readonly outputs: readonly TensorSeen[];
  readonly evidence: string;
  /** How its rows are run, by what was seen until now. */
  readonly batching: 'together' | 'alone';
  readonly maxBatchRows: number;
  readonly allowedSizes: readonly number[];
  readonly raggedAxis?: string | undefined;
  readonly hasTransform: boolean;
  /** The text of a request that it has answered: the first of its samples, else a made-up one. */
  readonly sample?: string | undefined;
  /** Why there is none. */
  readonly noSample?: string | undefined;
}

/** What can be set while the stack runs, and what is set. */
export interface SettingsSeen {
  readonly batchSize: number;
  readonly windowSeconds: number;
  readonly load: LoadSeen;
}

export interface LoadSeen {
  /** Messages a second; 0: none. */
  readonly perSecond: number;
  /** Whose samples are sent. */
  readonly model: string;
  /** Why it sends less than it was told to. */
  readonly heldBack?: string | undefined;
}

/** Since the stack was started. */
export interface TotalsSeen {
  readonly messages: number;
  readonly answered: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly retries: Readonly<Record<string, number>>;
}

/** Without the pieces that were given up, but for their number. */
export interface JobSeen extends Omit<JobStatus, 'failedParts'> {
  readonly givenUp: number;
}

/** All that the page shows, apart from what is being typed. The newest of each list is the last. */
export interface State {
  readonly models: readonly ModelSeen[];
  /** The newest last. */
  readonly jobs: readonly JobSeen[];
  /** Of the queues and buckets. */
  readonly endpoint: string;
  /** Models whose samples the load may send. */
  readonly loadModels: readonly string[];
  readonly settings: SettingsSeen;
  readonly queues: QueuesSeen | undefined;
  readonly totals: TotalsSeen;
  readonly seconds: readonly SecondSeen[];
  readonly invocations: readonly InvocationSeen[];
  readonly results: readonly ResultSeen[];
  readonly errors: readonly ResultSeen[];
  /** What others are told of. */
  readonly events: readonly EventSeen[];
}

/** The events of the stream, by name. */
export interface Events {
  /** When a page is opened, each second, and when a setting has changed. */
  readonly state: State;
  readonly answer: AnswerSeen;
}
