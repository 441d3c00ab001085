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

/** What hands records over to a function. */
interface Feed {
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
  const { maximumConcurrency, minimumPollers, maximumPollers } = concurrency;
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
  if (minimumPollers !== undefined || maximumPollers !== undefined) {
    // Set on the resource itself: the library's own check still ends at 2,000 pollers, CloudFormation's does not.
    resourceOf(mapping, CfnEventSourceMapping).provisionedPollerConfig = { minimumPollers, maximumPollers };
  }
  return mapping;
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

/** How many invocations and pollers there may be, of all shards together; undefined is left to the default. */
export interface Concurrency {
  readonly reservedConcurrency?: number | undefined;
  readonly maximumConcurrency?: number | undefined;
  readonly minimumPollers?: number | undefined;
  readonly maximumPollers?: number | undefined;
}

/**
 * The concurrency with a ceiling for the mappings where a reserve is one for the function: a mapping does not heed the
 * reserve, and each invocation that is throttled counts as a receive of its messages.
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

/** What each mapping gets: an equal share, because clients spread evenly, and whole, so that some may be left over. */
function shareOf(concurrency: Concurrency, shards: number): Concurrency {
  // A token is the limit of one shard: with several it is refused.
  const share = (all: number | undefined) => (known(all) === undefined ? all : Math.floor((all ?? 0) / shards));
  return {
    maximumConcurrency: share(concurrency.maximumConcurrency),
    minimumPollers: share(concurrency.minimumPollers),
    maximumPollers: share(concurrency.maximumPollers),
  };
}

/**
 * Of an SQS queue. CloudFormation's schema ends at 10,000 too.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/api/API_ProvisionedPollerConfig.html
 */
const MAXIMUM_POLLERS: Range = { min: 2, max: 10_000 };

/** What holds the invocations of a function, by the name of its setting. */
const RESERVE = { name: 'reservedConcurrency', min: 1, max: 100_000 };

/**
 * What the service refuses, and what it accepts but then throttles.
 *
 * @param reserve what `reservedConcurrency` stands for: on Managed Instances it is the most environments
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
  // Each shard has a mapping of its own, which has the range.
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

/** AWS's own recommendation: a throttled batch can be retried before its messages become visible again. */
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
 * Beyond the quota of a queue a long poll gets nothing, without an error: further invocations find no messages. That
 * works, only slower than the settings say, so it is a warning. Nothing is said where no ceiling is set: then batches that
 * are full and as many as Lambda allows are not what anybody asked for.
 *
 * @param ofEach what one mapping may have
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
