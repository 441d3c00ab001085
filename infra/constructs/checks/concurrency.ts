import { MAXIMUM_CONCURRENCY } from '../../../lambda/limits/eventSourceMapping.ts';
import { outside } from '../../../lambda/limits/range.ts';
import type { Problem } from '../base/refuse.ts';

/** How many invocations and pollers there may be; undefined is left to the default. */
export interface Concurrency {
  readonly reservedConcurrency?: number | undefined;
  readonly maximumConcurrency?: number | undefined;
  readonly minimumPollers?: number | undefined;
  readonly maximumPollers?: number | undefined;
}

/** The most invocations that a mapping without provisioned pollers starts at a time, whatever its limit. */
const MOST_OF_A_MAPPING = 1250;

/**
 * The concurrency with a ceiling for the mapping where a reserve is one for the function: a mapping does not heed the
 * reserve, and each invocation that is throttled counts as a receive of its messages.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export function withinReserve(concurrency: Concurrency): Concurrency {
  const { reservedConcurrency = MOST_OF_A_MAPPING, maximumConcurrency } = concurrency;
  const isLimited = maximumConcurrency !== undefined || pollersOf(concurrency) !== undefined;
  if (isLimited || reservedConcurrency >= MOST_OF_A_MAPPING) return concurrency;
  return { ...concurrency, maximumConcurrency: Math.min(reservedConcurrency, MAXIMUM_CONCURRENCY.most) };
}

function pollersOf({ minimumPollers, maximumPollers }: Concurrency): number | undefined {
  return minimumPollers ?? maximumPollers;
}

/**
 * What the service refuses, and what it accepts but then throttles.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export function concurrencyProblems(concurrency: Concurrency): Problem[] {
  const { reservedConcurrency, maximumConcurrency, minimumPollers, maximumPollers } = concurrency;
  return [
    outside('reservedConcurrency', reservedConcurrency, { least: 1, most: 100_000 }),
    outside('maximumConcurrency', maximumConcurrency, MAXIMUM_CONCURRENCY),
    outside('minimumPollers', minimumPollers, { least: 2, most: 200 }),
    outside('maximumPollers', maximumPollers, { least: 2, most: 2000 }),
    bothCeilings(maximumConcurrency, pollersOf(concurrency)),
    reversed(minimumPollers, maximumPollers),
    pollersOf(concurrency) === undefined
      ? moreThanReserved(maximumConcurrency, reservedConcurrency)
      : pollersBeyondReserve(maximumPollers, reservedConcurrency),
  ];
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

function moreThanReserved(maximum: number | undefined, reserved: number | undefined): Problem {
  const least = maximum ?? MAXIMUM_CONCURRENCY.least;
  if (reserved === undefined || least <= reserved) return undefined;
  const [what, cure] =
    maximum === undefined
      ? [`${least}, which SQS starts at a time at least`, 'raise it']
      : [`maximumConcurrency, ${least}`, 'raise it or lower maximumConcurrency'];
  return (
    `reservedConcurrency: expected at least ${what}, because invocations beyond it are throttled, ` +
    `got ${reserved}; ${cure}`
  );
}

const INVOCATIONS_PER_POLLER = 10;
const DEFAULT_MAXIMUM_POLLERS = 200;

function pollersBeyondReserve(maximumPollers: number | undefined, reserved: number | undefined): Problem {
  const invocations = INVOCATIONS_PER_POLLER * (maximumPollers ?? DEFAULT_MAXIMUM_POLLERS);
  if (reserved === undefined || invocations <= reserved) return undefined;
  const pollers =
    maximumPollers === undefined ? `the default of ${DEFAULT_MAXIMUM_POLLERS} pollers` : `${maximumPollers} pollers`;
  return (
    `reservedConcurrency: expected at least ${invocations}, because each poller starts up to ${INVOCATIONS_PER_POLLER} ` +
    `invocations at a time and those beyond it are throttled, got ${reserved} with ${pollers}; ` +
    'raise it or set a lower maximumPollers'
  );
}
