import type { Random } from './random.ts';

/** How requests come: at random, at a rate that may change. */
export interface Arrivals {
  readonly name: string;
  /** Seconds after which the rate is as it was. */
  readonly periodSeconds: number;
  /** Requests a second. */
  rateAt(seconds: number): number;
  readonly highestRate: number;
}

export function poisson(perSecond: number): Arrivals {
  return { name: `${perSecond}/s`, periodSeconds: 1, rateAt: () => perSecond, highestRate: perSecond };
}

/** A tenth of the time at a high rate. */
export function bursts(low: number, high: number, periodSeconds = 20): Arrivals {
  return {
    name: `${low}/s, bursts of ${high}/s`,
    periodSeconds,
    rateAt: (seconds) => (seconds % periodSeconds < periodSeconds / 10 ? high : low),
    highestRate: high,
  };
}

/** Up and down like a day, which here is ten minutes long. */
export function day(low: number, high: number, periodSeconds = 600): Arrivals {
  const [middle, swing] = [(low + high) / 2, (high - low) / 2];
  return {
    name: `${low} to ${high}/s over a day`,
    periodSeconds,
    rateAt: (seconds) => middle - swing * Math.cos((2 * Math.PI * seconds) / periodSeconds),
    highestRate: high,
  };
}

/** A power of two: sums and differences of times are exact. */
const TICKS_PER_MS = 1024;

/** The times of arrivals over whole periods, `count` or more, in milliseconds. */
export function* drawArrivals({ rateAt, highestRate, periodSeconds }: Arrivals, count: number, random: Random) {
  let drawn = 0;
  for (let seconds = 0, end = periodSeconds; drawn < count || seconds < end; ) {
    seconds += -Math.log(1 - random.next()) / highestRate;
    if (seconds >= end) {
      if (drawn >= count) return;
      end += periodSeconds;
    }
    // Of arrivals at the highest rate, those are left out that are too many.
    if (random.next() * highestRate >= rateAt(seconds)) continue;
    drawn += 1;
    yield Math.round(1000 * seconds * TICKS_PER_MS) / TICKS_PER_MS;
  }
}
