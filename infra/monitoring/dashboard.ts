import { Stack } from 'aws-cdk-lib';
import {
  type Alarm,
  AlarmStatusWidget,
  Dashboard,
  GraphWidget,
  type GraphWidgetProps,
  type IMetric,
  type IWidget,
  MathExpression,
  Stats,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { ALL_METRIC_UNITS, METRIC_UNITS } from '../../lambda/core/observer.ts';
import type { Graph } from '../compute/compute.ts';
import {
  beingScored,
  oldestMessageAge,
  PERIOD,
  queuesOf,
  type Subject,
  scoringMetric,
  waiting,
} from './scoringMetrics.ts';

/** Answers an operator's questions, from top to bottom: is it late, does it batch, where do time and money go. */
export function createDashboard(scope: Construct, subject: Subject, alarms: Alarm[]): Dashboard {
  return new Dashboard(scope, 'Dashboard', {
    // Dashboards are shared by all regions of an account.
    dashboardName: `${subject.serviceName}-${Stack.of(scope).region}`,
    widgets: [
      [new AlarmStatusWidget({ title: 'Alarms', alarms, width: FULL_WIDTH, height: 3 })],
      [backlog(subject), age(subject)],
      [batchSize(subject), fill(subject)],
      [closedWhy(subject), padding(subject)],
      [stages(subject), slowStages(subject)],
      [outcomes(subject), cost(subject)],
      [abandonedRuns(subject), batchMismatch(subject)],
      [...subject.compute.graphs.map(toWidget), ...(subject.compute.measuresGpus ? [gpus(subject)] : [])],
      ...(subject.jobs === undefined ? [] : [subject.jobs.graphs.map(toWidget)]),
    ],
  });
}

function backlog({ requests }: Subject): IWidget {
  const options = { statistic: Stats.MAXIMUM, period: PERIOD };
  const deadLetters = requests.deadLetterQueue?.metricApproximateNumberOfMessagesVisible(options);
  return graph({
    title: 'Backlog: messages',
    leftYAxis: FROM_ZERO,
    left: [
      waiting(requests),
      beingScored(requests),
      ...(deadLetters === undefined ? [] : [deadLetters.with({ label: 'dead letters' })]),
    ],
  });
}

function age({ requests, batching, latencyTargetSeconds }: Subject): IWidget {
  return graph({
    title: 'Age of the oldest message: seconds',
    leftYAxis: FROM_ZERO,
    left: [oldestMessageAge(requests, { label: 'oldest' })],
    leftAnnotations: [
      { value: latencyTargetSeconds, label: 'latency target' },
      { value: batching.windowSeconds, label: 'window' },
    ],
  });
}

function cost(subject: Subject): IWidget {
  const { date, region } = subject.prices;
  return graph({
    title: `US dollars per thousand rows, at the prices of ${region}, ${date}`,
    leftYAxis: FROM_ZERO,
    left: [costPerThousandRows(subject)],
  });
}

function toWidget({ title, left, right }: Graph): IWidget {
  return graph({
    title,
    leftYAxis: FROM_ZERO,
    left: [...left],
    ...(right !== undefined && { right: [...right], rightYAxis: FROM_ZERO }),
  });
}

// What the host counts and measures itself.

function batchSize({ serviceName, batching }: Subject): IWidget {
  return graph({
    title: `Records per batch, of at most ${batching.batchSize}`,
    leftYAxis: FROM_ZERO,
    left: [
      scoringMetric(serviceName, 'BatchSize', { statistic: Stats.AVERAGE, label: 'mean' }),
      scoringMetric(serviceName, 'BatchSize', { statistic: Stats.MAXIMUM, label: 'largest' }),
    ],
    leftAnnotations: [{ value: batching.batchSize, label: 'batch size' }],
  });
}

function fill({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Fill: %',
    leftYAxis: SHARE,
    left: [
      scoringMetric(serviceName, 'BatchFill', { label: 'batches, of the batch size' }),
      scoringMetric(serviceName, 'Fill', { label: 'micro-batches, of the most rows in one run' }),
    ],
  });
}

