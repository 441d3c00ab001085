import {
  Alarm,
  ComparisonOperator,
  type IAlarmAction,
  MathExpression,
  Stats,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';
import { MESSAGES_IN_FLIGHT } from '../../lambda/core/limits.ts';
import type { AlarmCondition } from '../compute/compute.ts';
import { maxInFlight, oldestMessageAge, PERIOD, type Subject, scoringMetric } from './scoringMetrics.ts';

/** What happens when an alarm goes off, and when it is over. */
interface AlarmActions {
  readonly onAlarm: readonly IAlarmAction[];
  readonly onOk: readonly IAlarmAction[];
}

interface Alarms {
  readonly all: Alarm[];
  /** Those that tell of what runs: a new version that sets one off is undone. */
  readonly ofVersions: readonly Alarm[];
}

/** One alarm for each condition that a person has to look at. */
export function createAlarms(scope: Construct, subject: Subject, actions: AlarmActions): Alarms {
  const alarms = conditionsOf(subject).map((condition) => ({ condition, alarm: create(scope, condition, actions) }));
  const ofVersions = alarms.filter(({ condition }) => condition.blamesVersion);
  return { all: alarms.map(({ alarm }) => alarm), ofVersions: ofVersions.map(({ alarm }) => alarm) };
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
    // A queue that nobody uses has no metrics, which is no reason for an alarm.
    treatMissingData: TreatMissingData.NOT_BREACHING,
  });
  alarm.addAlarmAction(...onAlarm);
  alarm.addOkAction(...onOk);
  return alarm;
}

/** Shares go off in two of three periods: one record of ten in one of them is no trend. */
const LASTING = { periods: 3, periodsAbove: 2 };

/** Every condition that a person has to look at. */
function conditionsOf(subject: Subject): AlarmCondition[] {
  const conditions = [
    deadLetters(subject),
    oldestMessage(subject),
    inFlight(subject),
    retries(subject),
    missingOrDenied(subject),
    errors(subject),
    abandonedRuns(subject),
    quarantineLosses(subject),
    batchMismatch(subject),
    ...subject.compute.alarms,
    ...(subject.jobs?.alarms ?? []),
  ];
  return conditions.filter((condition) => condition !== undefined);
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
      `window takes ${batching.windowSeconds} s. Look for throttles and errors; without any, allow more invocations or tasks at a time.`,
    metric: oldestMessageAge(requests),
    threshold: latencyTargetSeconds,
    periods: 1,
  };
}

function retries({ serviceName, alarmThresholds: { retriedPercent } }: Subject): AlarmCondition {
  return {
    id: 'Retries',
    description:
      `More than ${retriedPercent} % of the records could not be scored or written and went back to SQS. The ` +
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
    threshold: retriedPercent,
    ...LASTING,
    blamesVersion: true,
  };
}

function missingOrDenied({ serviceName }: Subject): AlarmCondition {
  return {
    id: 'MissingOrDenied',
    description:
      'A result store, the payload bucket or a model is missing, denied or cannot be opened, and records went back to ' +
      'SQS for it. The log names it, and the reason. No message is given up for an hour; docs/operations.md has the arithmetic.',
    metric: scoringMetric(serviceName, 'MissingOrDenied'),
    threshold: 0,
    periods: 1,
  };
}

function errors({ serviceName, alarmThresholds: { errorPercent } }: Subject): AlarmCondition {
  return {
    id: 'Errors',
    description:
      `More than ${errorPercent} % of the requests were answered with an error. The log has the codes; ` +
      'docs/message-format.md says what each means. Look at what the producers send, and at the last deployment.',
    metric: new MathExpression({
      label: 'answered with an error, % of requests',
      period: PERIOD,
      expression: '100 * errors / requests',
      usingMetrics: {
        errors: scoringMetric(serviceName, 'Errors'),
        requests: scoringMetric(serviceName, 'Requests'),
      },
    }),
    threshold: errorPercent,
    ...LASTING,
    blamesVersion: true,
  };
}

function inFlight({ requests, alarmThresholds: { inFlightPercent } }: Subject): AlarmCondition {
  return {
    id: 'MessagesInFlight',
    description:
      `A request queue has handed out more than ${inFlightPercent} % of the ${MESSAGES_IN_FLIGHT} messages that it ` +
      'may; at all of them, receives get nothing, without an error. Look for batches that take long or fail; ' +
      'without any, lower the batch size or raise the number of shards.',
    metric: maxInFlight(requests),
    threshold: Math.floor((MESSAGES_IN_FLIGHT * inFlightPercent) / 100),
    periods: 1,
  };
}

function abandonedRuns({ serviceName }: Subject): AlarmCondition {
  return {
    id: 'AbandonedRuns',
    description:
      'A run of a model did not end in its time and was left behind. The log names the model; the message that makes ' +
      'it hang is answered with RUN_TIMED_OUT when it comes again. docs/operations.md says what to do.',
    metric: scoringMetric(serviceName, 'AbandonedRuns'),
    threshold: 0,
    periods: 1,
    blamesVersion: true,
  };
}

function quarantineLosses({ serviceName }: Subject): AlarmCondition {
  return {
    id: 'QuarantineLosses',
    description:
      'A message that came again crashed or hung the process that it was scored in. The log names the model; the message ' +
      'is answered with an error that says how. docs/operations.md says what to do.',
    metric: scoringMetric(serviceName, 'QuarantineLosses'),
    threshold: 0,
    periods: 1,
    blamesVersion: true,
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
    blamesVersion: true,
  };
}
