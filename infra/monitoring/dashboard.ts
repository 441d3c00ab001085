import {
  type Alarm,
  AlarmStatusWidget,
  Dashboard,
  GraphWidget,
  type GraphWidgetProps,
  type IMetric,
  MathExpression,
  type Metric,
  Stats,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { ALL_METRIC_UNITS, METRIC_UNITS, type MetricName } from '../../lambda/core/observer.ts';
import type { Graph } from '../compute/compute.ts';
import {
  AT_MOST,
  oldestMessageAge,
  PERIOD,
  type Subject,
  scoringMetric,
  together,
  uncollectedAfterSeconds,
} from './scoringMetrics.ts';

/** Answers an operator's questions, from top to bottom: is it late, does it batch, where do time and money go. */
export function createDashboard(scope: Construct, subject: Subject, alarms: Alarm[]): Dashboard {
  const { serviceName, compute, jobs } = subject;
  return new Dashboard(scope, 'Dashboard', {
    // Dashboards are shared by all regions of an account.
    dashboardName: `${serviceName}-${Stack.of(scope).region}`,
    widgets: [
      [new AlarmStatusWidget({ title: 'Alarms', alarms, width: FULL_WIDTH, height: 3 })],
      ...[...queueGraphs(subject), ...hostGraphs(subject)].map((pair) => pair.map(graph)),
      [...compute.graphs, ...(compute.measuresGpus ? [gpus(serviceName)] : [])].map(graph),
      ...(jobs === undefined ? [] : [jobs.graphs.map(graph)]),
    ],
  });
}

/** Columns of a dashboard. */
const FULL_WIDTH = 24;
const FROM_ZERO = { min: 0 };
/** The axis of percentages. */
const SHARE = { min: 0, max: 100 };

/** A graph of the size that all have. */
function graph({ left, right, ...props }: OwnGraph): GraphWidget {
  return new GraphWidget({
    width: FULL_WIDTH / 2,
    height: 6,
    leftYAxis: FROM_ZERO,
    left: [...left],
    ...(right !== undefined && { right: [...right], rightYAxis: FROM_ZERO }),
    ...props,
  });
}

type OwnGraph = Graph & Pick<GraphWidgetProps, 'leftYAxis' | 'leftAnnotations' | 'stacked'>;

function queueGraphs({
  requestQueues,
  deadLetterQueue,
  stores,
  batching,
  latencyTargetSeconds,
}: Subject): OwnGraph[][] {
  const waiting = (queue: IQueue) => queue.metricApproximateNumberOfMessagesVisible(AT_MOST);
  const beingScored = (queue: IQueue) => queue.metricApproximateNumberOfMessagesNotVisible(AT_MOST);
  const dead = deadLetterQueue?.metricApproximateNumberOfMessagesVisible({ ...AT_MOST, label: 'dead letters' });
  return [
    [
      {
        title: 'Backlog: messages',
        left: [
          together('SUM', requestQueues, waiting, 'waiting'),
          together('SUM', requestQueues, beingScored, 'being scored'),
          ...(dead === undefined ? [] : [dead]),
        ],
      },
      {
        title: 'Age of the oldest message: seconds',
        left: [oldestMessageAge(requestQueues, { label: 'oldest' })],
        leftAnnotations: [
          { value: latencyTargetSeconds, label: 'latency target' },
          { value: batching.windowSeconds, label: 'window' },
        ],
      },
    ],
    ...(stores.resultQueue === undefined ? [] : [resultGraphs(stores.resultQueue)]),
  ];
}

/** Returns true if somebody takes the results. */
function resultGraphs(queue: IQueue): OwnGraph[] {
  return [
    {
      title: 'Results on the queue: messages',
      left: [
        queue.metricApproximateNumberOfMessagesVisible({ ...AT_MOST, label: 'not collected' }),
        queue.metricApproximateNumberOfMessagesNotVisible({ ...AT_MOST, label: 'being collected' }),
      ],
    },
    {
      title: 'Age of the oldest result: seconds',
      left: [oldestMessageAge([queue], { label: 'oldest' })],
      leftAnnotations: [{ value: uncollectedAfterSeconds(queue), label: 'alarm' }],
    },
  ];
}

/** What the host counts and measures itself, and what that costs. */
function hostGraphs(subject: Subject): OwnGraph[][] {
  const { serviceName, batching, prices } = subject;
  const emitted = (name: MetricName, label: string, statistic?: string): Metric =>
    scoringMetric(serviceName, name, { label, ...(statistic !== undefined && { statistic }) });
  const { batchSize } = batching;
  const withoutCompute = subject.compute.cost === undefined ? ' without compute, whose price is not in the list' : '';
  return [
    [
      {
        title: `Records per batch, of at most ${batchSize}`,
        left: [emitted('BatchSize', 'mean', Stats.AVERAGE), emitted('BatchSize', 'largest', Stats.MAXIMUM)],
        leftAnnotations: [{ value: batchSize, label: 'batch size' }],
      },
      {
        title: 'Fill: %',
        leftYAxis: SHARE,
        left: [
          emitted('BatchFill', 'batches, of the batch size'),
          emitted('Fill', 'micro-batches, of the most rows in one run'),
        ],
      },
    ],
    [
      {
        title: 'Micro-batches, by why they were closed',
        stacked: true,
        left: [
          emitted('ClosedFull', 'full'),
          emitted('ClosedBudget', 'element budget'),
          emitted('ClosedPadding', 'too much padding'),
          emitted('ClosedDearer', 'dearer together'),
          emitted('ClosedEnd', 'end of the batch'),
        ],
      },
      {
        title: 'Padding: % of the elements run',
        leftYAxis: SHARE,
        left: [emitted('PaddingShare', 'padding')],
        right: [emitted('Rows', 'rows'), emitted('PaddingRows', 'rows of padding')],
      },
    ],
    [
      {
        title: 'Stages of a micro-batch: ms, p50',
        stacked: true,
        left: STAGES.map(([name, label]) => emitted(name, label)),
      },
      {
        title: 'Stages of a micro-batch: ms, p99',
        left: STAGES.map(([name, label]) => emitted(name, label, Stats.p(99))),
      },
    ],
    [
      {
        title: 'Records',
        left: [
          emitted('Answered', 'answered'),
          emitted('Requests', 'requests in them'),
          emitted('Errors', 'requests answered with an error'),
          emitted('Retries', 'to be retried'),
          emitted('MissingOrDenied', 'of these, for a store that is missing or denied'),
          emitted('Captured', 'requests kept as samples'),
          emitted('CaptureLost', 'samples lost'),
        ],
      },
      {
        title: `US dollars per thousand rows${withoutCompute}, at the prices of ${prices.region}, ${prices.date}`,
        left: [costPerThousandRows(subject)],
      },
    ],
    [
      {
        title: 'Scorers lost: processes that a request crashed or hung',
        left: [emitted('ScorersLost', 'scorers lost')],
      },
      {
        title: 'Models whose rows depend on each other, and time of checks: ms',
        left: [emitted('BatchMismatch', 'models found out')],
        right: [emitted('CheckTime', 'checks', Stats.SUM)],
      },
    ],
  ];
}

const STAGES = [
  ['DecodeTime', 'decode (per batch)'],
  ['TransformTime', 'batch hooks of transforms (part of decode and encode)'],
  ['StackTime', 'stack'],
  ['RunTime', 'run'],
  ['EncodeTime', 'encode'],
  ['WriteTime', 'write'],
] as const;

function gpus(serviceName: string): OwnGraph {
  const memory = 'GpuMemoryUtilization';
  return {
    title: 'GPUs: %',
    leftYAxis: SHARE,
    left: [
      scoringMetric(serviceName, 'GpuUtilization', { label: 'time in use' }),
      scoringMetric(serviceName, memory, { label: 'memory' }),
      scoringMetric(serviceName, memory, { label: 'memory, at most', statistic: Stats.MAXIMUM }),
    ],
  };
}

/** Messages in one SQS request: all here use batch requests, which are full when there is much to move. */
const MESSAGES_PER_SQS_REQUEST = 10;
/** SQS bills each of them as one request. */
const BILLED_BYTES = 65_536;

/** US dollars per thousand rows: compute, SQS requests, result writes and CloudWatch in a period, divided by its rows. */
function costPerThousandRows(subject: Subject): MathExpression {
  const { requestQueues, stores, compute } = subject;
  const { cost } = compute;
  const queues = [...requestQueues, stores.resultQueue].filter((queue) => queue !== undefined);
  const terms: Record<string, IMetric> = {
    ...(cost !== undefined && { computeUsd: cost }),
    ...Object.fromEntries(queues.map((queue, index) => [`queueUsd${index}`, queueCost(queue, index, subject)])),
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

/** The write units of the table, one for each KB of a result, and one object for each write to the bucket. */
function storeCosts({ serviceName, stores, prices }: Subject): Record<string, IMetric> {
  const costs: Record<string, IMetric> = {};
  if (stores.resultTable !== undefined) {
    costs.tableUsd = new MathExpression({
      label: 'table',
      period: PERIOD,
      expression: `FILL(writeUnits, 0) * ${prices.dynamodbMillionWrites} / 1000000`,
      usingMetrics: {
        writeUnits: stores.resultTable.metricConsumedWriteCapacityUnits({ statistic: Stats.SUM, period: PERIOD }),
      },
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
  const logs = compute.logGroup?.metricIncomingBytes({
    // Without it the library means all log groups of the account.
    dimensionsMap: { LogGroupName: compute.logGroup.logGroupName },
    statistic: Stats.SUM,
    period: PERIOD,
  });
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
