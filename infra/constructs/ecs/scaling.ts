import { Duration, Names } from 'aws-cdk-lib';
import {
  AdjustmentType,
  CfnScalingPolicy,
  MetricAggregationType,
  ScalableTarget,
  Schedule,
  StepScalingAction,
} from 'aws-cdk-lib/aws-applicationautoscaling';
import {
  Alarm,
  ComparisonOperator,
  MathExpression,
  type Metric,
  Stats,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { ApplicationScalingAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { BaseService } from 'aws-cdk-lib/aws-ecs';
import type { Construct } from 'constructs';
import type { Queues } from '../storage/requestQueue.ts';
import { taskCount, whereNone } from './taskMetrics.ts';

export interface ScalingSettings {
  readonly minimumTasks: number;
  readonly maximumTasks: number;
  /** Messages, waiting and in flight, for each task. */
  readonly backlogPerTask: number;
  /** Until a task that was asked for takes part. */
  readonly startSeconds: number;
}

/** Of the metrics of SQS and of tasks. */
const MINUTE = Duration.minutes(1);
/** As long as target tracking waits before it takes tasks away. */
const IDLE_MINUTES = 15;
const SCALE_IN_COOLDOWN_SECONDS = 300;
const FLOOR_INTERVAL = Duration.minutes(5);

/**
 * Asks for a task when there are messages and none is asked for, for as many as the backlog is worth once there is one, and
 * for none when there has been no message for a while. No two of these act at a time: the first while zero tasks are asked
 * for, the second, which divides by their number, while there are some, and the third while there is no backlog.
 */
export function scaleByBacklog(
  scope: Construct,
  service: BaseService,
  requestQueues: Queues,
  settings: ScalingSettings,
): void {
  const { minimumTasks, maximumTasks } = settings;
  const scaling = service.autoScaleTaskCount({ minCapacity: minimumTasks, maxCapacity: maximumTasks });
  const target = scaling.node.findChild('Target');
  if (!(target instanceof ScalableTarget)) throw new Error('expected scaling to have its target as a child');
  const metrics = { ...messages(requestQueues), tasks: taskCount(service, 'DesiredTaskCount', { period: MINUTE }) };
  const backlog = sumOf(messages(requestQueues));
  wake(scope, target, backlog, metrics);
  track(scope, target, backlog, metrics, settings);
  if (minimumTasks === 0) sleep(scope, target, traffic(requestQueues));
  // Scaling alone would raise the number to its minimum only when it adds tasks for another reason.
  else scaling.scaleOnSchedule('Floor', { schedule: Schedule.rate(FLOOR_INTERVAL), minCapacity: minimumTasks });
}

type Metrics = Readonly<Record<string, Metric>>;

const AT_A_MOMENT = { period: MINUTE, statistic: Stats.MAXIMUM };

/** Those of an empty queue may be missing. */
function messages(queues: Queues): Metrics {
  return Object.fromEntries(
    queues.flatMap((queue, shard) => [
      [`visible${shard}`, queue.metricApproximateNumberOfMessagesVisible(AT_A_MOMENT)],
      [`inFlight${shard}`, queue.metricApproximateNumberOfMessagesNotVisible(AT_A_MOMENT)],
    ]),
  );
}

/** What is answered in milliseconds is hardly ever seen on the queue, at one moment of a minute: receives are counted. */
function traffic(queues: Queues): Metrics {
  return Object.fromEntries(
    queues.flatMap((queue, shard) => [
      [`visible${shard}`, queue.metricApproximateNumberOfMessagesVisible(AT_A_MOMENT)],
      [`received${shard}`, queue.metricNumberOfMessagesReceived({ period: MINUTE, statistic: Stats.SUM })],
    ]),
  );
}

function sumOf(metrics: Metrics): string {
  return `SUM([${Object.keys(metrics).join(', ')}])`;
}

function wake(scope: Construct, scalingTarget: ScalableTarget, backlog: string, metrics: Metrics): void {
  const action = new StepScalingAction(scope, 'WakeUp', {
    scalingTarget,
    adjustmentType: AdjustmentType.EXACT_CAPACITY,
    metricAggregationType: MetricAggregationType.MAXIMUM,
  });
  action.addAdjustment({ lowerBound: 0, adjustment: 1 });
  const alarm = new Alarm(scope, 'Asleep', {
    alarmDescription: 'There are requests and no task is asked for: this asks for one.',
    metric: whereNone('tasks', backlog, metrics, MINUTE),
    threshold: 1,
    comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
    evaluationPeriods: 1,
    treatMissingData: TreatMissingData.NOT_BREACHING,
  });
  alarm.addAlarmAction(new ApplicationScalingAction(action));
}

function sleep(scope: Construct, scalingTarget: ScalableTarget, usingMetrics: Metrics): void {
  const action = new StepScalingAction(scope, 'GoToSleep', {
    scalingTarget,
    adjustmentType: AdjustmentType.EXACT_CAPACITY,
    metricAggregationType: MetricAggregationType.MAXIMUM,
  });
  action.addAdjustment({ upperBound: 0, adjustment: 0 });
  const alarm = new Alarm(scope, 'Idle', {
    alarmDescription: `There has been no request for ${IDLE_MINUTES} minutes: this ends the tasks.`,
    metric: new MathExpression({ label: 'messages', expression: sumOf(usingMetrics), usingMetrics, period: MINUTE }),
    threshold: 0,
    comparisonOperator: ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD,
    evaluationPeriods: IDLE_MINUTES,
    // A queue of which nothing is known is not an idle one.
    treatMissingData: TreatMissingData.NOT_BREACHING,
  });
  alarm.addAlarmAction(new ApplicationScalingAction(action));
}

/**
 * The library's own target tracking takes no expression.
 *
 * @see https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking-metric-math.html
 */
function track(
  scope: Construct,
  { scalableTargetId }: ScalableTarget,
  backlog: string,
  metrics: Metrics,
  { backlogPerTask, startSeconds }: ScalingSettings,
): void {
  // With nothing to divide it would end the last task, as if no message had been answered since it last looked.
  const perTask = `IF(${backlog} < 1, 1, ${backlog}) / tasks`;
  new CfnScalingPolicy(scope, 'Backlog', {
    policyName: Names.uniqueResourceName(scope, { separator: '-', maxLength: 200 }),
    policyType: 'TargetTrackingScaling',
    scalingTargetId: scalableTargetId,
    targetTrackingScalingPolicyConfiguration: {
      targetValue: backlogPerTask,
      scaleOutCooldown: startSeconds,
      scaleInCooldown: SCALE_IN_COOLDOWN_SECONDS,
      customizedMetricSpecification: {
        metrics: [
          { id: 'backlogPerTask', label: 'messages for each task', expression: perTask, returnData: true },
          ...Object.entries(metrics).map(([id, metric]) => queryOf(id, metric)),
        ],
      },
    },
  });
}

function queryOf(id: string, { namespace, metricName, dimensions = {}, statistic }: Metric) {
  return {
    id,
    returnData: false,
    metricStat: {
      stat: statistic,
      metric: {
        namespace,
        metricName,
        dimensions: Object.entries(dimensions).map(([name, value]) => ({ name, value })),
      },
    },
  };
}
