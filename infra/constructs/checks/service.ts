import {
  BATCH_SIZE,
  DRAIN_SHARE,
  HOP_THREADS,
  outside,
  RANGES,
  SHARDS,
  WINDOW_SECONDS,
} from '../../../lambda/core/limits.ts';
import type { Batching } from '../base/batching.ts';
import type { Problem } from '../base/refuse.ts';

/** What every service of workers is told. */
export interface ServiceSettings {
  readonly timeoutSeconds: number;
  readonly stopTimeoutSeconds: number;
  readonly minimumTasks: number;
  readonly maximumTasks: number;
  readonly backlogPerTask: number | undefined;
  readonly mostPolls: number | undefined;
  readonly pipelineDepth: number | undefined;
  readonly hopThreads: number | undefined;
  readonly spot: boolean;
}

/** Between the notice that a spot instance, or a task on one, ends and its end. */
const SPOT_NOTICE_SECONDS = 120;
/** Those of an alarm. @see https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html */
const METRICS_OF_ALARM = 10;
/** Messages that are visible, and in flight. */
const METRICS_OF_QUEUE = 2;
/** The service's own quota. @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-quotas.html */
const MOST_TASKS = 5000;

/** What ECS refuses, what a worker refuses when it starts, and what costs records a receive whenever a task ends. */
export function serviceProblems(settings: ServiceSettings, batching: Batching): Problem[] {
  const { timeoutSeconds, stopTimeoutSeconds, minimumTasks, maximumTasks } = settings;
  return [
    outside('batchSize', batching.batchSize, BATCH_SIZE),
    windowProblem(batching),
    outside('timeoutSeconds', timeoutSeconds, RANGES.timeoutSeconds),
    outside('stopTimeoutSeconds', stopTimeoutSeconds, RANGES.stopSeconds),
    shorterThanDrain(timeoutSeconds, stopTimeoutSeconds),
    settings.spot ? afterSpotNotice(stopTimeoutSeconds) : undefined,
    outside('minimumTasks', minimumTasks, { least: 0, most: MOST_TASKS }),
    outside('maximumTasks', maximumTasks, { least: 1, most: MOST_TASKS }),
    minimumTasks > maximumTasks
      ? `maximumTasks: expected at least minimumTasks, ${minimumTasks}, got ${maximumTasks}; raise it`
      : undefined,
    outside('backlogPerTask', settings.backlogPerTask, { least: 1, most: 1_000_000 }),
    outside('mostPolls', settings.mostPolls, RANGES.mostPolls),
    outside('pipelineDepth', settings.pipelineDepth, RANGES.pipelineDepth),
    outside('hopThreads', settings.hopThreads, HOP_THREADS),
    moreThanAlarmTakes(batching.shards),
  ];
}

/** A worker's window may be a fraction of a second. */
function windowProblem({ windowSeconds }: Batching): Problem {
  if (windowSeconds >= WINDOW_SECONDS.least && windowSeconds <= WINDOW_SECONDS.most) return undefined;
  const { least, most } = WINDOW_SECONDS;
  return `windowSeconds: expected ${least} to ${most}, got ${windowSeconds}; choose a number in that range`;
}

/** What is being scored when a task is told to end must be done before the worker cuts it short and hands it back. */
function shorterThanDrain(timeoutSeconds: number, stopTimeoutSeconds: number): Problem {
  const least = Math.ceil(timeoutSeconds / DRAIN_SHARE);
  if (stopTimeoutSeconds >= least) return undefined;
  return (
    `stopTimeoutSeconds: expected at least ${least} = ${timeoutSeconds} s timeout ÷ ${DRAIN_SHARE}, the share of it in ` +
    `which a worker finishes its batches, got ${stopTimeoutSeconds}; raise it or lower timeoutSeconds`
  );
}

/** @see https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html */
function afterSpotNotice(stopTimeoutSeconds: number): Problem {
  if (stopTimeoutSeconds <= SPOT_NOTICE_SECONDS) return undefined;
  return (
    `stopTimeoutSeconds: expected at most ${SPOT_NOTICE_SECONDS} with spot, whose capacity ends so long after its notice, ` +
    `got ${stopTimeoutSeconds}; lower it or leave out spot`
  );
}

function moreThanAlarmTakes(shards: number): Problem {
  const most = Math.floor((METRICS_OF_ALARM - 1) / METRICS_OF_QUEUE);
  if (shards <= most || shards > SHARDS.most) return undefined;
  const needed = METRICS_OF_QUEUE * shards + 1;
  return (
    `shards: expected at most ${most} with tasks that scale by the backlog of all, because an alarm takes ` +
    `${METRICS_OF_ALARM} metrics, got ${shards} × ${METRICS_OF_QUEUE} and that of the tasks = ${needed}; lower it: ` +
    'a worker receives from one queue as fast as from several'
  );
}
