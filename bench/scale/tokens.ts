/** What is refilled at a steady rate and holds only so much. */
export interface Tokens {
  /** Refills for the time that has passed. */
  pass(seconds: number): void;
  readonly left: number;
  take(tokens: number): void;
}

/** @param most is there at the start; Infinity for what knows no limit */
export function createTokens(perSecond: number, most: number): Tokens {
  let left = most;
  return {
    pass(seconds) {
      left = Math.min(most, left + perSecond * seconds);
    },
    get left() {
      return left;
    },
    take(tokens) {
      left -= tokens;
    },
  };
}
