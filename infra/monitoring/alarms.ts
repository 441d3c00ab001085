import {
  Alarm,
  ComparisonOperator,
  type IAlarmAction,
  MathExpression,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Annotations } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { MESSAGES_IN_FLIGHT } from '../../lambda/core/limits.ts';
import type { MetricName } from '../../lambda/core/observer.ts';
import type { Queues } from '../common/created.ts';
import {
  type AlarmCondition,
  AT_MOST,
  type Graph,
  oldestMessageAge,
  PERIOD,
  scoringMetric,
  together,
} from '../common/metrics.ts';
import type { Batching, Compute } from '../compute/compute.ts';
import type { CreatedStore } from '../stores/resultStore.ts';

export interface AlarmThresholds {
  /**
   * Maximum percent of the records that go back to SQS, 0 to 99, in two of three periods of five minutes. Deployments
   * and throttles of a store cause a few retries.
   * @default 5, or half of the share that a new version gets first if that is lower
   */
  readonly retriedPercent: number;
  /**
   * Maximum percent of the requests that are answered with an error, 0 to 99, in two of three periods. Producers cause
   * single errors.
   * @default 50, or half of the share that a new version gets first if that is lower
   */
  readonly errorPercent: number;
  /**
   * Maximum percent of the quota of messages in flight, 1 to 99. Above the quota, receives return no messages and no
   * error, so the threshold must leave time to react.
   * @default 80
   */
  readonly inFlightPercent: number;
}

export interface Subject {
  readonly serviceName: string;
  readonly batching: Batching;
  readonly latencyTargetSeconds: number;
  readonly alarmThresholds: AlarmThresholds;
  readonly requestQueues: Queues;
  readonly deadLetterQueue: IQueue | undefined;
  readonly stores: readonly CreatedStore[];
  readonly compute: Compute;
  /** Alarms and graphs of jobs. Undefined if there are none. */
  readonly jobs: { readonly alarms: readonly AlarmCondition[]; readonly graphs: readonly Graph[] } | undefined;
}

interface AlarmActions {
  readonly onAlarm: readonly IAlarmAction[];
  readonly onOk: readonly IAlarmAction[];
}

interface Alarms {
  /** Alarms by the IDs of their conditions. */
  readonly byName: Readonly<Record<string, Alarm>>;
  /** Alarms that roll a new version back. */
  readonly ofVersions: readonly Alarm[];
}

/** Creates an alarm for each condition that a person has to look at. */
export function createAlarms(scope: Construct, subject: Subject, actions: AlarmActions): Alarms {
  if (actions.onAlarm.length === 0) {
    Annotations.of(scope).addInfoV2(
      'batchscore:noAlarmActions',
      'alarmActions: expected somebody to be told when an alarm goes off, got nobody; give actions such as an SnsAction',
    );
  }
  const alarms = conditionsOf(subject).map((condition) => ({ condition, alarm: create(scope, condition, actions) }));
  const ofVersions = alarms.filter(({ condition }) => condition.blamesVersion);
  const byName = Object.fromEntries(alarms.map(({ condition, alarm }) => [condition.id, alarm]));
  return { byName, ofVersions: ofVersions.map(({ alarm }) => alarm) };
}

function create(scope: Construct, condition: AlarmCondition, { onAlarm, onOk }: AlarmActions): Alarm {
  const { id, description, metric, threshold, periods, periodsAbove = periods } = condition;
  const alarm = new Alarm(scope, id, {
    alarmDescription: description,
    metric,
    threshold,
    evaluationPeriods: periods,
    datapointsToAlarm: periodsAbove,
    comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
    // A queue without traffic has no metrics.
    treatMissingData: TreatMissingData.NOT_BREACHING,
  });
  alarm.addAlarmAction(...onAlarm);
  alarm.addOkAction(...onOk);
  return alarm;
}

/** Number of periods for alarms on shares. One record of ten in a single period is no trend. */
const LASTING = { periods: 3, periodsAbove: 2 };

