import { Metric, type MetricOptions, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import {
  ALL_METRIC_UNITS,
  METRIC_NAMESPACE,
  type MetricName,
  SERVICE_DIMENSION,
} from '../../../lambda/core/metricNames.ts';
import { PERIOD } from '../base/period.ts';

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
