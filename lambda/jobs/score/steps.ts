import type { TimeLimit } from '../../core/record.ts';

/** Rows that are scored together: what a step costs besides its rows is little then, and its end is near. */
const ROWS_A_STEP = 1000;
/** Of a call's first step: nothing is known yet of what a row takes. */
const ROWS_AT_FIRST = 16;
/** Each step has at most so many times the rows of the one before. */
const GROWTH = 8;
/** A step is taken for so much slower than the one before when it is asked whether there is time for it. */
const CAUTION = 1.5;
/** What the answers of a step should come to: half of what is held of them. */
const CHARACTERS_A_STEP = 8 * 1024 * 1024;

/** How many rows are scored at a time within a call. */
export interface Steps {
  /** What scoring may take: the call's time, less what writing needs. */
  readonly time: TimeLimit;
  /** Rows of the next step; 0 when there is no time for another one. */
  size(): number;
  /** A step gave answers of so many characters to `rows` rows in `ms`. */
  took(rows: number, ms: number, characters: number): void;
  /** Whether there is no time left for `ms` more. */
  hasNoTimeFor(ms: number): boolean;
}

/**
 * Steps grow to a thousand rows, or to so many as give some MiB of answers, until the time left is shorter than such a
 * step takes; then to as many as fit.
 *
 * @param reserveMs of the call, kept for writing what was scored
 * @param fruitless how many calls before this one ended without an answer: the first step is an eighth for each
 */
export function createSteps(time: TimeLimit, reserveMs: number, fruitless: number): Steps {
  const left = () => time.remainingMs() - reserveMs;
  const deadline = AbortSignal.timeout(Math.min(Math.max(0, Math.floor(left())), MOST_TIMER_MS));
  let next = Math.max(1, ROWS_AT_FIRST >> (3 * fruitless));
  let msPerRow = 0;
  return {
    time: { remainingMs: left, signal: AbortSignal.any([time.signal, deadline]) },
    size() {
      const now = left();
      if (now <= 0) return 0;
      return msPerRow === 0 ? next : Math.floor(Math.min(next, now / (msPerRow * CAUTION)));
    },
    took(rows, ms, characters) {
      if (rows === 0) return;
      msPerRow = ms / rows;
      const fitting = Math.floor((CHARACTERS_A_STEP / Math.max(1, characters)) * rows);
      next = Math.max(1, Math.min(ROWS_A_STEP, GROWTH * rows, fitting));
    },
    hasNoTimeFor: (ms) => left() < ms,
  };
}

/** A timer takes no more. @see https://nodejs.org/api/timers.html */
const MOST_TIMER_MS = 2 ** 31 - 1;
