/** A range, and the number that is taken where none is given. */
interface RangeWithDefault extends Range {
  readonly default: number;
}

/** In place of a number of results in a message: as many as fit. */
export const FILL = 'fill';
export type ResultsPerMessage = number | typeof FILL;

const MIB = 1024 * 1024;

/**
 * What one message may take of the host's memory: a 64th. Parsed JSON takes up to twenty times its text, and one payload
 * is parsed at a time.
 *
 * @returns bytes: 28,983,296 with 1,769 MB
 */
export function shareOfMemory(memoryMb: number): number {
  return Math.floor((memoryMb * MIB) / 64);
}

/** Receives after which a new request queue moves a message to its dead letters. */
export const MAX_RECEIVES = 20;

/** Log levels of the function, most verbose first. Each level holds those after it. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const STORES = ['queue', 'table', 'bucket'] as const;
export type Store = (typeof STORES)[number];

/** Range of a number, both ends included. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

export function wholeNumberIn({ min, max }: Range, unit?: string): string {
  return `a whole number${unit === undefined ? '' : ` of ${unit}`} from ${min} to ${max}`;
}

/** Returns the problem of a number that must be whole and within a range. An undefined one is left to its default. */
export function outside(name: string, value: number | undefined, range: Range, unit?: string): string | undefined {
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && value >= range.min && value <= range.max) return undefined;
  return `${name}: expected ${wholeNumberIn(range, unit)}, got ${value}; choose one in that range`;
}

/** MB of a function's memory that come with one vCPU. @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html */
export const MB_PER_VCPU = 1_769;

/** Bodies and attributes of one message of SQS, and of one batch request together. @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html */
export const MAX_MESSAGE_BYTES = MIB;
/** Bytes of bodies that make a batch full. A call decodes as many ahead of its runs, so that no batch is cut. */
export const BATCH_BYTES = 32 * MIB;
/** Of the seconds from SIGTERM until the process is killed: after these, what is being scored is cut short. */
export const DRAIN_SHARE = 0.75;
/** Of the same: after these, the process ends in any case. */
export const END_SHARE = 0.95;

/** The numbers of jobs, declared once: the functions refuse others at start, the infrastructure at synth. */
export const JOB_RANGES = {
  /**
   * Bytes of a part, which a child of the map scores: six pieces. Each part costs three transitions of Step Functions,
   * 0.000075 $; of 96 MiB that is a fifth of what a job costs at 20,000 rows of 500 bytes a second.
   */
  partBytes: { min: 1, max: 1024 * MIB, default: 96 * MIB },
  /** Bytes of a piece, which is read, scored and put as one; a call holds two of them and the rows of two. */
  pieceBytes: { min: 1, max: 64 * MIB, default: 16 * MIB },
  /** Calls at a time. A distributed map starts at most 10,000 children at a time. */
  concurrency: { min: 1, max: 10_000, default: 200 },
} satisfies Readonly<Record<string, RangeWithDefault>>;

/** Timeout of the function that is invoked. */
export const FUNCTION_TIMEOUT_SECONDS: Range = { min: 1, max: 900 };

/** As long as Lambda allows: the longer a call, the fewer parts are cut short. */
export const JOB_TIMEOUT_SECONDS = FUNCTION_TIMEOUT_SECONDS.max;

/** Memory of the function that scores jobs, in MiB; one whole vCPU comes with the default. */
export const JOB_MEMORY_MB = { min: 128, max: 10_240, default: 1769 } satisfies RangeWithDefault;

/** Default places of files and results. */
export const JOB_PREFIXES = { input: 'jobs/in/', output: 'jobs/out/' };

export interface MappingSettings {
  readonly fifo: boolean;
  /** Most records in one invocation: 1 to 10,000, on a FIFO queue to 10. Above 10 it needs a window. */
  readonly batchSize: number;
  /** Longest wait for a batch to fill, in whole seconds: 0 to 300, on a FIFO queue 0. */
  readonly windowSeconds: number;
}

export const BATCH_SIZE: Range = { min: 1, max: 10_000 };
export const WINDOW_SECONDS: Range = { min: 0, max: 300 };
/**
 * Request queues of one deployment, each with its mapping. One alarm watches them all, and takes at most ten metrics.
 *
 * @see https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html
 */
export const SHARDS: Range = { min: 1, max: 10 };
export const MAXIMUM_CONCURRENCY: Range = { min: 2, max: 1000 };
/**
 * The most invocations that a mapping without provisioned pollers starts at a time, whatever its limit.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export const MAX_INVOCATIONS = 1_250;
/** How it begins, and how many it adds in a minute while messages are left waiting. @see the page of {@link MAX_INVOCATIONS} */
export const INVOCATIONS_AT_FIRST = 5;
export const INVOCATIONS_ADDED_PER_MINUTE = 300;
/** Invocations that each provisioned poller has under way. @see the page of {@link MAX_INVOCATIONS} */
export const INVOCATIONS_PER_POLLER = 10;
export const DEFAULT_MAXIMUM_POLLERS = 200;
/**
 * Most messages in flight of a queue, standard or FIFO.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-fifo.html
 */
export const MESSAGES_IN_FLIGHT = 120_000;
/** Largest event of an invocation, as JSON. @see https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html */
export const MAX_EVENT_BYTES = 6_291_456;

/** The size of the `/tmp` of the function that is invoked. */
export const EPHEMERAL_STORAGE_MB = { min: 512, max: 10_240, default: 512 };

const MAX_WITHOUT_WINDOW = 10;

/**
 * Returns each reason why Lambda refuses an event source mapping of an SQS queue.
 *
 * @param window name of the setting of the window, in seconds
 * @see https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html
 */
export function mappingProblems(settings: MappingSettings, window = 'windowSeconds'): string[] {
  return [
    outside('batchSize', settings.batchSize, BATCH_SIZE),
    outside(window, settings.windowSeconds, WINDOW_SECONDS, 'seconds'),
    ...(settings.fifo ? fifoProblems(settings, window) : [standardProblem(settings, window)]),
  ].filter((problem) => problem !== undefined);
}

function fifoProblems({ batchSize, windowSeconds }: MappingSettings, window: string): (string | undefined)[] {
  return [
    batchSize > MAX_WITHOUT_WINDOW
      ? `batchSize: expected at most ${MAX_WITHOUT_WINDOW} on a FIFO queue, got ${batchSize}; ` +
        'lower it or use a standard queue'
      : undefined,
    windowSeconds > 0
      ? `${window}: expected 0 on a FIFO queue, which has no batching window, got ${windowSeconds}; ` +
        'set it to 0 or use a standard queue'
      : undefined,
  ];
}

function standardProblem({ batchSize, windowSeconds }: MappingSettings, window: string): string | undefined {
  if (batchSize <= MAX_WITHOUT_WINDOW || windowSeconds >= 1) return undefined;
  return (
    `${window}: expected at least 1 with a batchSize above ${MAX_WITHOUT_WINDOW}, ` +
    `got ${windowSeconds} with batchSize ${batchSize}; raise ${window} or lower batchSize`
  );
}
