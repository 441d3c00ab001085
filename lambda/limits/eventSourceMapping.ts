import { outside, type Range } from './range.ts';

/** How SQS hands records over to Lambda. */
export interface MappingSettings {
  readonly fifo: boolean;
  /** Most records in one invocation: 1 to 10,000, on a FIFO queue to 10. Above 10 it needs a window. */
  readonly batchSize: number;
  /** Longest wait for a batch to fill, in whole seconds: 0 to 300, on a FIFO queue 0. */
  readonly windowSeconds: number;
}

export const BATCH_SIZE: Range = { least: 1, most: 10_000 };
export const WINDOW_SECONDS: Range = { least: 0, most: 300 };
/**
 * Request queues of one deployment, each with its mapping. One alarm watches them all, and takes at most ten metrics.
 *
 * @see https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html
 */
export const SHARDS: Range = { least: 1, most: 10 };
export const MAXIMUM_CONCURRENCY: Range = { least: 2, most: 1000 };
/**
 * The most invocations that a mapping without provisioned pollers starts at a time, whatever its limit.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export const MOST_INVOCATIONS = 1_250;
/** How it begins, and how many it adds in a minute while messages are left waiting. @see the page of {@link MOST_INVOCATIONS} */
export const INVOCATIONS_AT_FIRST = 5;
export const INVOCATIONS_ADDED_PER_MINUTE = 300;
/** Of provisioned pollers, those that each starts at a time. @see the page of {@link MOST_INVOCATIONS} */
export const INVOCATIONS_PER_POLLER = 10;
export const DEFAULT_MAXIMUM_POLLERS = 200;
/**
 * What a queue, standard or FIFO, has handed out and not yet been told to delete, at the most.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-fifo.html
 */
export const MESSAGES_IN_FLIGHT = 120_000;
/** Of one invocation's event, as JSON. @see https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html */
export const MAX_EVENT_BYTES = 6_291_456;
/** How long the function that is invoked may take. */
export const FUNCTION_TIMEOUT_SECONDS: Range = { least: 1, most: 900 };

/** The size of the `/tmp` of the function that is invoked. */
export const EPHEMERAL_STORAGE_MB = { least: 512, most: 10_240, default: 512 };

const MOST_WITHOUT_WINDOW = 10;

/**
 * Every reason for which an event source mapping of an SQS queue is refused.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html
 */
export function mappingProblems(settings: MappingSettings): string[] {
  return [
    outside('batchSize', settings.batchSize, BATCH_SIZE),
    outside('windowSeconds', settings.windowSeconds, WINDOW_SECONDS),
    ...(settings.fifo ? fifoProblems(settings) : [standardProblem(settings)]),
  ].filter((problem) => problem !== undefined);
}

function fifoProblems({ batchSize, windowSeconds }: MappingSettings): (string | undefined)[] {
  return [
    batchSize > MOST_WITHOUT_WINDOW
      ? `batchSize: expected at most ${MOST_WITHOUT_WINDOW} on a FIFO queue, got ${batchSize}; ` +
        'lower it or use a standard queue'
      : undefined,
    windowSeconds > 0
      ? `windowSeconds: expected 0 on a FIFO queue, which has no batching window, got ${windowSeconds}; ` +
        'set it to 0 or use a standard queue'
      : undefined,
  ];
}

function standardProblem({ batchSize, windowSeconds }: MappingSettings): string | undefined {
  if (batchSize <= MOST_WITHOUT_WINDOW || windowSeconds >= 1) return undefined;
  return (
    `windowSeconds: expected at least 1 with a batchSize above ${MOST_WITHOUT_WINDOW}, ` +
    `got ${windowSeconds} with batchSize ${batchSize}; raise windowSeconds or lower batchSize`
  );
}
