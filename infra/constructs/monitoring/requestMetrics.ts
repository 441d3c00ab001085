import { type MathExpression, type Metric, type MetricOptions, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { PERIOD } from '../base/period.ts';
import { together } from '../base/together.ts';
import type { RequestQueues } from '../storage/requestQueue.ts';

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
export function mostInFlight(requests: RequestQueues): Metric | MathExpression {
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
