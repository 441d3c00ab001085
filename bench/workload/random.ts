/** Random numbers; the same seed gives the same ones again. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number;
  /** Normally distributed: mean 0, standard deviation 1. */
  normal(): number;
  /** A whole number from 0 up to, not including, `end`. */
  below(end: number): number;
  /** A version 4 UUID. */
  uuid(): string;
}

// Looked up once: weights are drawn by the million, and the global object of a test is slow.
const { imul } = Math;

/** Mulberry32. @see https://gist.github.com/tommyettinger/46a874533244883189143505d203312c */
export function createRandom(seed: number): Random {
  let state = seed;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (end: number): number => Math.floor(next() * end);
  return {
    next,
    normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
    below,
    uuid: () =>
      'xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx'.replace(/[xy]/g, (place) =>
        (place === 'x' ? below(16) : 8 + below(4)).toString(16),
      ),
  };
}
