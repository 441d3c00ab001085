interface RangeWithDefault extends Range {
  readonly default: number;
}

const MIB = 1024 * 1024;

/**
 * Returns the maximum memory for one message: a 64th of the host's. Parsed JSON takes up to twenty times its text, and
 * one payload is parsed at a time.
 *
 * @returns bytes: 28,983,296 with 1,769 MB
 */
export function shareOfMemory(memoryMb: number): number {
  return Math.floor((memoryMb * MIB) / 64);
}

/** Number of receives after which a new request queue moves a message to its dead-letter queue. */
export const MAX_RECEIVES = 20;

/** Log levels of the function, most verbose first. Each level includes those after it. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Range of a number, including both ends. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

export function wholeNumberIn({ min, max }: Range, unit?: string): string {
  return `a whole number${unit === undefined ? '' : ` of ${unit}`} from ${min} to ${max}`;
}

/** Returns the problem of a number that must be an integer in a range. An undefined value has a default. */
export function outside(name: string, value: number | undefined, range: Range, unit?: string): string | undefined {
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && value >= range.min && value <= range.max) return undefined;
  return `${name}: expected ${wholeNumberIn(range, unit)}, got ${value}; choose one in that range`;
}

/**
 * MB of a function's memory for one vCPU. @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html
 */
export const MB_PER_VCPU = 1_769;

/**
 * Maximum size of one SQS message, and of all messages in a batch request: bodies and attributes.
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
 */
export const MAX_MESSAGE_BYTES = MIB;
/** Size of a full batch. A call decodes this many bytes ahead of its runs, so that no batch is split. */
export const BATCH_BYTES = 32 * MIB;
/** Share of the time from SIGTERM to SIGKILL after which work in progress is aborted. */
export const DRAIN_SHARE = 0.75;
/** Share of that time after which the process ends in any case. */
export const END_SHARE = 0.95;

/** Ranges of job settings. The functions check them at start, the infrastructure at synth. */
export const JOB_RANGES = {
  /**
   * Size of a part, the work of one child of the map: six pieces. Each part costs three Step Functions transitions,
   * 0.000075 $. For 96 MiB that is a fifth of the cost of a job with 20,000 rows of 500 bytes a second.
   */
  partBytes: { min: 1, max: 1024 * MIB, default: 96 * MIB },
  /** Size of a piece, which is read, scored and put as one. A call holds two pieces and the rows of two. */
  pieceBytes: { min: 1, max: 64 * MIB, default: 16 * MIB },
  /** Number of concurrent calls. A distributed map starts at most 10,000 concurrent children. */
  concurrency: { min: 1, max: 10_000, default: 200 },
} satisfies Readonly<Record<string, RangeWithDefault>>;

export const FUNCTION_TIMEOUT_SECONDS: Range = { min: 1, max: 900 };

/** Lambda's maximum. Longer calls interrupt fewer parts. */
export const JOB_TIMEOUT_SECONDS = FUNCTION_TIMEOUT_SECONDS.max;

/** Memory of the function that scores jobs, in MiB. The default has one whole vCPU. */
export const JOB_MEMORY_MB = { min: 128, max: 10_240, default: 1769 } satisfies RangeWithDefault;

/** Default prefixes of files and results. */
export const JOB_PREFIXES = { input: 'jobs/in/', output: 'jobs/out/' };

export interface MappingSettings {
  readonly fifo: boolean;
  /** Maximum number of records in one invocation: 1 to 10,000, or 10 on a FIFO queue. More than 10 need a window. */
  readonly batchSize: number;
  /** Maximum wait for a full batch, in whole seconds: 0 to 300, or 0 on a FIFO queue. */
  readonly windowSeconds: number;
}

export const BATCH_SIZE: Range = { min: 1, max: 10_000 };
export const WINDOW_SECONDS: Range = { min: 0, max: 300 };
/**
 * Number of request queues of one deployment, each with its mapping. One alarm watches them all, with at most ten
 * metrics.
 *
 * @see https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html
 */
export const SHARDS: Range = { min: 1, max: 10 };
export const MAXIMUM_CONCURRENCY: Range = { min: 2, max: 1000 };
/**
 * Maximum number of concurrent invocations of a mapping without provisioned pollers, if its own limit is not lower.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export const MAX_INVOCATIONS = 1_250;
/**
 * Initial concurrent invocations of a mapping, and their growth per minute while messages wait.
 * @see the page of {@link MAX_INVOCATIONS}
 */
export const INVOCATIONS_AT_FIRST = 5;
export const INVOCATIONS_ADDED_PER_MINUTE = 300;
/** Number of concurrent invocations of each provisioned poller. @see the page of {@link MAX_INVOCATIONS} */
export const INVOCATIONS_PER_POLLER = 10;
export const DEFAULT_MAXIMUM_POLLERS = 200;
/**
 * Maximum number of messages in flight of a queue, standard or FIFO.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-fifo.html
 */
export const MESSAGES_IN_FLIGHT = 120_000;
/**
 * Maximum size of an invocation's event as JSON.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
 */
export const MAX_EVENT_BYTES = 6_291_456;

export const EPHEMERAL_STORAGE_MB = { min: 512, max: 10_240, default: 512 };

const MAX_WITHOUT_WINDOW = 10;

/** Returns the settings of a mapping that hands messages over as soon as they arrive. */
export function withoutWindow({ batchSize }: Pick<MappingSettings, 'batchSize'>) {
  return { batchSize: Math.min(batchSize, MAX_WITHOUT_WINDOW), windowSeconds: 0 };
}

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
