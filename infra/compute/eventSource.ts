import { type MathExpression, Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { CfnEventSourceMapping, type EventSourceMapping, type IFunction, MetricType } from 'aws-cdk-lib/aws-lambda';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Duration, Names } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import {
  DEFAULT_MAXIMUM_POLLERS,
  INVOCATIONS_PER_POLLER,
  MAX_INVOCATIONS,
  MAXIMUM_CONCURRENCY,
  MESSAGES_IN_FLIGHT,
  type Range,
} from '../../lambda/core/limits.ts';

import { resourceOf } from '../common/created.ts';
import { type Graph, together } from '../common/metrics.ts';
import { brokenOf, exceeds, known, outside, type Problem, shown, unknownAtSynth, warn } from '../common/problems.ts';
import type { Batching, Wiring } from './compute.ts';

interface Feed {
  readonly eventSourceMappings: readonly [EventSourceMapping, ...EventSourceMapping[]];
  readonly graph: Graph;
}

type FeedWiring = Pick<Wiring, 'requestQueues' | 'batching' | 'eventSourceEnabled'>;

/**
 * Creates a mapping from each request queue to a function, a version or an alias. Its role needs the right to consume
 * messages.
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
  const { maximumConcurrency, minimumPollers, maximumPollers } = concurrency;
  const mapping = target.addEventSourceMapping(`SqsEventSource:${Names.nodeUniqueId(queue.node)}`, {
    eventSourceArn: queue.queueArn,
    batchSize,
    reportBatchItemFailures: true,
    metricsConfig: { metrics: [MetricType.EVENT_COUNT] },
    // The property is always set, because removing it from the template would not change the mapping.
    enabled: eventSourceEnabled,
    ...(windowSeconds > 0 && { maxBatchingWindow: Duration.seconds(windowSeconds) }),
    ...(maximumConcurrency !== undefined && { maxConcurrency: maximumConcurrency }),
  });
  if (minimumPollers !== undefined || maximumPollers !== undefined) {
    // This is set on the resource because the CDK allows only 2,000 pollers, and CloudFormation allows more.
    resourceOf(mapping, CfnEventSourceMapping).provisionedPollerConfig = { minimumPollers, maximumPollers };
  }
  return mapping;
}

/**
 * Grants the right to enable and disable the mappings of a function and to read their state. Mappings cannot be moved
 * to another function.
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

function eventCounts(mappings: Feed['eventSourceMappings']): (Metric | MathExpression)[] {
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

/** Limits on invocations and pollers of all shards together. For those left undefined, the service's defaults apply. */
export interface Concurrency {
  readonly reservedConcurrency?: number | undefined;
  readonly maximumConcurrency?: number | undefined;
  readonly minimumPollers?: number | undefined;
  readonly maximumPollers?: number | undefined;
}

/**
 * Limits the mappings to the function's reserved concurrency, unless they have a limit. Mappings ignore the reserve,
 * and each throttled invocation counts as a receive of its messages.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
function withinReserve(concurrency: Concurrency, shards: number): Concurrency {
  const maxOfAll = shards * MAX_INVOCATIONS;
  const { reservedConcurrency: reserved, maximumConcurrency, minimumPollers, maximumPollers } = concurrency;
  const isLimited = [maximumConcurrency, minimumPollers, maximumPollers].some((limit) => limit !== undefined);
  if (isLimited || reserved === undefined || exceeds(reserved, maxOfAll - 1)) return concurrency;
  const max = shards * MAXIMUM_CONCURRENCY.max;
  return { ...concurrency, maximumConcurrency: exceeds(reserved, max) ? max : reserved };
}

/** Returns the limits of each mapping: equal shares, because clients spread messages evenly. They are rounded down. */
function shareOf(concurrency: Concurrency, shards: number): Concurrency {
  // A token is allowed only with a single shard.
  const share = (all: number | undefined) => (known(all) === undefined ? all : Math.floor((all ?? 0) / shards));
  return {
    maximumConcurrency: share(concurrency.maximumConcurrency),
    minimumPollers: share(concurrency.minimumPollers),
    maximumPollers: share(concurrency.maximumPollers),
  };
}

/**
 * Range for an SQS queue. CloudFormation's schema also ends at 10,000.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/api/API_ProvisionedPollerConfig.html
 */
const MAXIMUM_POLLERS: Range = { min: 2, max: 10_000 };

/** Setting that limits the invocations of a function. */
const RESERVE = { name: 'reservedConcurrency', min: 1, max: 100_000 };

