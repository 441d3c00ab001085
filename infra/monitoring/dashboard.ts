import { type Alarm, AlarmStatusWidget, Dashboard, GraphWidget, type Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import type { MetricName } from '../../lambda/core/observer.ts';
import { AT_MOST, type Graph, oldestMessageAge, scoringMetric, together } from '../common/metrics.ts';
import type { Subject } from './alarms.ts';

/** Creates the dashboard. From top to bottom it shows latency, batching, and where time is spent. */
export function createDashboard(scope: Construct, subject: Subject, alarms: Alarm[]): Dashboard {
  const { serviceName, batching, stores, compute, jobs } = subject;
  const rows = [
    queueGraphs(subject),
    ...stores.map(({ graphs = [] }) => graphs),
    ...hostGraphs(serviceName, batching.batchSize),
    compute.graphs,
    jobs?.graphs ?? [],
  ];
  return new Dashboard(scope, 'Dashboard', {
    // All regions of an account share the names of dashboards.
    dashboardName: `${serviceName}-${Stack.of(scope).region}`,
    widgets: [
      [new AlarmStatusWidget({ title: 'Alarms', alarms, width: FULL_WIDTH, height: 3 })],
      ...rows.filter((graphs) => graphs.length > 0).map((graphs) => graphs.map(widgetOf)),
    ],
  });
}

const FULL_WIDTH = 24;
const FROM_ZERO = { min: 0 };
const SHARE = { leftYAxis: { min: 0, max: 100 } };

function widgetOf(graph: Graph): GraphWidget {
  return new GraphWidget({ width: FULL_WIDTH / 2, height: 6, leftYAxis: FROM_ZERO, rightYAxis: FROM_ZERO, ...graph });
}

function queueGraphs(subject: Subject): Graph[] {
  const { requestQueues, urgentQueue, allQueues, deadLetterQueue, batching, latencyTargetSeconds } = subject;
  const waiting = (queue: IQueue) => queue.metricApproximateNumberOfMessagesVisible(AT_MOST);
  const beingScored = (queue: IQueue) => queue.metricApproximateNumberOfMessagesNotVisible(AT_MOST);
  const dead = deadLetterQueue?.metricApproximateNumberOfMessagesVisible({ ...AT_MOST, label: 'dead letters' });
  return [
    {
      title: 'Backlog: messages',
      left: [
        together('SUM', requestQueues, waiting, 'waiting'),
        ...(urgentQueue === undefined ? [] : [waiting(urgentQueue).with({ label: 'urgent, waiting' })]),
        together('SUM', allQueues, beingScored, 'being scored'),
        ...(dead === undefined ? [] : [dead]),
      ],
    },
    {
      title: 'Age of the oldest message: seconds',
      left: [
        oldestMessageAge(requestQueues, { label: 'oldest' }),
        ...(urgentQueue === undefined ? [] : [oldestMessageAge([urgentQueue], { label: 'oldest urgent' })]),
      ],
      leftAnnotations: [
        { value: latencyTargetSeconds, label: 'latency target' },
        { value: batching.windowSeconds, label: 'window' },
      ],
    },
  ];
}

type Line = readonly [metricName: MetricName, label: string, statistic?: string];

/** @param lines with the statistic of the metric, unless they have another */
function emitted(serviceName: string, ...lines: readonly Line[]): Metric[] {
  return lines.map(([name, label, statistic]) =>
    scoringMetric(serviceName, name, { label, ...(statistic !== undefined && { statistic }) }),
  );
}

const STAGES: readonly Line[] = [
  ['DecodeTime', 'decode (per batch)'],
  ['TransformTime', 'batch hooks of transforms (part of decode and encode)'],
  ['StackTime', 'stack'],
  ['RunTime', 'run'],
  ['EncodeTime', 'encode'],
  ['WriteTime', 'write'],
];

function hostGraphs(serviceName: string, batchSize: number): Graph[][] {
  const of = (...lines: readonly Line[]) => emitted(serviceName, ...lines);
  return [
    [
      {
        title: `Records per batch, of at most ${batchSize}`,
        left: of(['BatchSize', 'mean', Stats.AVERAGE], ['BatchSize', 'largest', Stats.MAXIMUM]),
        leftAnnotations: [{ value: batchSize, label: 'batch size' }],
      },
      {
        title: 'Fill: %',
        left: of(['BatchFill', 'batches, of the batch size'], ['Fill', 'micro-batches, of the most rows in one run']),
        ...SHARE,
      },
    ],
    [
      {
        title: 'Micro-batches, by why they were closed',
        stacked: true,
        left: of(
          ['ClosedFull', 'full'],
          ['ClosedBudget', 'element budget'],
          ['ClosedPadding', 'too much padding'],
          ['ClosedDearer', 'dearer together'],
          ['ClosedEnd', 'end of the batch'],
        ),
      },
      {
        title: 'Padding: % of the elements run',
        left: of(['PaddingShare', 'padding']),
        right: of(['Rows', 'rows'], ['PaddingRows', 'rows of padding']),
        ...SHARE,
      },
    ],
    [
      { title: 'Stages of a micro-batch: ms, p50', stacked: true, left: of(...STAGES) },
      {
        title: 'Stages of a micro-batch: ms, p99',
        left: of(...STAGES.map(([name, label]): Line => [name, label, Stats.p(99)])),
      },
    ],
    [
      {
        title: 'Records',
        left: of(
          ['Answered', 'answered'],
          ['Requests', 'requests in them'],
          ['Errors', 'requests answered with an error'],
          ['Retries', 'to be retried'],
          ['MissingOrDenied', 'of these, for a store that is missing or denied'],
          ['Captured', 'requests kept as samples'],
          ['CaptureLost', 'samples lost'],
        ),
      },
      {
        title: 'Scorers lost, models whose rows depend on each other, and time of checks: ms',
        left: of(['ScorersLost', 'processes that a request crashed or hung'], ['BatchMismatch', 'models found out']),
        right: of(['CheckTime', 'checks', Stats.SUM]),
      },
    ],
  ];
}
