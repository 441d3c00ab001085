import type { Duration } from 'aws-cdk-lib';
import { type IMetric, MathExpression, Metric, type MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { BaseService } from 'aws-cdk-lib/aws-ecs';

/** What Container Insights counts of a service's tasks. */
export type TaskCount = 'DesiredTaskCount' | 'RunningTaskCount' | 'PendingTaskCount';

/** @see https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Container-Insights-metrics-ECS.html */
export function taskCount(service: BaseService, metricName: TaskCount, options: MetricOptions): Metric {
  const { clusterName } = service.cluster;
  return new Metric({
    namespace: 'ECS/ContainerInsights',
    metricName,
    dimensionsMap: { ClusterName: clusterName, ServiceName: service.serviceName },
    ...options,
  });
}

/**
 * The messages while there is no task, else 0. A count of tasks that is missing counts as none: a service at rest must
 * wake whether it is counted or not, and `FILL` has nothing to fill where there is no value at all, which `SUM` passes over.
 *
 * @param tasks the ID of the count among the metrics
 * @param messages an expression of the others
 */
export function whereNone(
  tasks: string,
  messages: string,
  usingMetrics: Readonly<Record<string, IMetric>>,
  period: Duration,
): MathExpression {
  const { [tasks]: _, ...others } = usingMetrics;
  const none = new MathExpression({ expression: `0 * ${messages}`, usingMetrics: others, period });
  return new MathExpression({
    label: 'messages without a task',
    expression: `IF(SUM([${tasks}, none]) < 1, ${messages}, 0)`,
    usingMetrics: { ...usingMetrics, none },
    period,
  });
}
