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

/** Condition of an alarm. It goes off if the metric is above the threshold in `periodsAbove` of the last `periods`. */
export interface AlarmCondition {
  readonly id: string;
  /** Meaning and remedy, for the person on call. */
  readonly description: string;
  readonly metric: IMetric;
  readonly threshold: number;
  /** Number of periods of five minutes. */
  readonly periods: number;
  /** Number of these periods in which the metric must be above the threshold. @default all */
  readonly periodsAbove?: number;
  /**
   * True if the alarm concerns the deployed code, so that it rolls a new version back. False if it concerns traffic, or
   * leftovers of an earlier version.
   * @default false
   */
  readonly blamesVersion?: boolean;
}

export interface Graph {
  readonly title: string;
  readonly left: readonly IMetric[];
  readonly right?: readonly IMetric[];
  readonly leftAnnotations?: HorizontalAnnotation[];
}

/** Statistics by unit: sum of counts, average of shares, median of times. */
const STATISTICS = { Count: Stats.SUM, Percent: Stats.AVERAGE, Milliseconds: Stats.p(50) };

/** Returns a metric that the deployment with this service name emits. */
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

/** Period of all alarms, and of the dashboard's sums. */
export const PERIOD = Duration.minutes(5);

export const AT_MOST = { statistic: Stats.MAXIMUM, period: PERIOD };
export const SUM = { statistic: Stats.SUM, period: PERIOD };

/** Returns the seconds that the oldest request of all shards has waited. */
export function oldestMessageAge(queues: Queues, options: MetricOptions = {}): Metric | MathExpression {
  const ageIn = (queue: IQueue) => queue.metricApproximateAgeOfOldestMessage({ ...AT_MOST, ...options });
  return together('MAX', queues, ageIn, options.label);
}

/** Combines a metric of each queue or mapping into their sum or maximum. Returns a single metric unchanged. */
export function together<T>(
  of: 'SUM' | 'MAX',
  [only, ...others]: readonly [T, ...T[]],
  metricOf: (one: T) => Metric,
  label?: string,
): Metric | MathExpression {
  const first = metricOf(only);
  if (others.length === 0) return first.with(label === undefined ? {} : { label });
  // An ID must be unique in a graph and begin with a lowercase letter.
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
