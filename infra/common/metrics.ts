import {
  type AlarmProps,
  type GraphWidgetProps,
  MathExpression,
  Metric,
  type MetricOptions,
  Stats,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Duration } from 'aws-cdk-lib/core';
import { ALL_METRIC_UNITS, METRIC_NAMESPACE, type MetricName, SERVICE_DIMENSION } from '../../lambda/core/observer.ts';
import type { Queues } from './created.ts';

/** Options of an alarm. It goes off if the metric is above the threshold, by default above 0 in one `PERIOD`. */
export interface AlarmCondition
  extends Pick<AlarmProps, 'metric' | 'datapointsToAlarm'>,
    Partial<Pick<AlarmProps, 'threshold' | 'evaluationPeriods'>> {
  readonly id: string;
  /** Meaning and remedy, for the person on call. */
  readonly description: string;
  /**
   * True if the alarm concerns the deployed code, so that it rolls a new version back. False if it concerns traffic, or
   * leftovers of an earlier version.
   * @default false
   */
  readonly blamesVersion?: boolean;
}

/** Options of a graph on the dashboard, besides its size and its axes. */
export type Graph = GraphWidgetProps;

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
