import { type MathExpression, Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { type EventSourceMapping, type IFunction, MetricType } from 'aws-cdk-lib/aws-lambda';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Duration, Names } from 'aws-cdk-lib/core';
import {
  DEFAULT_MAXIMUM_POLLERS,
  INVOCATIONS_PER_POLLER,
  MAX_INVOCATIONS,
  MAXIMUM_CONCURRENCY,
  withoutWindow,
} from '../../lambda/core/limits.ts';
import { allow } from '../common/grants.ts';
import { type Graph, together } from '../common/metrics.ts';
import { exceeds, known, outside, type Problem } from '../common/problems.ts';
import { type Batching, queueCount, type Wiring } from './compute.ts';

/** Limits on the invocations of a function, and on those of each of its mappings. The service has defaults. */
export interface Concurrency {
  /** Concurrency reserved for this function, from 2. It is also the maximum. @default none: it shares the account's */
  readonly reservedConcurrency?: number;
  /**
   * Maximum concurrent invocations from each request queue, 2 to 1,000. Fewer invocations have fuller batches. Not
   * allowed with pollers.
   * @default a share of `reservedConcurrency`, up to 1,000; without it no limit of its own
   */
  readonly maximumConcurrency?: number;
  /** Minimum provisioned pollers of each request queue, 2 to 200, for sudden traffic. @default none */
  readonly minimumPollers?: number;
  /**
   * Maximum provisioned pollers of each request queue, 2 to 2,000. Each starts up to 10 invocations at a time.
   * @default none; 200 with `minimumPollers`
   */
  readonly maximumPollers?: number;
}

type Mappings = readonly [EventSourceMapping, ...EventSourceMapping[]];

/**
 * Creates a mapping from each request queue to a function, a version or an alias. Its role needs the right to consume
 * messages.
 */
export function feedFromQueues(target: IFunction, wiring: Wiring, concurrency: Concurrency) {
  const { batching, eventSourceEnabled } = wiring;
  const { minimumPollers, maximumPollers } = concurrency;
  const hasPollers = (minimumPollers ?? maximumPollers) !== undefined;
  const [maxConcurrency, ofUrgent] = maximaOf(concurrency, batching);
  const urgentQueue = batching.urgent ? wiring.requestQueues.at(-1) : undefined;
  const batchSize = known(batching.batchSize) ?? Number.POSITIVE_INFINITY;
  const urgently = { ...withoutWindow({ batchSize }), maxConcurrency: ofUrgent };
  const feed = (queue: IQueue): EventSourceMapping => {
    const own = queue === urgentQueue ? urgently : { ...batching, maxConcurrency };
    return target.addEventSourceMapping(`SqsEventSource:${Names.nodeUniqueId(queue.node)}`, {
      eventSourceArn: queue.queueArn,
      batchSize: own.batchSize,
      maxBatchingWindow: own.windowSeconds > 0 ? Duration.seconds(own.windowSeconds) : undefined,
      reportBatchItemFailures: true,
      metricsConfig: { metrics: [MetricType.EVENT_COUNT] },
      // The property is always set, because removing it from the template would not change the mapping.
      enabled: eventSourceEnabled,
      maxConcurrency: own.maxConcurrency,
      provisionedPollerConfig: hasPollers ? { minimumPollers, maximumPollers } : undefined,
    });
  };
  const [first, ...others] = wiring.requestQueues;
  const eventSourceMappings: Mappings = [feed(first), ...others.map(feed)];
  const graph: Graph = { title: 'Messages that the event source mapping…', left: eventCounts(eventSourceMappings) };
  return { eventSourceMappings, graph };
}

/**
 * Grants the right to enable and disable the mappings of a function and to read their state. Mappings cannot be moved
 * to another function.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-api-permissions-ref.html
 */