const CLOSED_WHY = [
  ['ClosedFull', 'full'],
  ['ClosedBudget', 'element budget'],
  ['ClosedPadding', 'too much padding'],
  ['ClosedDearer', 'dearer together'],
  ['ClosedEnd', 'end of the batch'],
] as const;

function closedWhy({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Micro-batches, by why they were closed',
    stacked: true,
    left: CLOSED_WHY.map(([name, label]) => scoringMetric(serviceName, name, { label })),
  });
}

function padding({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Padding: % of the elements run',
    leftYAxis: SHARE,
    left: [scoringMetric(serviceName, 'PaddingShare', { label: 'padding' })],
    right: [
      scoringMetric(serviceName, 'Rows', { label: 'rows' }),
      scoringMetric(serviceName, 'PaddingRows', { label: 'rows of padding' }),
    ],
  });
}

const STAGES = [
  ['DecodeTime', 'decode (per batch)'],
  ['StackTime', 'stack'],
  ['RunTime', 'run'],
  ['EncodeTime', 'encode'],
  ['WriteTime', 'write'],
] as const;

function stages({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Stages of a micro-batch: ms, p50',
    stacked: true,
    left: STAGES.map(([name, label]) => scoringMetric(serviceName, name, { label })),
  });
}

function slowStages({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Stages of a micro-batch: ms, p99',
    leftYAxis: FROM_ZERO,
    left: STAGES.map(([name, label]) => scoringMetric(serviceName, name, { label, statistic: Stats.p(99) })),
  });
}

function outcomes({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Records',
    leftYAxis: FROM_ZERO,
    left: [
      scoringMetric(serviceName, 'Answered', { label: 'answered' }),
      scoringMetric(serviceName, 'Requests', { label: 'requests in them' }),
      scoringMetric(serviceName, 'Errors', { label: 'requests answered with an error' }),
      scoringMetric(serviceName, 'Retries', { label: 'to be retried' }),
      scoringMetric(serviceName, 'MissingOrDenied', { label: 'of these, for a store that is missing or denied' }),
    ],
  });
}

function abandonedRuns({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Runs left behind, and hosts that ended themselves',
    leftYAxis: FROM_ZERO,
    left: [
      scoringMetric(serviceName, 'AbandonedRuns', { label: 'runs left behind' }),
      scoringMetric(serviceName, 'HostsEnded', { label: 'hosts ended' }),
      scoringMetric(serviceName, 'QuarantineLosses', { label: 'processes of the quarantine lost' }),
    ],
  });
}

function batchMismatch({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Models whose rows depend on each other, and time of checks: ms',
    leftYAxis: FROM_ZERO,
    rightYAxis: FROM_ZERO,
    left: [scoringMetric(serviceName, 'BatchMismatch', { label: 'models found out' })],
    right: [scoringMetric(serviceName, 'CheckTime', { statistic: Stats.SUM, label: 'checks' })],
  });
}

function gpus({ serviceName }: Subject): IWidget {
  return graph({
    title: 'GPUs: %',
    leftYAxis: SHARE,
    left: [
      scoringMetric(serviceName, 'GpuUtilization', { label: 'time in use' }),
      scoringMetric(serviceName, 'GpuMemoryUtilization', { label: 'memory' }),
      scoringMetric(serviceName, 'GpuMemoryUtilization', { label: 'memory, at most', statistic: Stats.MAXIMUM }),
    ],
  });
}

/** Columns of a dashboard. */
const FULL_WIDTH = 24;
const WIDTH = FULL_WIDTH / 2;
const HEIGHT = 6;

const FROM_ZERO = { min: 0 };
/** The axis of percentages. */
const SHARE = { min: 0, max: 100 };

/** A graph of the size that all have. */
function graph(props: GraphWidgetProps): GraphWidget {
  return new GraphWidget({ width: WIDTH, height: HEIGHT, ...props });
}

/** Messages in one SQS request: all here use batch requests, which are full when there is much to move. */
const MESSAGES_PER_SQS_REQUEST = 10;
/** SQS bills each of them as one request. */
const BILLED_BYTES = 65_536;

