import {
  Alarm,
  ComparisonOperator,
  type IAlarmAction,
  MathExpression,
  Stats,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';
import { PERIOD } from '../base/period.ts';
import type { AlarmCondition } from '../compute/compute.ts';
import { scoringMetric } from './metrics.ts';
import { oldestMessageAge } from './requestMetrics.ts';
import type { Subject } from './subject.ts';

const MAX_RETRIED_PERCENT = 5;

/** One alarm for each condition that a person has to look at. */
export function createAlarms(scope: Construct, subject: Subject, actions: readonly IAlarmAction[]): Alarm[] {
  const conditions = [
    deadLetters(subject),
    oldestMessage(subject),
    retries(subject),
    abandonedRuns(subject),
    batchMismatch(subject),
    ...subject.compute.alarms,
  ];
  return conditions
    .filter((condition) => condition !== undefined)
    .map((condition) => create(scope, condition, actions));
}

function create(scope: Construct, condition: AlarmCondition, actions: readonly IAlarmAction[]): Alarm {
  const alarm = new Alarm(scope, condition.id, {
    alarmDescription: condition.description,
    metric: condition.metric,
    threshold: condition.threshold,
    evaluationPeriods: condition.periods,
    comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
    // A queue that nobody uses has no metrics, which is no reason for an alarm.
    treatMissingData: TreatMissingData.NOT_BREACHING,
  });
  alarm.addAlarmAction(...actions);
  return alarm;
}

function deadLetters({ requests }: Subject): AlarmCondition | undefined {
  const metric = requests.deadLetterQueue?.metricApproximateNumberOfMessagesVisible({
    statistic: Stats.MAXIMUM,
    period: PERIOD,
  });
  if (metric === undefined) return undefined;
  return {
    id: 'DeadLetters',
    description:
      'Messages were given up on and have no answer. Find the cause in the log, then redrive them; ' +
      'docs/operations.md says how.',
    metric,
    threshold: 0,
    periods: 1,
  };
}

function oldestMessage({ requests, latencyTargetSeconds, batching }: Subject): AlarmCondition {
  return {
    id: 'OldestMessage',
    description:
      `The oldest request has waited for longer than the latency target of ${latencyTargetSeconds} s, of which the ` +
      `window takes ${batching.windowSeconds} s. Look for throttles and errors; without any, raise the concurrency.`,
    metric: oldestMessageAge(requests),
    threshold: latencyTargetSeconds,
    periods: 1,
  };
}

function retries({ serviceName }: Subject): AlarmCondition {
  return {
    id: 'Retries',
    description:
      `More than ${MAX_RETRIED_PERCENT} % of the records could not be scored or written and went back to SQS. The ` +
      'log has their codes: WRITE_FAILED points to a result store, DEADLINE to a batch too large for the timeout.',
    metric: new MathExpression({
      label: 'retried, % of records',
      period: PERIOD,
      expression: '100 * retries / (answered + retries)',
      usingMetrics: {
        retries: scoringMetric(serviceName, 'Retries'),
        answered: scoringMetric(serviceName, 'Answered'),
      },
    }),
    threshold: MAX_RETRIED_PERCENT,
    periods: 1,
  };
}

function abandonedRuns({ serviceName }: Subject): AlarmCondition {
  return {
    id: 'AbandonedRuns',
    description:
      'A run of a model did not end in its time and was left behind. The log names the model; the message that makes ' +
      'it hang ends among the dead letters. docs/operations.md says what to do.',
    metric: scoringMetric(serviceName, 'AbandonedRuns'),
    threshold: 0,
    periods: 1,
  };
}

function batchMismatch({ serviceName }: Subject): AlarmCondition {
  return {
    id: 'BatchMismatch',
    description:
      'A row of a model got another answer in a micro-batch than alone: results written before may be wrong. The log ' +
      'names model, output and message ID. docs/operations.md says what to do.',
    metric: scoringMetric(serviceName, 'BatchMismatch'),
    threshold: 0,
    periods: 1,
  };
}