export function grantSwitch(grantee: IGrantable, target: IFunction, mappings: readonly EventSourceMapping[]): Grant {
  const resourceArns = mappings.map(({ eventSourceMappingArn }) => eventSourceMappingArn);
  const look = allow(grantee, ['lambda:GetEventSourceMapping'], resourceArns);
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

function eventCounts(mappings: Mappings): (Metric | MathExpression)[] {
  return Object.entries(EVENT_COUNTS).map(([metricName, label]) => {
    const count = ({ eventSourceMappingId }: EventSourceMapping): Metric =>
      new Metric({
        namespace: 'AWS/Lambda',
        metricName,
        dimensionsMap: { EventSourceMappingUUID: eventSourceMappingId },
        statistic: Stats.SUM,
        label,
      });
    return together('SUM', mappings, count, label);
  });
}

/** Share of the reserved concurrency for urgent requests, which are few. */
const URGENT_SHARE = 1 / 10;

/**
 * Returns the maximum concurrency of the mapping of a request queue, and of that for urgent requests: as given, else
 * shares of the function's reserved concurrency. Mappings ignore the reserve, and each throttled invocation counts as a
 * receive of its messages. Undefined if there are other limits, or if a mapping starts no more invocations than its
 * share anyway.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
function maximaOf({ reservedConcurrency, ...limits }: Concurrency, { shards, urgent }: Batching) {
  const { maximumConcurrency: given, minimumPollers, maximumPollers } = limits;
  const reserve = known(reservedConcurrency);
  if (given !== undefined || reserve === undefined || (minimumPollers ?? maximumPollers) !== undefined) {
    return [given, given] as const;
  }
  const { min, max } = MAXIMUM_CONCURRENCY;
  const ofUrgent = urgent ? Math.max(min, Math.floor(reserve * URGENT_SHARE)) : 0;
  const share = Math.floor((reserve - ofUrgent) / shards);
  return [share >= MAX_INVOCATIONS ? undefined : Math.min(share, max), Math.min(ofUrgent, max)] as const;
}

/** Returns the most invocations that one mapping starts at a time. Undefined if that is not limited or not known. */
function invocationsOf({ maximumConcurrency, minimumPollers, maximumPollers }: Concurrency): number | undefined {
  const pollers = known(maximumPollers ?? (minimumPollers && DEFAULT_MAXIMUM_POLLERS));
  return pollers === undefined ? known(maximumConcurrency) : INVOCATIONS_PER_POLLER * pollers;
}

export const CONCURRENCY = { min: 1, max: 100_000 };
/** Setting that limits the invocations of a function. A mapping starts at least two at a time. */
const RESERVE = { name: 'reservedConcurrency', ...CONCURRENCY, min: MAXIMUM_CONCURRENCY.min };

/**
 * Returns problems with limits that Lambda refuses, or with a reserve that leads to throttling.
 *
 * @param reserve setting that limits the function: on Managed Instances, the maximum environments
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export function concurrencyProblems(concurrency: Concurrency, batching: Batching, reserve = RESERVE): Problem[] {
  const { reservedConcurrency, maximumConcurrency, minimumPollers, maximumPollers } = concurrency;
  const ranges = [
    outside(reserve.name, reservedConcurrency, reserve),
    outside('maximumConcurrency', maximumConcurrency, MAXIMUM_CONCURRENCY),
    outside('minimumPollers', minimumPollers, { min: 2, max: 200 }),
    outside('maximumPollers', maximumPollers, { min: 2, max: 2000 }),
  ];
  if (ranges.some(Boolean)) return ranges;
  const ofEach = invocationsOf(concurrency) ?? MAXIMUM_CONCURRENCY.min;
  const queues = queueCount(batching);
  const least = queues * ofEach;
  return [
    maximumConcurrency !== undefined &&
      (minimumPollers ?? maximumPollers) !== undefined &&
      'maximumConcurrency: expected none with minimumPollers or maximumPollers, because a mapping takes one or the other, ' +
        `got ${known(maximumConcurrency) ?? 'a token'}; leave it or the pollers out`,
    exceeds(minimumPollers, maximumPollers) &&
      `minimumPollers: expected at most maximumPollers, ${maximumPollers}, got ${minimumPollers}; lower it`,
    exceeds(least, reservedConcurrency) &&
      `${reserve.name}: expected at least ${least} = ${queues} × ${ofEach} invocations, which SQS starts at a time from each ` +
        `request queue, because those beyond it are throttled, got ${reservedConcurrency}; raise it, or lower ` +
        'maximumConcurrency, maximumPollers or shards',
    batching.urgent &&
      (maximumConcurrency ?? reservedConcurrency ?? minimumPollers ?? maximumPollers) === undefined &&
      'maximumConcurrency: expected one with urgent, because requests of the other queues could take all invocations of the ' +
        'account, got none; set it to at most half of the concurrency that the function may have',
  ];
}

/** Factor that AWS recommends, so that a throttled batch can be retried before its messages become visible. */
const FUNCTION_TIMEOUTS = 6;

/** @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html */
export function minVisibility(timeoutSeconds: number, { windowSeconds }: Batching) {
  return {
    seconds: FUNCTION_TIMEOUTS * timeoutSeconds + windowSeconds,
    sum: `${FUNCTION_TIMEOUTS} × ${timeoutSeconds} s timeout + ${windowSeconds} s window`,
  };
}
