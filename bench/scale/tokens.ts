/** What is refilled at a rate, and holds no more than that of a second, or so many at the least. */
export interface Tokens {
  /** Refills for the time that has passed. */
  pass(seconds: number): void;
  readonly left: number;
  take(tokens: number): void;
}

export interface TokenOptions {
  /** The rate at the time; Infinity for what knows no limit. */
  readonly perSecond: () => number;
  /** The most that it holds, where that is more than a second's. */
  readonly atLeast: number;
}

/** It is full at the start. */
export function createTokens({ perSecond, atLeast }: TokenOptions): Tokens {
  const most = (): number => Math.max(atLeast, perSecond());
  let left = most();
  return {
    pass(seconds) {
      left = Math.min(most(), left + perSecond() * seconds);
    },
    get left() {
      return left;
    },
    take(tokens) {
      left -= tokens;
    },
  };
}
