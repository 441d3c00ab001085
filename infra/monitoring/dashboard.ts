import {
  type Alarm,
  AlarmStatusWidget,
  Dashboard,
  GraphWidget,
  type GraphWidgetProps,
  type Metric,
  Stats,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import type { MetricName } from '../../lambda/core/observer.ts';
import { AT_MOST, type Graph, oldestMessageAge, scoringMetric, together } from '../common/metrics.ts';
import type { Subject } from './alarms.ts';

/** Creates the dashboard. From top to bottom it shows latency, batching, and where time is spent. */
export function createDashboard(scope: Construct, subject: Subject, alarms: Alarm[]): Dashboard {
  const { serviceName, compute, jobs } = subject;
  return new Dashboard(scope, 'Dashboard', {
    // All regions of an account share the names of dashboards.
    dashboardName: `${serviceName}-${Stack.of(scope).region}`,
    widgets: [
      [new AlarmStatusWidget({ title: 'Alarms', alarms, width: FULL_WIDTH, height: 3 })],
      ...[...queueGraphs(subject), ...hostGraphs(subject)].map((pair) => pair.map(graph)),
      [...compute.graphs, ...(compute.measuresGpus ? [gpus(serviceName)] : [])].map(graph),
      ...(jobs === undefined ? [] : [jobs.graphs.map(graph)]),
    ],
  });
}

const FULL_WIDTH = 24;
const FROM_ZERO = { min: 0 };
const SHARE = { min: 0, max: 100 };

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

type OwnGraph = Graph & Pick<GraphWidgetProps, 'leftYAxis' | 'stacked'>;

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
    ...stores.flatMap(({ graphs }) => (graphs.length === 0 ? [] : [[...graphs]])),
  ];
}

function hostGraphs(subject: Subject): OwnGraph[][] {
  const { serviceName, batching } = subject;
  const emitted = (name: MetricName, label: string, statistic?: string): Metric =>
    scoringMetric(serviceName, name, { label, ...(statistic !== undefined && { statistic }) });
  const { batchSize } = batching;
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
        title: 'Scorers lost, models whose rows depend on each other, and time of checks: ms',
        left: [
          emitted('ScorersLost', 'processes that a request crashed or hung'),
          emitted('BatchMismatch', 'models found out'),
        ],
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