/**
 * Returns problems with limits that the service refuses, or that lead to throttling.
 *
 * @param reserve setting that limits the function: on Managed Instances, the maximum environments
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export function concurrencyProblems(concurrency: Concurrency, shards: number, reserve = RESERVE): Problem[] {
  const { reservedConcurrency: reserved, maximumConcurrency: maximum, minimumPollers, maximumPollers } = concurrency;
  const pollers = minimumPollers ?? maximumPollers;
  const started = shards * MAXIMUM_CONCURRENCY.min;
  const byDefault = shards * DEFAULT_MAXIMUM_POLLERS;
  const mostPollers = known(maximumPollers ?? byDefault);
  const invocations = mostPollers && INVOCATIONS_PER_POLLER * mostPollers;
  const ofReserve = outside(reserve.name, reserved, reserve);
  const [ofShards, orFewer] = shards === 1 ? ['', ''] : [` with ${shards} shards`, ' or lower shards'];
  // Each shard has its own mapping, so the range is multiplied.
  const ofAll = (name: string, value: number | undefined, { min, max }: Range): Problem =>
    outside(shards === 1 ? name : `${name} of ${shards} shards together`, value, {
      min: shards * min,
      max: shards * max,
    });
  const unknown =
    shards === 1
      ? []
      : Object.entries({ [reserve.name]: reserved, maximumConcurrency: maximum, minimumPollers, maximumPollers });
  return [
    ...unknown.map(([name, value]) => unknownAtSynth(name, value)),
    ofReserve,
    ofAll('maximumConcurrency', maximum, MAXIMUM_CONCURRENCY),
    ofAll('minimumPollers', minimumPollers, { min: 2, max: 200 }),
    ofAll('maximumPollers', maximumPollers, MAXIMUM_POLLERS),
    ...brokenOf([
      [
        maximum !== undefined && pollers !== undefined,
        `maximumConcurrency: expected none alongside provisioned pollers, got ${shown(maximum)} with ${shown(pollers)} pollers; ` +
          'leave out one of the two',
      ],
      [
        exceeds(minimumPollers, maximumPollers),
        `maximumPollers: expected at least minimumPollers, ${minimumPollers}, got ${maximumPollers}; raise it`,
      ],
      [
        pollers === undefined && exceeds(maximum, reserved),
        `${reserve.name}: expected at least maximumConcurrency, ${maximum}, because invocations beyond it are ` +
          `throttled, got ${reserved}; raise it or lower maximumConcurrency`,
      ],
      [
        pollers === undefined && maximum === undefined && ofReserve === undefined && exceeds(started, reserved),
        `${reserve.name}: expected at least ${started}, which SQS starts at a time at least${ofShards}, because ` +
          `invocations beyond it are throttled, got ${reserved}; raise it${orFewer}`,
      ],
      [
        pollers !== undefined && exceeds(invocations, reserved),
        `${reserve.name}: expected at least ${invocations}, because each poller starts up to ` +
          `${INVOCATIONS_PER_POLLER} invocations at a time and those beyond it are throttled, got ${reserved} with ` +
          (maximumPollers === undefined
            ? `the default of ${byDefault} pollers${ofShards}`
            : `${maximumPollers} pollers`) +
          '; raise it or set a lower maximumPollers',
      ],
    ]),
  ];
}

/** Factor that AWS recommends, so that a throttled batch can be retried before its messages become visible. */
const FUNCTION_TIMEOUTS = 6;

/** @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html */
export function minVisibility(
  timeoutSeconds: number,
  { windowSeconds }: Batching,
): { readonly seconds: number; readonly sum: string } {
  return {
    seconds: FUNCTION_TIMEOUTS * timeoutSeconds + windowSeconds,
    sum: `${FUNCTION_TIMEOUTS} × ${timeoutSeconds} s timeout + ${windowSeconds} s window`,
  };
}

/**
 * Warns if invocations may hold more messages than the quota in flight of a queue. Further invocations then get no
 * messages and no error, so scoring is slower than the settings suggest. Without a limit on invocations there is no
 * warning, because Lambda's maximum with full batches is not a setting that the deployer chose.
 *
 * @param ofEach limits of one mapping
 */
function warnOfMessagesInFlight(scope: Construct, { batchSize, shards }: Batching, ofEach: Concurrency): void {
  const { maximumConcurrency, minimumPollers, maximumPollers = minimumPollers && DEFAULT_MAXIMUM_POLLERS } = ofEach;
  const most = known(maximumPollers ?? maximumConcurrency);
  if (known(batchSize) === undefined || most === undefined) return;
  const invocations = maximumPollers === undefined ? most : INVOCATIONS_PER_POLLER * most;
  if (batchSize * invocations <= MESSAGES_IN_FLIGHT) return;
  const max = Math.floor(MESSAGES_IN_FLIGHT / batchSize);
  warn(
    scope,
    'messagesInFlight',
    `batchSize: expected at most ${MESSAGES_IN_FLIGHT} messages in flight from one queue, which is what SQS hands out, ` +
      `got ${batchSize} × ${invocations} invocations = ${batchSize * invocations}; lower batchSize, allow at most ` +
      `${max} invocations at a time${shards === 1 ? '' : ' for each shard'}, or raise shards, now ${shards}`,
  );
}
