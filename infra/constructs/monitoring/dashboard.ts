import { Stack } from 'aws-cdk-lib';
import { type Alarm, AlarmStatusWidget, Dashboard, GraphWidget, type IWidget, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';
import { PERIOD } from '../base/period.ts';
import type { Graph } from '../compute/compute.ts';
import { costPerThousandRows } from './cost.ts';
import { scoringMetric } from './metrics.ts';
import { beingScored, oldestMessageAge, waiting } from './requestMetrics.ts';
import type { Subject } from './subject.ts';

const HALF = 12;
const FULL = 24;
const HEIGHT = 6;
const FROM_ZERO = { min: 0 };
const SHARE = { min: 0, max: 100 };

/** Answers an operator's questions, from top to bottom: is it late, does it batch, where do time and money go. */
export function createDashboard(scope: Construct, subject: Subject, alarms: Alarm[]): Dashboard {
  return new Dashboard(scope, 'Dashboard', {
    // Dashboards are shared by all regions of an account.
    dashboardName: `${subject.serviceName}-${Stack.of(scope).region}`,
    widgets: [
      [new AlarmStatusWidget({ title: 'Alarms', alarms, width: FULL, height: 3 })],
      [backlog(subject), age(subject)],
      [batchSize(subject), fill(subject)],
      [closedWhy(subject), padding(subject)],
      [stages(subject), slowStages(subject)],
      [outcomes(subject), cost(subject)],
      [abandonedRuns(subject), batchMismatch(subject)],
      subject.compute.graphs.map(toWidget),
    ],
  });
}

function backlog({ requests }: Subject): IWidget {
  const options = { statistic: Stats.MAXIMUM, period: PERIOD };
  const deadLetters = requests.deadLetterQueue?.metricApproximateNumberOfMessagesVisible(options);
  return new GraphWidget({
    title: 'Backlog: messages',
    width: HALF,
    height: HEIGHT,
    leftYAxis: FROM_ZERO,
    left: [
      waiting(requests),
      beingScored(requests),
      ...(deadLetters === undefined ? [] : [deadLetters.with({ label: 'dead letters' })]),
    ],
  });
}

function age({ requests, batching, latencyTargetSeconds }: Subject): IWidget {
  return new GraphWidget({
    title: 'Age of the oldest message: seconds',
    width: HALF,
    height: HEIGHT,
    leftYAxis: FROM_ZERO,
    left: [oldestMessageAge(requests, { label: 'oldest' })],
    leftAnnotations: [
      { value: latencyTargetSeconds, label: 'latency target' },
      { value: batching.windowSeconds, label: 'window' },
    ],
  });
}

function batchSize({ serviceName, batching }: Subject): IWidget {
  return new GraphWidget({
    title: `Records per invocation, of at most ${batching.batchSize}`,
    width: HALF,
    height: HEIGHT,
    leftYAxis: FROM_ZERO,
    left: [
      scoringMetric(serviceName, 'BatchSize', { statistic: Stats.AVERAGE, label: 'mean' }),
      scoringMetric(serviceName, 'BatchSize', { statistic: Stats.MAXIMUM, label: 'largest' }),
    ],
    leftAnnotations: [{ value: batching.batchSize, label: 'batch size' }],
  });
}

function fill({ serviceName }: Subject): IWidget {
  return new GraphWidget({
    title: 'Fill: %',
    width: HALF,
    height: HEIGHT,
    leftYAxis: SHARE,
    left: [
      scoringMetric(serviceName, 'BatchFill', { label: 'invocations, of the batch size' }),
      scoringMetric(serviceName, 'Fill', { label: 'micro-batches, of the most rows in one run' }),
    ],
  });
}

const CLOSED_WHY = [
  ['ClosedFull', 'full'],
  ['ClosedBudget', 'element budget'],
  ['ClosedPadding', 'too much padding'],
  ['ClosedEnd', 'end of the batch'],
] as const;

function closedWhy({ serviceName }: Subject): IWidget {
  return new GraphWidget({
    title: 'Micro-batches, by why they were closed',
    width: HALF,
    height: HEIGHT,
    stacked: true,
    left: CLOSED_WHY.map(([name, label]) => scoringMetric(serviceName, name, { label })),
  });
}

function padding({ serviceName }: Subject): IWidget {
  return new GraphWidget({
    title: 'Padding: % of the elements run',
    width: HALF,
    height: HEIGHT,
    leftYAxis: SHARE,
    left: [scoringMetric(serviceName, 'PaddingShare', { label: 'padding' })],
    right: [
      scoringMetric(serviceName, 'Rows', { label: 'rows' }),
      scoringMetric(serviceName, 'PaddingRows', { label: 'rows of padding' }),
    ],
  });
}

const STAGES = [
  ['DecodeTime', 'decode (per invocation)'],
  ['StackTime', 'stack'],
  ['RunTime', 'run'],
  ['EncodeTime', 'encode'],
  ['WriteTime', 'write'],
] as const;

function stages({ serviceName }: Subject): IWidget {
  return new GraphWidget({
    title: 'Stages of a micro-batch: ms, p50',
    width: HALF,
    height: HEIGHT,
    stacked: true,
    left: STAGES.map(([name, label]) => scoringMetric(serviceName, name, { label })),
  });
}

function slowStages({ serviceName }: Subject): IWidget {
  return new GraphWidget({
    title: 'Stages of a micro-batch: ms, p99',
    width: HALF,
    height: HEIGHT,
    leftYAxis: FROM_ZERO,
    left: STAGES.map(([name, label]) => scoringMetric(serviceName, name, { label, statistic: Stats.p(99) })),
  });
}

function outcomes({ serviceName }: Subject): IWidget {
  return new GraphWidget({
    title: 'Records',
    width: HALF,
    height: HEIGHT,
    leftYAxis: FROM_ZERO,
    left: [
      scoringMetric(serviceName, 'Answered', { label: 'answered' }),
      scoringMetric(serviceName, 'Requests', { label: 'requests in them' }),
      scoringMetric(serviceName, 'Errors', { label: 'requests answered with an error' }),
      scoringMetric(serviceName, 'Retries', { label: 'to be retried' }),
    ],
  });
}

function cost(subject: Subject): IWidget {
  const { date, region } = subject.prices;
  return new GraphWidget({
    title: `US dollars per thousand rows, at the prices of ${region}, ${date}`,
    width: HALF,
    height: HEIGHT,
    leftYAxis: FROM_ZERO,
    left: [costPerThousandRows(subject)],
  });
}

function abandonedRuns({ serviceName }: Subject): IWidget {
  return new GraphWidget({
    title: 'Runs left behind, and hosts that ended themselves',
    width: HALF,
    height: HEIGHT,
    leftYAxis: FROM_ZERO,
    left: [
      scoringMetric(serviceName, 'AbandonedRuns', { label: 'runs left behind' }),
      scoringMetric(serviceName, 'HostsEnded', { label: 'hosts ended' }),
    ],
  });
}

function batchMismatch({ serviceName }: Subject): IWidget {
  return new GraphWidget({
    title: 'Models whose rows depend on each other, and time of checks: ms',
    width: HALF,
    height: HEIGHT,
    leftYAxis: FROM_ZERO,
    rightYAxis: FROM_ZERO,
    left: [scoringMetric(serviceName, 'BatchMismatch', { label: 'models found out' })],
    right: [scoringMetric(serviceName, 'CheckTime', { statistic: Stats.SUM, label: 'checks' })],
  });
}

function toWidget({ title, left, right }: Graph): IWidget {
  return new GraphWidget({
    title,
    width: HALF,
    height: HEIGHT,
    leftYAxis: FROM_ZERO,
    left: [...left],
    ...(right !== undefined && { right: [...right], rightYAxis: FROM_ZERO }),
  });
}
