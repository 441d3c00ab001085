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
    bothCeilings(maximumConcurrency, minimumPollers ?? maximumPollers),
    reversed(minimumPollers, maximumPollers),
    moreThanReserved(maximumConcurrency, reservedConcurrency),
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
  if (maximum === undefined || reserved === undefined || maximum <= reserved) return undefined;
  return (
    `reservedConcurrency: expected at least maximumConcurrency, ${maximum}, because invocations beyond it are ` +
    `throttled, got ${reserved}; raise it or lower maximumConcurrency`
  );
}
