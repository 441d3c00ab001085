import { Duration, Names } from 'aws-cdk-lib';
import { type MathExpression, Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { CfnEventSourceMapping, type EventSourceMapping, type IFunction, MetricType } from 'aws-cdk-lib/aws-lambda';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { together } from '../base/together.ts';
import { warnOfMessagesInFlight } from '../checks/batching.ts';
import { type Concurrency, shareOf, withinReserve } from '../checks/concurrency.ts';
import type { Graph, Wiring } from './compute.ts';

/** What hands records over to a function. */
export interface Feed {
  /** One for each queue. */
  readonly eventSourceMappings: readonly [EventSourceMapping, ...EventSourceMapping[]];
  /** What became of the messages. */
  readonly graph: Graph;
}

type FeedWiring = Pick<Wiring, 'requestQueues' | 'batching' | 'eventSourceEnabled'>;

/**
 * Feeds a function, or a version or alias of one, from each of the request queues. Its role must be allowed to take from
 * them.
 *
 * @param concurrency of all queues together
 */
export function feedFromQueues(target: IFunction, wiring: FeedWiring, concurrency: Concurrency = {}): Feed {
  const { requestQueues, batching } = wiring;
  const ofEach = shareOf(withinReserve(concurrency, batching.shards), batching.shards);
  const [first, ...others] = requestQueues;
  const feed = (queue: IQueue): EventSourceMapping => feedFromQueue(target, queue, wiring, ofEach);
  const eventSourceMappings = [feed(first), ...others.map(feed)] as const;
  warnOfMessagesInFlight(target, batching, ofEach);
  const left = eventCounts(eventSourceMappings);
  return { eventSourceMappings, graph: { title: 'Messages that the event source mapping…', left } };
}

function feedFromQueue(
  target: IFunction,
  queue: IQueue,
  { batching: { batchSize, windowSeconds }, eventSourceEnabled }: FeedWiring,
  concurrency: Concurrency,
): EventSourceMapping {
  const { maximumConcurrency } = concurrency;
  const mapping = target.addEventSourceMapping(`SqsEventSource:${Names.nodeUniqueId(queue.node)}`, {
    eventSourceArn: queue.queueArn,
    batchSize,
    reportBatchItemFailures: true,
    metricsConfig: { metrics: [MetricType.EVENT_COUNT] },
    // Said in both cases: a property that is dropped from the template would leave the mapping as it is.
    enabled: eventSourceEnabled,
    ...(windowSeconds > 0 && { maxBatchingWindow: Duration.seconds(windowSeconds) }),
    ...(maximumConcurrency !== undefined && { maxConcurrency: maximumConcurrency }),
  });
  setPollers(mapping, concurrency);
  return mapping;
}

/** Set on the resource itself: the library's own check still ends at 2,000 pollers, CloudFormation's does not. */
function setPollers(mapping: EventSourceMapping, { minimumPollers, maximumPollers }: Concurrency): void {
  if (minimumPollers === undefined && maximumPollers === undefined) return;
  const resource = mapping.node.defaultChild;
  if (!(resource instanceof CfnEventSourceMapping)) throw new Error('expected a mapping to have its resource as child');
  resource.provisionedPollerConfig = { minimumPollers, maximumPollers };
}

/**
 * The right to switch the mappings of a function off and on, and to see whether they are. They may not be led to another
 * function.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-api-permissions-ref.html
 */
export function grantSwitch(grantee: IGrantable, target: IFunction, mappings: readonly EventSourceMapping[]): Grant {
  const resourceArns = mappings.map(({ eventSourceMappingArn }) => eventSourceMappingArn);
  const look = Grant.addToPrincipal({ grantee, actions: ['lambda:GetEventSourceMapping'], resourceArns });
  const update = Grant.addToPrincipal({
    grantee,
    actions: ['lambda:UpdateEventSourceMapping'],
    resourceArns,
    conditions: { ArnLike: { 'lambda:FunctionArn': [target.functionArn, `${target.functionArn}:*`] } },
  });
  return look.combine(update);
}

/** @see https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html#event-source-mapping-metrics */
const EVENT_COUNTS = {
  PolledEventCount: 'polled',
  InvokedEventCount: 'handed over',
  FailedInvokeEventCount: 'returned as failed',
  DeletedEventCount: 'deleted',
};

function eventCounts([first, ...others]: Feed['eventSourceMappings']): (Metric | MathExpression)[] {
  return Object.entries(EVENT_COUNTS).map(([metricName, label]) => {
    const count = ({ eventSourceMappingId }: EventSourceMapping): Metric =>
      new Metric({
        namespace: 'AWS/Lambda',
        metricName,
        dimensionsMap: { EventSourceMappingUUID: eventSourceMappingId },
        statistic: Stats.SUM,
        label,
      });
    return together('SUM', [count(first), ...others.map(count)], label);
  });
}
