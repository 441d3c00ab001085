import type { IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import type { IRole } from 'aws-cdk-lib/aws-iam';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Duration } from 'aws-cdk-lib/core';
import { BATCH_SIZE, DRAIN_SHARE, SHARDS, WINDOW_SECONDS } from '../../lambda/core/limits.ts';
import { SETTINGS } from '../../lambda/settings.ts';

import { brokenOf, exceeds, networkProblems, outside, type Problem, unknownAtSynth } from '../common/problems.ts';
import { secondsOf } from '../common/units.ts';
import type { Batching } from './compute.ts';

/** What every service of workers can be told. */
export interface ServiceOptions {
  /**
   * The role that workers run with, which everything is granted to. ECS tasks must be allowed to assume it.
   * @default a new one, which may do what scoring needs and nothing else
   */
  readonly role?: IRole | undefined;
  /**
   * Where workers log. Retention, key and removal policy are its own.
   * @default a new one
   */
  readonly logGroup?: ILogGroup | undefined;
  /** How long one batch may take, whole seconds, 1 to 3,600; what is not scored by then is handed back. @default 60 seconds */
  readonly timeout?: Duration;
  /**
   * From SIGTERM until ECS kills a task, whole seconds: to Fargate and with `spot` 120 at the most, and a third longer than
   * `timeout` at least, so that what is being scored is finished.
   * @default 120 seconds
   */
  readonly stopTimeout?: Duration;
  /** Tasks that always run. 0 scales to zero: nothing runs while there are no requests, and waking takes minutes. @default 0 */
  readonly minimumTasks?: number;
  /** Most tasks. While a new version takes over, there are up to twice as many. @default 4 */
  readonly maximumTasks?: number;
  /**
   * Messages, waiting and in flight, that there is a task for: with more, tasks are added. How many a task scores in the
   * time that requests may wait.
   * @default ten batches
   */
  readonly backlogPerTask?: number;
  /** Most receives of a worker in flight, 1 to 64. @default 16 */
  readonly maxPolls?: number;
  /** Most batches of a model that a worker scores at the same time, 1 to 16. @default 2 */
  readonly pipelineDepth?: number;
  /** True if tasks run on spot capacity, which is cheaper, and ends with a notice of two minutes. @default false */
  readonly spot?: boolean;
  /**
   * The network of the tasks. It must reach ECR, CloudWatch Logs, SQS, S3 and the result stores; Managed
   * Instances need ECS too.
   * @default a network of its own, with endpoints of these services and no route to the internet
   */
  readonly vpc?: IVpc;
  /** Subnets of `vpc`. @default its private ones */
  readonly subnets?: SubnetSelection;
}

/** The options with plain numbers and defaults. */
export type ServiceSettings = ReturnType<typeof serviceDefaults>;

/** @throws ValidationError when an amount is a token */
export function serviceDefaults(options: ServiceOptions) {
  const { minimumTasks = 0 } = options;
  return {
    ...options,
    timeoutSeconds: secondsOf('timeout', options.timeout) ?? 60,
    stopTimeoutSeconds: secondsOf('stopTimeout', options.stopTimeout) ?? 120,
    minimumTasks,
    maximumTasks: options.maximumTasks ?? Math.max(4, minimumTasks),
    spot: options.spot ?? false,
    /** True if the subnets that were given, if any, are public ones. */
    isPublic: options.vpc?.selectSubnets(options.subnets).hasPublic ?? false,
  };
}

/** Between the notice that a spot instance, or a task on one, ends and its end. */
const SPOT_NOTICE_SECONDS = 120;
/** Those of an alarm. @see https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html */
const METRICS_OF_ALARM = 10;
/** Messages that are visible, and in flight. */
const METRICS_OF_QUEUE = 2;
/** The service's own quota. @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-quotas.html */
const MAX_TASKS = 5000;

