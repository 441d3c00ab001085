import { availableParallelism } from 'node:os';
import { CONFIG_KEYS } from '../configKeys.ts';
import type { Config } from '../configSchema.ts';
import { DRAIN_SHARE, END_SHARE } from '../limits/worker.ts';

/** What a worker does when, from its configuration. */
export interface WorkerSettings {
  readonly queueUrls: readonly string[];
  readonly batchSize: number;
  readonly windowMs: number;
  readonly depth: number;
  readonly mostPolls: number;
  /** Most threads that make calls of SQS. */
  readonly hopThreads: number;
  /** Longest wait of one poll. */
  readonly waitSeconds: number;
  readonly visibilitySeconds: number;
  readonly timeoutMs: number;
  /** From SIGTERM: until what is being scored is cut short, and until the process ends in any case. */
  readonly drainMs: number;
  readonly endMs: number;
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-short-and-long-polling.html */
const LONGEST_WAIT_SECONDS = 20;
/** One for the event loop, and one for a model. */
const CORES_OF_OTHERS = 2;

/**
 * Polls are not aborted, so they are short enough to end before the process must.
 *
 * @throws Error where a batch has no time in which anything may be started
 */
export function workerSettings(config: Config): WorkerSettings {
  const { batchSize = config.maxBatchRows, windowSeconds = 0, stopSeconds, timeoutSeconds, deadlineMarginMs } = config;
  if (1000 * timeoutSeconds <= deadlineMarginMs) {
    throw new Error(
      `configuration: ${CONFIG_KEYS.timeoutSeconds}: expected more than ${CONFIG_KEYS.deadlineMarginMs}, ` +
        `${deadlineMarginMs} ms, within which nothing is started, got ${timeoutSeconds} s; raise it, or lower the margin`,
    );
  }
  return {
    queueUrls: config.requestQueueUrls,
    batchSize,
    windowMs: 1000 * windowSeconds,
    depth: config.pipelineDepth,
    mostPolls: config.mostPolls,
    hopThreads: config.hopThreads ?? Math.max(0, availableParallelism() - CORES_OF_OTHERS),
    waitSeconds: Math.min(LONGEST_WAIT_SECONDS, Math.floor(stopSeconds / 2)),
    visibilitySeconds: config.visibilitySeconds,
    timeoutMs: 1000 * timeoutSeconds,
    drainMs: 1000 * stopSeconds * DRAIN_SHARE,
    endMs: 1000 * stopSeconds * END_SHARE,
  };
}
