import { type IWidget, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { FROM_ZERO, graph, SHARE } from './graph.ts';
import { scoringMetric } from './metrics.ts';
import type { Subject } from './subject.ts';

// What the host counts and measures itself.

export function batchSize({ serviceName, batching }: Subject): IWidget {
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

export function fill({ serviceName }: Subject): IWidget {
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

export function closedWhy({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Micro-batches, by why they were closed',
    stacked: true,
    left: CLOSED_WHY.map(([name, label]) => scoringMetric(serviceName, name, { label })),
  });
}

export function padding({ serviceName }: Subject): IWidget {
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

export function stages({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Stages of a micro-batch: ms, p50',
    stacked: true,
    left: STAGES.map(([name, label]) => scoringMetric(serviceName, name, { label })),
  });
}

export function slowStages({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Stages of a micro-batch: ms, p99',
    leftYAxis: FROM_ZERO,
    left: STAGES.map(([name, label]) => scoringMetric(serviceName, name, { label, statistic: Stats.p(99) })),
  });
}

export function outcomes({ serviceName }: Subject): IWidget {
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

export function abandonedRuns({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Runs left behind, and hosts that ended themselves',
    leftYAxis: FROM_ZERO,
    left: [
      scoringMetric(serviceName, 'AbandonedRuns', { label: 'runs left behind' }),
      scoringMetric(serviceName, 'HostsEnded', { label: 'hosts ended' }),
    ],
  });
}

export function batchMismatch({ serviceName }: Subject): IWidget {
  return graph({
    title: 'Models whose rows depend on each other, and time of checks: ms',
    leftYAxis: FROM_ZERO,
    rightYAxis: FROM_ZERO,
    left: [scoringMetric(serviceName, 'BatchMismatch', { label: 'models found out' })],
    right: [scoringMetric(serviceName, 'CheckTime', { statistic: Stats.SUM, label: 'checks' })],
  });
}

export function gpus({ serviceName }: Subject): IWidget {
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