/** What ECS refuses, what a worker refuses when it starts, and what costs records a receive whenever a task ends. */
export function serviceProblems(settings: ServiceSettings, { batchSize, windowSeconds, shards }: Batching): Problem[] {
  const { timeoutSeconds, stopTimeoutSeconds, minimumTasks, maximumTasks } = settings;
  const minStopSeconds = Math.ceil(timeoutSeconds / DRAIN_SHARE);
  const maxShards = Math.floor((METRICS_OF_ALARM - 1) / METRICS_OF_QUEUE);
  return [
    // The backlog of a task is ten batches, unless it is given.
    settings.backlogPerTask === undefined ? unknownAtSynth('batchSize', batchSize) : undefined,
    outside('batchSize', batchSize, BATCH_SIZE),
    outside('timeout', timeoutSeconds, SETTINGS.timeoutSeconds, 'seconds'),
    outside('stopTimeout', stopTimeoutSeconds, SETTINGS.stopSeconds, 'seconds'),
    unknownAtSynth('minimumTasks', minimumTasks),
    outside('minimumTasks', minimumTasks, { min: 0, max: MAX_TASKS }),
    outside('maximumTasks', maximumTasks, { min: 1, max: MAX_TASKS }),
    outside('backlogPerTask', settings.backlogPerTask, { min: 1, max: 1_000_000 }),
    outside('maxPolls', settings.maxPolls, SETTINGS.maxPolls),
    outside('pipelineDepth', settings.pipelineDepth, SETTINGS.pipelineDepth),
    ...networkProblems({ vpc: settings.vpc, subnets: settings.subnets }),
    ...brokenOf([
      [
        // A worker's window may be a fraction of a second.
        windowSeconds < WINDOW_SECONDS.min || windowSeconds > WINDOW_SECONDS.max,
        `window: expected ${WINDOW_SECONDS.min} to ${WINDOW_SECONDS.max} seconds, got ${windowSeconds}; ` +
          'choose a number in that range',
      ],
      [
        stopTimeoutSeconds < minStopSeconds,
        `stopTimeout: expected at least ${minStopSeconds} seconds = ${timeoutSeconds} s timeout ÷ ${DRAIN_SHARE}, the ` +
          `share of it in which a worker finishes its batches, got ${stopTimeoutSeconds}; raise it or lower timeout`,
      ],
      [
        settings.spot && stopTimeoutSeconds > SPOT_NOTICE_SECONDS,
        `stopTimeout: expected at most ${SPOT_NOTICE_SECONDS} seconds with spot, whose capacity ends so long after its ` +
          `notice, got ${stopTimeoutSeconds}; lower it or leave out spot`,
      ],
      [
        exceeds(minimumTasks, maximumTasks),
        `maximumTasks: expected at least minimumTasks, ${minimumTasks}, got ${maximumTasks}; raise it`,
      ],
      [
        shards > maxShards && shards <= SHARDS.max,
        `shards: expected at most ${maxShards} with tasks that scale by the backlog of all, because an alarm takes ` +
          `${METRICS_OF_ALARM} metrics, got ${shards} × ${METRICS_OF_QUEUE} and that of the tasks = ` +
          `${METRICS_OF_QUEUE * shards + 1}; lower it: a worker receives from one queue as fast as from several`,
      ],
    ]),
  ];
}

/**
 * A heartbeat extends what is held once a third of its time is over, and has a third for a call's three tries of 7 s each.
 */
const MIN_SECONDS = 60;

/**
 * Records stay hidden by heartbeats; without one they still do while they are gathered and scored. So long, too, it takes
 * for the records of a worker that was lost to come back.
 */
export function minWorkerVisibility(
  timeoutSeconds: number,
  { windowSeconds }: Batching,
): { readonly seconds: number; readonly sum: string } {
  const seconds = timeoutSeconds + windowSeconds;
  if (seconds >= MIN_SECONDS) return { seconds, sum: `${timeoutSeconds} s timeout + ${windowSeconds} s window` };
  return { seconds: MIN_SECONDS, sum: '3 × 20 s, in which a heartbeat is tried three times' };
}
