/** When messages come. */
export interface Arrivals {
  /** Milliseconds, ascending. */
  readonly times: Float64Array;
  readonly perSecond: number;
  /** The first one that counts: before it the queue settles. */
  readonly from: number;
}

/** The same seed for every candidate: they differ by their settings alone. */
const SEED = 20_261_122;
/** Of the messages: until then the queue settles. */
const SETTLING_SHARE = 0.1;

/** Messages that come at random, so many a second on average: a Poisson process. The same ones each time. */
export function poissonArrivals(perSecond: number, count: number): Arrivals {
  const next = randomNumbers(SEED);
  const times = new Float64Array(count);
  let nowMs = 0;
  for (let index = 0; index < count; index++) {
    nowMs -= (1000 * Math.log(1 - next())) / perSecond;
    times[index] = nowMs;
  }
  return { times, perSecond, from: Math.floor(SETTLING_SHARE * count) };
}

/**
 * Messages that came at given times. All of them count: a trace may begin with its burst.
 *
 * @param times milliseconds, ascending, at least two that differ
 */
export function traceArrivals(times: Float64Array): Arrivals {
  const spanMs = (times.at(-1) as number) - (times[0] as number);
  return { times, perSecond: (1000 * (times.length - 1)) / spanMs, from: 0 };
}

/** Uniform in [0, 1): mulberry32. @see https://gist.github.com/tommyettinger/46a874533244883189143505d203312c */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
