import {
  Alarm,
  ComparisonOperator,
  type IAlarmAction,
  MathExpression,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { TopicBase } from 'aws-cdk-lib/aws-sns';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Annotations } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { MESSAGES_IN_FLIGHT } from '../../lambda/core/limits.ts';
import type { MetricName } from '../../lambda/core/observer.ts';
import type { AlarmCondition } from '../compute/compute.ts';
import { statementText, warn } from '../constructs/problems.ts';
import {
  AT_MOST,
  oldestMessageAge,
  PERIOD,
  type Subject,
  scoringMetric,
  together,
  uncollectedAfterSeconds,
} from './scoringMetrics.ts';

/** What happens when an alarm goes off, and when it is over. */
interface AlarmActions {
  readonly onAlarm: readonly IAlarmAction[];
  readonly onOk: readonly IAlarmAction[];
}

interface Alarms {
  /** By the IDs of their conditions. */
  readonly byName: Readonly<Record<string, Alarm>>;
  /** Those that tell of what runs: a new version that sets one off is undone. */
  readonly ofVersions: readonly Alarm[];
}

/** One alarm for each condition that a person has to look at. */
export function createAlarms(scope: Construct, subject: Subject, actions: AlarmActions): Alarms {
  if (actions.onAlarm.length === 0) {
    Annotations.of(scope).addInfoV2(
      'batchscore:noAlarmActions',
      'alarmActions: expected somebody to be told when an alarm goes off, got nobody; give actions such as an SnsAction',
    );
  }
  const told = new Set<string>();
  const noting = (action: IAlarmAction): IAlarmAction => ({
    bind(...args) {
      const config = action.bind(...args);
      told.add(config.alarmActionArn);
      return config;
    },
  });
  const noted = { onAlarm: actions.onAlarm.map(noting), onOk: actions.onOk.map(noting) };
  const alarms = conditionsOf(subject).map((condition) => ({ condition, alarm: create(scope, condition, noted) }));
  letCloudWatchTell(scope, told);
  const ofVersions = alarms.filter(({ condition }) => condition.blamesVersion);
  const byName = Object.fromEntries(alarms.map(({ condition, alarm }) => [condition.id, alarm]));
  return { byName, ofVersions: ofVersions.map(({ alarm }) => alarm) };
}

/**
 * CloudWatch tells an encrypted topic with the topic's key, whose policy must allow it to. Of a topic that was imported
 * without its key nothing is known.
 *
 * @param told the ARNs of what alarms tell
 * @see https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html#compatibility-with-aws-services
 */
function letCloudWatchTell(scope: Construct, told: ReadonlySet<string>): void {
  for (const topic of scope.node.root.node.findAll()) {
    if (!(topic instanceof TopicBase) || topic.masterKey === undefined || !told.has(topic.topicArn)) continue;
    const statement = new PolicyStatement({
      sid: 'Alarms',
      principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
      actions: ['kms:Decrypt', 'kms:GenerateDataKey*'],
      resources: ['*'],
    });
    if (topic.masterKey.addToResourcePolicy(statement).statementAdded) continue;
    warn(
      scope,
      'topicKeyPolicy',
      `alarmActions: expected ${topic.node.path} to have a key that CloudWatch may use, got an imported one, whose policy ` +
        `the CDK neither knows nor changes; add this to its policy: ${statementText(scope, statement)}`,
      { resource: topic.node.path },
    );
  }
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
  const {
    requestQueues,
    deadLetterQueue,
    stores,
    clientQueues,
    batching,
    latencyTargetSeconds,
    alarmThresholds,
    compute,
    jobs,
  } = subject;
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
    ...(stores.resultQueue === undefined ? [] : [uncollectedResults(stores.resultQueue, Object.values(clientQueues))]),
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
      // The quota is that of a queue.
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

function uncollectedResults(resultQueue: IQueue, clientQueues: readonly IQueue[]): AlarmCondition {
  const threshold = uncollectedAfterSeconds(resultQueue);
  return {
    id: 'UncollectedResults',
    description:
      `A result has lain on a result queue for more than ${threshold / 3600} hours. Nobody collects it, and SQS deletes it when the ` +
      'retention period of the queue ends. Look for the consumer that has stopped; docs/operations.md says what to do.',
    metric: oldestMessageAge([resultQueue, ...clientQueues]),
    threshold,
    periods: 1,
  };
}
