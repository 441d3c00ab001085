import type { TimeLimit } from '../../core/contract/timeLimit.ts';

/** Rows that are scored together: what a step costs besides its rows is little then, and its end is near. */
const ROWS_A_STEP = 1000;
/** A step is taken for so much slower than the one before when it is asked whether there is time for it. */
const CAUTION = 1.5;

/** How many rows are scored at a time within a call. */
export interface Steps {
  /** What scoring may take: the call's time, less what writing needs. */
  readonly time: TimeLimit;
  /** Rows of the next step; 0 when there is no time for another one. */
  size(): number;
  /** A step of `rows` rows took `ms`. */
  took(rows: number, ms: number): void;
  /** Whether there is no time left for `ms` more. */
  hasNoTimeFor(ms: number): boolean;
}

/**
 * Steps are a thousand rows until the time left is shorter than such a step takes; then as many as fit.
 *
 * @param reserveMs of the call, kept for writing what was scored
 * @param fruitless how many calls before this one ended without an answer: the first step is an eighth for each
 */
export function createSteps(time: TimeLimit, reserveMs: number, fruitless: number): Steps {
  const left = () => time.remainingMs() - reserveMs;
  const deadline = AbortSignal.timeout(Math.min(Math.max(0, Math.floor(left())), MOST_TIMER_MS));
  let msPerRow: number | undefined;
  return {
    time: { remainingMs: left, signal: AbortSignal.any([time.signal, deadline]) },
    size() {
      if (left() <= 0) return 0;
      if (msPerRow === undefined) return Math.max(1, ROWS_A_STEP >> (3 * fruitless));
      return Math.floor(Math.min(ROWS_A_STEP, left() / (msPerRow * CAUTION)));
    },
    took(rows, ms) {
      if (rows > 0) msPerRow = ms / rows;
    },
    hasNoTimeFor: (ms) => left() < ms,
  };
}

/** A timer takes no more. @see https://nodejs.org/api/timers.html */
const MOST_TIMER_MS = 2 ** 31 - 1;
