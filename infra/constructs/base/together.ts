import { MathExpression, type Metric } from 'aws-cdk-lib/aws-cloudwatch';

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
