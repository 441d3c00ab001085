import {
  DEFAULT_MAXIMUM_POLLERS,
  INVOCATIONS_PER_POLLER,
  MAXIMUM_CONCURRENCY,
  MOST_INVOCATIONS,
  outside,
  type Range,
} from '../../../lambda/core/limits.ts';
import type { Problem } from '../base/refuse.ts';

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
export function withinReserve(concurrency: Concurrency, shards: number): Concurrency {
  const mostOfAll = shards * MOST_INVOCATIONS;
  const { reservedConcurrency = mostOfAll, maximumConcurrency } = concurrency;
  const isLimited = maximumConcurrency !== undefined || pollersOf(concurrency) !== undefined;
  if (isLimited || reservedConcurrency >= mostOfAll) return concurrency;
  return { ...concurrency, maximumConcurrency: Math.min(reservedConcurrency, shards * MAXIMUM_CONCURRENCY.most) };
}

/** What each mapping gets: an equal share, because clients spread evenly, and whole, so that some may be left over. */
export function shareOf(concurrency: Concurrency, shards: number): Concurrency {
  const share = (all: number | undefined): number | undefined => all && Math.floor(all / shards);
  return {
    maximumConcurrency: share(concurrency.maximumConcurrency),
    minimumPollers: share(concurrency.minimumPollers),
    maximumPollers: share(concurrency.maximumPollers),
  };
}

/** The most invocations that SQS starts at a time, where there is a ceiling. */
export function mostInvocations({
  maximumConcurrency,
  minimumPollers,
  maximumPollers,
}: Concurrency): number | undefined {
  if (maximumPollers !== undefined) return INVOCATIONS_PER_POLLER * maximumPollers;
  if (minimumPollers !== undefined) return INVOCATIONS_PER_POLLER * DEFAULT_MAXIMUM_POLLERS;
  return maximumConcurrency;
}

function pollersOf({ minimumPollers, maximumPollers }: Concurrency): number | undefined {
  return minimumPollers ?? maximumPollers;
}

/**
 * Of an SQS queue. CloudFormation's schema ends at 10,000 too.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/api/API_ProvisionedPollerConfig.html
 */
const MAXIMUM_POLLERS: Range = { least: 2, most: 10_000 };

/**
 * What the service refuses, and what it accepts but then throttles.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export function concurrencyProblems(concurrency: Concurrency, shards: number): Problem[] {
  const { reservedConcurrency, maximumConcurrency, minimumPollers, maximumPollers } = concurrency;
  return [
    outside('reservedConcurrency', reservedConcurrency, { least: 1, most: 100_000 }),
    outsideForShards('maximumConcurrency', maximumConcurrency, MAXIMUM_CONCURRENCY, shards),
    outsideForShards('minimumPollers', minimumPollers, { least: 2, most: 200 }, shards),
    outsideForShards('maximumPollers', maximumPollers, MAXIMUM_POLLERS, shards),
    bothCeilings(maximumConcurrency, pollersOf(concurrency)),
    reversed(minimumPollers, maximumPollers),
    pollersOf(concurrency) === undefined
      ? moreThanReserved(maximumConcurrency, reservedConcurrency, shards)
      : pollersBeyondReserve(maximumPollers, reservedConcurrency, shards),
  ];
}

/** @param range of one mapping; each shard has one */
function outsideForShards(name: string, value: number | undefined, { least, most }: Range, shards: number): Problem {
  const whose = shards === 1 ? name : `${name} of ${shards} shards together`;
  return outside(whose, value, { least: shards * least, most: shards * most });
}

function bothCeilings(maximumConcurrency: number | undefined, pollers: number | undefined): Problem {
  if (maximumConcurrency === undefined || pollers === undefined) return undefined;
  return (
    'maximumConcurrency: expected none alongside provisioned pollers, ' +
    `got ${maximumConcurrency} with ${pollers} pollers; leave out one of the two`
  );
}

function reversed(minimum: number | undefined, maximum: number | undefined): Problem {
  if (minimum === undefined || maximum === undefined || minimum <= maximum) return undefined;
  return `maximumPollers: expected at least minimumPollers, ${minimum}, got ${maximum}; raise it`;
}

function moreThanReserved(maximum: number | undefined, reserved: number | undefined, shards: number): Problem {
  const least = maximum ?? shards * MAXIMUM_CONCURRENCY.least;
  if (reserved === undefined || least <= reserved) return undefined;
  const [what, cure] =
    maximum === undefined
      ? [
          `${least}, which SQS starts at a time at least${ofShards(shards)}`,
          shards === 1 ? 'raise it' : 'raise it or lower shards',
        ]
      : [`maximumConcurrency, ${least}`, 'raise it or lower maximumConcurrency'];
  return (
    `reservedConcurrency: expected at least ${what}, because invocations beyond it are throttled, ` +
    `got ${reserved}; ${cure}`
  );
}

function pollersBeyondReserve(
  maximumPollers: number | undefined,
  reserved: number | undefined,
  shards: number,
): Problem {
  const byDefault = shards * DEFAULT_MAXIMUM_POLLERS;
  const invocations = INVOCATIONS_PER_POLLER * (maximumPollers ?? byDefault);
  if (reserved === undefined || invocations <= reserved) return undefined;
  const pollers =
    maximumPollers === undefined
      ? `the default of ${byDefault} pollers${ofShards(shards)}`
      : `${maximumPollers} pollers`;
  return (
    `reservedConcurrency: expected at least ${invocations}, because each poller starts up to ${INVOCATIONS_PER_POLLER} ` +
    `invocations at a time and those beyond it are throttled, got ${reserved} with ${pollers}; ` +
    'raise it or set a lower maximumPollers'
  );
}

function ofShards(shards: number): string {
  return shards === 1 ? '' : ` with ${shards} shards`;
}
