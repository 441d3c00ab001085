import { Duration } from 'aws-cdk-lib';
import { Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { type IFunction, MetricType } from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Batching } from '../base/batching.ts';
import type { Concurrency } from '../checks/concurrency.ts';
import type { Graph } from './compute.ts';

/** Feeds a function, or a version or alias of one, from the queue. @returns a graph of what became of the messages */
export function feedFromQueue(
  target: IFunction,
  queue: IQueue,
  { batchSize, windowSeconds }: Batching,
  { maximumConcurrency, minimumPollers, maximumPollers }: Concurrency,
): Graph {
  const source = new SqsEventSource(queue, {
    batchSize,
    reportBatchItemFailures: true,
    metricsConfig: { metrics: [MetricType.EVENT_COUNT] },
    ...(windowSeconds > 0 && { maxBatchingWindow: Duration.seconds(windowSeconds) }),
    ...(maximumConcurrency !== undefined && { maxConcurrency: maximumConcurrency }),
    ...((minimumPollers ?? maximumPollers) !== undefined && {
      provisionedPollerConfig: {
        ...(minimumPollers !== undefined && { minimumPollers }),
        ...(maximumPollers !== undefined && { maximumPollers }),
      },
    }),
  });
  target.addEventSource(source);
  return { title: 'Messages that the event source mapping…', left: eventCounts(source.eventSourceMappingId) };
}

/** @see https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html#event-source-mapping-metrics */
const EVENT_COUNTS = {
  PolledEventCount: 'polled',
  InvokedEventCount: 'handed over',
  FailedInvokeEventCount: 'returned as failed',
  DeletedEventCount: 'deleted',
};

function eventCounts(mappingId: string): Metric[] {
  return Object.entries(EVENT_COUNTS).map(
    ([metricName, label]) =>
      new Metric({
        namespace: 'AWS/Lambda',
        metricName,
        dimensionsMap: { EventSourceMappingUUID: mappingId },
        statistic: Stats.SUM,
        label,
      }),
  );
}