function conditionsOf(subject: Subject): AlarmCondition[] {
  const { requestQueues, deadLetterQueue, stores, batching, latencyTargetSeconds, alarmThresholds, compute, jobs } =
    subject;
  const { retriedPercent, errorPercent, inFlightPercent } = alarmThresholds;
  const metric = (name: MetricName) => scoringMetric(subject.serviceName, name);
  const once = { threshold: 0, periods: 1 };
  const deadLetters: AlarmCondition[] =
    deadLetterQueue === undefined
      ? []
      : [
          {
            id: 'DeadLetters',
            description:
              'Messages were given up on and have no answer. Find the cause in the log, then redrive them; ' +
              'docs/operations.md says how.',
            metric: deadLetterQueue.metricApproximateNumberOfMessagesVisible(AT_MOST),
            ...once,
          },
        ];
  return [
    ...deadLetters,
    ...stores.flatMap(({ alarms }) => alarms),
    {
      id: 'OldestMessage',
      description:
        `The oldest request has waited for longer than the latency target of ${latencyTargetSeconds} s, of which the ` +
        `window takes ${batching.windowSeconds} s. Look for throttles and errors; without any, allow more invocations or tasks at a time.`,
      metric: oldestMessageAge(requestQueues),
      threshold: latencyTargetSeconds,
      periods: 1,
    },
    {
      id: 'MessagesInFlight',
      description:
        `A request queue has handed out more than ${inFlightPercent} % of the ${MESSAGES_IN_FLIGHT} messages that it ` +
        'may; at all of them, receives get nothing, without an error. Look for batches that take long or fail; ' +
        'without any, lower the batch size or raise the number of shards.',
      // Each queue has its own quota.
      metric: together('MAX', requestQueues, (queue) => queue.metricApproximateNumberOfMessagesNotVisible(AT_MOST)),
      threshold: Math.floor((MESSAGES_IN_FLIGHT * inFlightPercent) / 100),
      periods: 1,
    },
    {
      id: 'Retries',
      description:
        `More than ${retriedPercent} % of the records could not be scored or written and went back to SQS. The ` +
        'log has their codes: WRITE_FAILED points to a result store, DEADLINE to a batch too large for the timeout.',
      metric: new MathExpression({
        label: 'retried, % of records',
        period: PERIOD,
        expression: '100 * retries / (answered + retries)',
        usingMetrics: { retries: metric('Retries'), answered: metric('Answered') },
      }),
      threshold: retriedPercent,
      ...LASTING,
      blamesVersion: true,
    },
    {
      id: 'MissingOrDenied',
      description:
        'A result store, the payload bucket or a model is missing, denied or cannot be opened, and records went back to ' +
        'SQS for it. The log names it, and the reason. No message is given up for an hour; docs/operations.md has the arithmetic.',
      metric: metric('MissingOrDenied'),
      ...once,
    },
    {
      id: 'Errors',
      description:
        `More than ${errorPercent} % of the requests were answered with an error. The log has the codes; ` +
        'docs/message-format.md says what each means. Look at what the producers send, and at the last deployment.',
      metric: new MathExpression({
        label: 'answered with an error, % of requests',
        period: PERIOD,
        expression: '100 * errors / requests',
        usingMetrics: { errors: metric('Errors'), requests: metric('Requests') },
      }),
      threshold: errorPercent,
      ...LASTING,
      blamesVersion: true,
    },
    {
      id: 'ScorersLost',
      description:
        'A request crashed or hung the process that holds the models. Another process goes on, and the request is ' +
        'answered with an error that says how. docs/operations.md says what to do.',
      metric: metric('ScorersLost'),
      ...once,
      blamesVersion: true,
    },
    {
      id: 'BatchMismatch',
      description:
        'A row of a model got another answer in a micro-batch than alone: results written before may be wrong. The log ' +
        'names model, output and message ID. docs/operations.md says what to do.',
      metric: metric('BatchMismatch'),
      ...once,
      blamesVersion: true,
    },
    ...compute.alarms,
    ...(jobs?.alarms ?? []),
  ];
}
