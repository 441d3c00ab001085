import {
  Alarm,
  ComparisonOperator,
  type IAlarmAction,
  MathExpression,
  type Metric,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Annotations } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { MESSAGES_IN_FLIGHT } from '../../lambda/core/limits.ts';
import type { MetricName } from '../../lambda/core/observer.ts';
import type { Queues } from '../common/created.ts';
import { type AlarmCondition, AT_MOST, oldestMessageAge, PERIOD, scoringMetric, together } from '../common/metrics.ts';
import type { Batching, Compute } from '../compute/compute.ts';
import type { CreatedStore } from '../stores/resultStore.ts';

export interface AlarmThresholds {
  /**
   * Maximum percent of the records that go back to SQS, 0 to 99. Deployments and throttles cause a few.
   * @default the lower of 5 and half of the first step of `trafficRouting`
   */
  readonly retriedPercent: number;
  /**
   * Maximum percent of the requests that are answered with an error, 0 to 99.
   * @default the lower of 50 and half of the first step of `trafficRouting`
   */
  readonly errorPercent: number;
}

export interface Subject {
  readonly props: { readonly alarmActions?: readonly IAlarmAction[]; readonly okActions?: readonly IAlarmAction[] };
  readonly serviceName: string;
  readonly batching: Batching;
  readonly latencyTargetSeconds: number;
  readonly alarmThresholds: AlarmThresholds;
  readonly urgentTargetSeconds: number;
  /** Queues that producers spread their messages over. */
  readonly requestQueues: Queues;
  readonly urgentQueue: IQueue | undefined;
  readonly allQueues: Queues;
  readonly deadLetterQueue: IQueue | undefined;
  readonly stores: readonly CreatedStore[];
  readonly compute: Compute;
  readonly jobs: Pick<Compute, 'alarms' | 'graphs'> | undefined;
}

/**
 * Creates an alarm for each condition that a person has to look at.
 * @returns them by the IDs of their conditions, and those that roll a new version back
 */
export function createAlarms(scope: Construct, subject: Subject) {
  const { alarmActions = [], okActions = alarmActions } = subject.props;
  if (alarmActions.length === 0) {
    Annotations.of(scope).addInfoV2(
      'batchscore:noAlarmActions',
      'alarmActions: expected somebody to be told when an alarm goes off, got nobody; give actions such as an SnsAction',
    );
  }
  const byName: Record<string, Alarm> = {};
  const ofVersions: Alarm[] = [];
  for (const { id, description, metric, blamesVersion, ...condition } of conditionsOf(subject)) {
    const { threshold = 0, evaluationPeriods = 1, datapointsToAlarm = evaluationPeriods } = condition;
    const alarm = new Alarm(scope, id, {
      alarmDescription: `${description} docs/operations.md#alarms says what to do.`,
      metric,
      threshold,
      evaluationPeriods,
      datapointsToAlarm,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      // A queue without traffic has no metrics.
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
    alarm.addAlarmAction(...alarmActions);
    alarm.addOkAction(...okActions);
    byName[id] = alarm;
    if (blamesVersion) ofVersions.push(alarm);
  }
  return { byName, ofVersions };
}

/** Number of periods for alarms on shares. One record of ten in a single period is no trend. */
const LASTING = { evaluationPeriods: 3, datapointsToAlarm: 2, blamesVersion: true };
/** Share of the quota in flight. Above the quota, receives return nothing, so it leaves time to react. */
const IN_FLIGHT_PERCENT = 80;

function conditionsOf(subject: Subject): AlarmCondition[] {
  const { requestQueues, urgentQueue, allQueues, deadLetterQueue, stores, compute, jobs } = subject;
  const { latencyTargetSeconds, urgentTargetSeconds } = subject;
  const { retriedPercent, errorPercent } = subject.alarmThresholds;
  const metric = (name: MetricName) => scoringMetric(subject.serviceName, name);
  const percent = (label: string, expression: string, usingMetrics: Record<string, Metric>) =>
    new MathExpression({ label, period: PERIOD, expression: `100 * ${expression}`, usingMetrics });
  const conditions: readonly (AlarmCondition | undefined)[] = [
    deadLetterQueue && {
      id: 'DeadLetters',
      description: 'Messages were given up on and have no answer.',
      metric: deadLetterQueue.metricApproximateNumberOfMessagesVisible(AT_MOST),
    },
    urgentQueue && {
      id: 'OldestUrgentMessage',
      description: `The oldest urgent request has waited for longer than ${urgentTargetSeconds} s.`,
      metric: oldestMessageAge([urgentQueue]),
      threshold: urgentTargetSeconds,
    },
    ...stores.flatMap(({ alarms = [] }) => alarms),
    {
      id: 'OldestMessage',
      description: `The oldest request has waited for longer than the latency target of ${latencyTargetSeconds} s.`,
      metric: oldestMessageAge(requestQueues),
      threshold: latencyTargetSeconds,
    },
    {
      id: 'MessagesInFlight',
      description:
        `A request queue has handed out more than ${IN_FLIGHT_PERCENT} % of the ${MESSAGES_IN_FLIGHT} messages that it may; ` +
        'at all of them, receives get nothing, without an error.',
      // Each queue has its own quota.
      metric: together('MAX', allQueues, (queue) => queue.metricApproximateNumberOfMessagesNotVisible(AT_MOST)),
      threshold: (MESSAGES_IN_FLIGHT * IN_FLIGHT_PERCENT) / 100,
    },
    {
      id: 'Retries',
      description: `More than ${retriedPercent} % of the records could not be scored or written and went back to SQS.`,
      metric: percent('retried, % of records', 'retries / (answered + retries)', {
        retries: metric('Retries'),
        answered: metric('Answered'),
      }),
      threshold: retriedPercent,
      ...LASTING,
    },
    {
      id: 'MissingOrDenied',
      description:
        'A result store, the payload bucket or a model is missing, denied or cannot be opened. The log names it.',
      metric: metric('MissingOrDenied'),
    },
    {
      id: 'Errors',
      description: `More than ${errorPercent} % of the requests were answered with an error. The log has the codes.`,
      metric: percent('answered with an error, % of requests', 'errors / requests', {
        errors: metric('Errors'),
        requests: metric('Requests'),
      }),
      threshold: errorPercent,
      ...LASTING,
    },
    {
      id: 'ScorersLost',
      description: 'A request crashed or hung the process that holds the models, and is answered with an error.',
      metric: metric('ScorersLost'),
      blamesVersion: true,
    },
    {
      id: 'BatchMismatch',
      description: 'A row of a model got another answer in a micro-batch than alone: earlier results may be wrong.',
      metric: metric('BatchMismatch'),
      blamesVersion: true,
    },
    ...compute.alarms,
    ...(jobs?.alarms ?? []),
  ];
  return conditions.filter((condition) => condition !== undefined);
}
