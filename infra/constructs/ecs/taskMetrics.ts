import { Metric, type MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
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
