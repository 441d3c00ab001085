import type { IRole } from 'aws-cdk-lib/aws-iam';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Duration } from 'aws-cdk-lib/core';
import { BATCH_SIZE, DRAIN_SHARE, SHARDS, WINDOW_SECONDS } from '../../lambda/core/limits.ts';
import { SETTINGS } from '../../lambda/settings.ts';
import { exceeds, outside, type Problem, unknownAtSynth } from '../common/problems.ts';
import { secondsOf } from '../common/units.ts';
import { type Batching, queueCount } from './compute.ts';
import type { InstanceNetwork } from './privateNetwork.ts';

/** Options of all services of workers. */
export interface ServiceOptions extends InstanceNetwork {
  /**
   * Role of the workers, which gets all permissions. ECS tasks must be allowed to assume it.
   * @default a new one with only the permissions for scoring
   */
  readonly role?: IRole;
  /** Log group of the workers, with its own retention, key and removal policy. @default a new one */
  readonly logGroup?: ILogGroup;
  /**
   * Maximum time of one batch, whole seconds, 1 to 3,600. Records that are not scored by then go back to SQS.
   * @default 60 seconds
   */
  readonly timeout?: Duration;
  /**
   * Time from SIGTERM until ECS kills a task, whole seconds, at least `timeout` plus a third. At most 120 on Fargate
   * and with `spot`.
   * @default 120 seconds
   */
  readonly stopTimeout?: Duration;
  /**
   * Minimum tasks, which always run. 0 scales to zero: idle time costs nothing, and a start takes minutes.
   * @default 0
   */
  readonly minimumTasks?: number;
  /** Maximum tasks. During a deployment there may be twice as many. @default 4 */
  readonly maximumTasks?: number;
  /**
   * Messages per task, waiting or in flight, above which tasks are added. Set it to the number that a task scores in
   * the time that requests may wait.
   * @default ten batches
   */
  readonly backlogPerTask?: number;
  /** Maximum concurrent receives of a worker, 1 to 64. @default 16 */
  readonly maxPolls?: number;
  /** Maximum batches of a model that a worker scores at the same time, 1 to 16. @default 2 */
  readonly pipelineDepth?: number;
  /** True to run on spot capacity, which is cheaper and ends with a notice of two minutes. @default false */
  readonly spot?: boolean;
}

/** Options as plain numbers, with defaults. */
export type ServiceSettings = ReturnType<typeof serviceDefaults>;

/** @throws ValidationError if an amount is a token */
export function serviceDefaults(options: ServiceOptions) {
  const { minimumTasks = 0 } = options;
  return {
    ...options,
    timeoutSeconds: secondsOf('timeout', options.timeout) ?? 60,
    stopTimeoutSeconds: secondsOf('stopTimeout', options.stopTimeout) ?? 120,
    minimumTasks,
    maximumTasks: options.maximumTasks ?? Math.max(4, minimumTasks),
    spot: options.spot ?? false,
    /** True if subnets are given and are public. */
    isPublic: options.vpc?.selectSubnets(options.subnets).hasPublic ?? false,
  };
}

/**
 * Maximum metrics of an alarm.
 * @see https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html
 */
const METRICS_OF_ALARM = 10;
/** Number of metrics for each queue: visible messages and messages in flight. */
const METRICS_OF_QUEUE = 2;
/** Quota for a service. @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-quotas.html */
const MAX_TASKS = 5000;

/**
 * Returns problems with settings that ECS or a worker refuses, or that cost records a receive when a task ends.
 *
 * @param maxStopSeconds longest stop of the capacity
 */
export function serviceProblems(settings: ServiceSettings, batching: Batching, maxStopSeconds: number): Problem[] {
  const { timeoutSeconds, stopTimeoutSeconds, minimumTasks, maximumTasks } = settings;
  const minStopSeconds = Math.ceil(timeoutSeconds / DRAIN_SHARE);
  const { batchSize, windowSeconds, shards } = batching;
  const queues = queueCount(batching);
  const maxShards = Math.floor((METRICS_OF_ALARM - 1) / METRICS_OF_QUEUE) - (queues - shards);
  return [
    // The default backlog of a task is computed from the batch size.
    settings.backlogPerTask === undefined && unknownAtSynth('batchSize', batchSize),
    outside('batchSize', batchSize, BATCH_SIZE),
    outside('timeout', timeoutSeconds, SETTINGS.timeoutSeconds, 'seconds'),
    outside('stopTimeout', stopTimeoutSeconds, SETTINGS.stopSeconds, 'seconds'),
    unknownAtSynth('minimumTasks', minimumTasks),
    outside('minimumTasks', minimumTasks, { min: 0, max: MAX_TASKS }),
    outside('maximumTasks', maximumTasks, { min: 1, max: MAX_TASKS }),
    outside('backlogPerTask', settings.backlogPerTask, { min: 1, max: 1_000_000 }),
    outside('maxPolls', settings.maxPolls, SETTINGS.maxPolls),
    outside('pipelineDepth', settings.pipelineDepth, SETTINGS.pipelineDepth),
    exceeds(minimumTasks, maximumTasks) &&
      `maximumTasks: expected at least minimumTasks, ${minimumTasks}, got ${maximumTasks}; raise it`,
    // A worker's window may be a fraction of a second.
    (windowSeconds < WINDOW_SECONDS.min || windowSeconds > WINDOW_SECONDS.max) &&
      `window: expected ${WINDOW_SECONDS.min} to ${WINDOW_SECONDS.max} seconds, got ${windowSeconds}; ` +
        'choose a number in that range',
    stopTimeoutSeconds < minStopSeconds &&
      `stopTimeout: expected at least ${minStopSeconds} seconds = ${timeoutSeconds} s timeout ÷ ${DRAIN_SHARE}, the ` +
        `share of it in which a worker finishes its batches, got ${stopTimeoutSeconds}; raise it or lower timeout`,
    stopTimeoutSeconds > maxStopSeconds &&
      `stopTimeout: expected at most ${maxStopSeconds} seconds, which is what Fargate and spot capacity wait, got ` +
        `${stopTimeoutSeconds}; lower it, and timeout with it`,
    shards > maxShards &&
      shards <= SHARDS.max &&
      `shards: expected at most ${maxShards} with tasks that scale by the backlog of all, because an alarm takes ` +
        `${METRICS_OF_ALARM} metrics, got ${queues} × ${METRICS_OF_QUEUE} and that of the tasks = ` +
        `${METRICS_OF_QUEUE * queues + 1}; lower it: a worker receives from one queue as fast as from several`,
  ];
}

/**
 * Minimum seconds for heartbeats. A heartbeat starts after a third of the timeout, and has another third for three
 * tries of 7 s each.
 */
const MIN_SECONDS = 60;

/**
 * Returns the minimum visibility timeout. It covers batching and scoring even if heartbeats fail. It is also the time
 * until the records of a lost worker become visible again.
 */
export function minWorkerVisibility(timeoutSeconds: number, { windowSeconds }: Batching) {
  const seconds = timeoutSeconds + windowSeconds;
  if (seconds >= MIN_SECONDS) return { seconds, sum: `${timeoutSeconds} s timeout + ${windowSeconds} s window` };
  return { seconds: MIN_SECONDS, sum: '3 × 20 s, in which a heartbeat is tried three times' };
}
