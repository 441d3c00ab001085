import { Duration } from 'aws-cdk-lib';
import { type MathExpression, Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { type IFunction, MetricType } from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Batching } from '../base/batching.ts';
import { together } from '../base/together.ts';
import { warnOfMessagesInFlight } from '../checks/batching.ts';
import { type Concurrency, shareOf } from '../checks/concurrency.ts';
import type { Graph, Wiring } from './compute.ts';

/**
 * Feeds a function, or a version or alias of one, from each of the queues.
 *
 * @returns a graph of what became of the messages
 */
export function feedFromQueues(
  target: IFunction,
  { requestQueues, batching }: Pick<Wiring, 'requestQueues' | 'batching'>,
  concurrency: Concurrency,
): Graph {
  const ofEach = shareOf(concurrency, batching.shards);
  const [first, ...others] = requestQueues;
  const feed = (queue: IQueue): string => feedFromQueue(target, queue, batching, ofEach);
  const mappingIds = [feed(first), ...others.map(feed)] as const;
  warnOfMessagesInFlight(target, batching, ofEach);
  return { title: 'Messages that the event source mapping…', left: eventCounts(mappingIds) };
}

/** @returns the ID of the mapping */
function feedFromQueue(
  target: IFunction,
  queue: IQueue,
  { batchSize, windowSeconds }: Batching,
  { maximumConcurrency, minimumPollers, maximumPollers }: Concurrency,
): string {
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
  return source.eventSourceMappingId;
}

/** @see https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html#event-source-mapping-metrics */
const EVENT_COUNTS = {
  PolledEventCount: 'polled',
  InvokedEventCount: 'handed over',
  FailedInvokeEventCount: 'returned as failed',
  DeletedEventCount: 'deleted',
};

function eventCounts([first, ...others]: readonly [string, ...string[]]): (Metric | MathExpression)[] {
  return Object.entries(EVENT_COUNTS).map(([metricName, label]) => {
    const count = (EventSourceMappingUUID: string): Metric =>
      new Metric({
        namespace: 'AWS/Lambda',
        metricName,
        dimensionsMap: { EventSourceMappingUUID },
        statistic: Stats.SUM,
        label,
      });
    return together('SUM', [count(first), ...others.map(count)], label);
  });
}
