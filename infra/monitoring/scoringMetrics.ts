import { Duration } from 'aws-cdk-lib';
import { MathExpression, Metric, type MetricOptions, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { ALL_METRIC_UNITS, METRIC_NAMESPACE, type MetricName, SERVICE_DIMENSION } from '../../lambda/core/observer.ts';
import type { AlarmCondition, Batching, Compute, Graph } from '../compute/compute.ts';
import type { RequestQueues, ResultStores } from '../constructs/channels.ts';
import type { AlarmThresholds } from '../constructs/plan.ts';
import type { Prices } from '../priceList.ts';

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

/** Seconds that the oldest request of any shard has waited. */
export function oldestMessageAge(requests: RequestQueues, options: MetricOptions = {}): Metric | MathExpression {
  return ofAll(
    'MAX',
    requests,
    (queue) => queue.metricApproximateAgeOfOldestMessage({ ...AT_MOST, ...options }),
    options,
  );
}

/** Requests that wait, in all shards. */
export function waiting(requests: RequestQueues): Metric | MathExpression {
  const label = 'waiting';
  return ofAll('SUM', requests, (queue) => queue.metricApproximateNumberOfMessagesVisible({ ...AT_MOST, label }), {
    label,
  });
}

/** Requests that were handed over, of all shards. */
export function beingScored(requests: RequestQueues): Metric | MathExpression {
  const label = 'being scored';
  return ofAll('SUM', requests, (queue) => queue.metricApproximateNumberOfMessagesNotVisible({ ...AT_MOST, label }), {
    label,
  });
}

/** Messages that the shard with the most of them has handed out: the quota is that of a queue. */
export function maxInFlight(requests: RequestQueues): Metric | MathExpression {
  return ofAll('MAX', requests, (queue) => queue.metricApproximateNumberOfMessagesNotVisible(AT_MOST), {});
}

const AT_MOST = { statistic: Stats.MAXIMUM, period: PERIOD };

function ofAll(
  of: 'SUM' | 'MAX',
  { queues: [first, ...others] }: RequestQueues,
  metricOf: (queue: IQueue) => Metric,
  { label }: MetricOptions,
): Metric | MathExpression {
  return together(of, [metricOf(first), ...others.map(metricOf)], label);
}

/**
 * One metric of each shard as one: their sum, or the highest. Where there is one shard, it is that metric itself.
 *
 * @param metrics of one name and period, at least one
 */
export function together(
  of: 'SUM' | 'MAX',
  metrics: readonly [Metric, ...Metric[]],
  label?: string,
): Metric | MathExpression {
  const [first] = metrics;
  const named = label === undefined ? {} : { label };
  if (metrics.length === 1) return first.with(named);
  // An ID stands for one metric in all of a graph, and begins with a small letter.
  const name = first.metricName.replace(/^./, (letter) => letter.toLowerCase());
  const usingMetrics = Object.fromEntries(metrics.map((metric, shard) => [`${name}${shard}`, metric]));
  return new MathExpression({
    expression: `${of}([${Object.keys(usingMetrics).join(', ')}])`,
    usingMetrics,
    period: first.period,
    label: label ?? first.metricName,
  });
}

/** The deployment that alarms and dashboard watch. */
export interface Subject {
  readonly serviceName: string;
  readonly batching: Batching;
  readonly latencyTargetSeconds: number;
  readonly requests: RequestQueues;
  readonly stores: ResultStores;
  readonly resultsPerMessage: number | 'fill';
  readonly resultMessageBytes: number;
  readonly alarmThresholds: AlarmThresholds;
  readonly compute: Compute;
  /** What jobs are watched by, if there are any. */
  readonly jobs: { readonly alarms: readonly AlarmCondition[]; readonly graphs: readonly Graph[] } | undefined;
  readonly prices: Prices;
}

/** The queues of the deployment, the request queues first. */
export function queuesOf({ requests, stores }: Subject): IQueue[] {
  return [...requests.queues, stores.resultQueue].filter((queue) => queue !== undefined);
}
