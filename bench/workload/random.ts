/** Random numbers. Equal seeds give equal numbers. */
export interface Random {
  /** Returns a uniform number in [0, 1). */
  next(): number;
  /** Returns a normally distributed number with mean 0 and standard deviation 1. */
  normal(): number;
  /** Returns an integer from 0 to before `end`. */
  below(end: number): number;
  uuid(): string;
}

// The look-up happens once, because tests make global look-ups slow and weights need millions of numbers.
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
