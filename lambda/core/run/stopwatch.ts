export interface Stopwatch {
  /** Milliseconds since the last lap, or since the start. */
  lap(): number;
}

/** @param now a clock that never goes back, in milliseconds */
export function startStopwatch(now: () => number): Stopwatch {
  let before = now();
  return {
    lap() {
      const after = now();
      const ms = after - before;
      before = after;
      return ms;
    },
  };
}
