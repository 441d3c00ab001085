import {
  type HorizontalAnnotation,
  type IMetric,
  MathExpression,
  Metric,
  type MetricOptions,
  Stats,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Duration } from 'aws-cdk-lib/core';
import { ALL_METRIC_UNITS, METRIC_NAMESPACE, type MetricName, SERVICE_DIMENSION } from '../../lambda/core/observer.ts';
import type { Queues } from './created.ts';

/** What an alarm watches. It goes off when the metric has been above the threshold in enough of the last periods. */
export interface AlarmCondition {
  readonly id: string;
  /** What it means and what to do, for whoever it wakes up. */
  readonly description: string;
  readonly metric: IMetric;
  readonly threshold: number;
  /** Number of periods, of five minutes each. */
  readonly periods: number;
  /** In how many of them the metric must have been above the threshold. @default all */
  readonly periodsAbove?: number;
  /**
   * True if it tells of what runs, so that a new version that sets it off is undone; else of traffic, or of what is left
   * from before. @default false
   */
  readonly blamesVersion?: boolean;
}

/** One graph of the dashboard. */
export interface Graph {
  readonly title: string;
  readonly left: readonly IMetric[];
  readonly right?: readonly IMetric[];
  readonly leftAnnotations?: HorizontalAnnotation[];
}

/** The statistic that fits the unit: the sum of counts, the average of shares, the median of times. */
const STATISTICS = { Count: Stats.SUM, Percent: Stats.AVERAGE, Milliseconds: Stats.p(50) };

/** A metric that the deployment with this service name emits. */
export function scoringMetric(serviceName: string, metricName: MetricName, options: MetricOptions = {}): Metric {
  return new Metric({
    namespace: METRIC_NAMESPACE,
    metricName,
    dimensionsMap: { [SERVICE_DIMENSION]: serviceName },
    statistic: STATISTICS[ALL_METRIC_UNITS[metricName]],
    period: PERIOD,
    ...options,
  });
}

/** The period of every alarm, and of the dashboard's sums. */
export const PERIOD = Duration.minutes(5);

export const AT_MOST = { statistic: Stats.MAXIMUM, period: PERIOD };

/** Seconds that the oldest request of any shard has waited. */
export function oldestMessageAge(queues: Queues, options: MetricOptions = {}): Metric | MathExpression {
  const ageIn = (queue: IQueue) => queue.metricApproximateAgeOfOldestMessage({ ...AT_MOST, ...options });
  return together('MAX', queues, ageIn, options.label);
}

/**
 * A metric of each queue, or of each mapping, as one: their sum, or the highest. Where there is one, it is that metric
 * itself.
 */
export function together<T>(
  of: 'SUM' | 'MAX',
  [only, ...others]: readonly [T, ...T[]],
  metricOf: (one: T) => Metric,
  label?: string,
): Metric | MathExpression {
  const first = metricOf(only);
  if (others.length === 0) return first.with(label === undefined ? {} : { label });
  // An ID stands for one metric in all of a graph, and begins with a small letter.
  const name = first.metricName.replace(/^./, (letter) => letter.toLowerCase());
  const metrics = [first, ...others.map(metricOf)];
  const usingMetrics = Object.fromEntries(metrics.map((metric, shard) => [`${name}${shard}`, metric]));
  return new MathExpression({
    expression: `${of}([${Object.keys(usingMetrics).join(', ')}])`,
    usingMetrics,
    period: first.period,
    label: label ?? first.metricName,
  });
}