/** US dollars per thousand rows: compute, SQS requests, result writes and CloudWatch in a period, divided by its rows. */
function costPerThousandRows(subject: Subject): MathExpression {
  const terms: Record<string, IMetric> = {
    computeUsd: subject.compute.cost,
    ...Object.fromEntries(
      queuesOf(subject).map((queue, index) => [`queueUsd${index}`, queueCost(queue, index, subject)]),
    ),
    ...storeCosts(subject),
    cloudWatchUsd: cloudWatchCost(subject),
  };
  return new MathExpression({
    label: 'US dollars per thousand rows',
    period: PERIOD,
    expression: `1000 * (${Object.keys(terms).join(' + ')}) / rows`,
    usingMetrics: { ...terms, rows: scoringMetric(subject.serviceName, 'Rows') },
  });
}

/** Messages that are full of results count by their bytes, as if each were as large as it may be. */
function queueCost(queue: IQueue, index: number, subject: Subject): MathExpression {
  const { prices, stores, resultsPerMessage, resultMessageBytes } = subject;
  const packed = queue === stores.resultQueue && resultsPerMessage !== 1;
  const perRequest = packed ? BILLED_BYTES / resultMessageBytes : MESSAGES_PER_SQS_REQUEST;
  const options = { statistic: Stats.SUM, period: PERIOD };
  const perMillion = queue.fifo ? prices.sqsFifoMillionRequests : prices.sqsStandardMillionRequests;
  const id = (name: string): string => `${name}${index}`;
  const moved = `FILL(${id('sent')}, 0) + FILL(${id('received')}, 0) + FILL(${id('deleted')}, 0)`;
  return new MathExpression({
    label: `queue ${index}`,
    period: PERIOD,
    expression: `((${moved}) / ${perRequest} + FILL(${id('empty')}, 0)) * ${perMillion} / 1000000`,
    usingMetrics: {
      [id('sent')]: queue.metricNumberOfMessagesSent(options),
      [id('received')]: queue.metricNumberOfMessagesReceived(options),
      [id('deleted')]: queue.metricNumberOfMessagesDeleted(options),
      [id('empty')]: queue.metricNumberOfEmptyReceives(options),
    },
  });
}

/** One write unit for each result in the table, and one object for each write to the bucket, of scores or of errors. */
function storeCosts({ serviceName, stores, prices }: Subject): Record<string, IMetric> {
  const costs: Record<string, IMetric> = {};
  if (stores.resultTable !== undefined) {
    costs.tableUsd = new MathExpression({
      label: 'table',
      period: PERIOD,
      expression: `answeredRecords * ${prices.dynamodbMillionWrites} / 1000000`,
      usingMetrics: { answeredRecords: scoringMetric(serviceName, 'Answered') },
    });
  }
  if (stores.resultBucket !== undefined) {
    costs.bucketUsd = new MathExpression({
      label: 'bucket',
      period: PERIOD,
      expression: `writes * ${prices.s3ThousandPuts} / 1000`,
      usingMetrics: { writes: scoringMetric(serviceName, 'WriteTime', { statistic: Stats.SAMPLE_COUNT }) },
    });
  }
  return costs;
}

const HOURS_A_MONTH = 730;
const BYTES_A_GIB = 1024 ** 3;

/** What the host logs, and its metrics, which are paid for in the hours in which it emits them. */
function cloudWatchCost({ serviceName, prices, compute }: Subject): MathExpression {
  const metrics = Object.keys(compute.measuresGpus ? ALL_METRIC_UNITS : METRIC_UNITS).length;
  const metricsHour = (metrics * prices.metricMonth) / HOURS_A_MONTH;
  const logs = compute.logGroup?.metricIncomingBytes({ statistic: Stats.SUM, period: PERIOD });
  const logged = logs === undefined ? '' : ` + FILL(logBytes, 0) / ${BYTES_A_GIB} * ${prices.logGb}`;
  return new MathExpression({
    label: 'CloudWatch',
    period: PERIOD,
    expression: `IF(FILL(invoked, 0) > 0, ${metricsHour}, 0) * PERIOD(invoked) / 3600${logged}`,
    usingMetrics: {
      invoked: scoringMetric(serviceName, 'BatchSize', { statistic: Stats.SAMPLE_COUNT }),
      ...(logs !== undefined && { logBytes: logs }),
    },
  });
}
