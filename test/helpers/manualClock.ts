import type { Clock } from '../../lambda/core/concurrency.ts';

export interface ManualClock extends Clock {
  /** Lets time pass, and calls back what is due. */
  advance(ms: number): void;
  /** Resolves once so many things wait for `ms` milliseconds. @param many @default 1 */
  untilWaitedFor(ms: number, many?: number): Promise<void>;
}

interface Timer {
  readonly ms: number;
  readonly dueAt: number;
  readonly callback: () => void;
}

/**
 * A clock that stands still until it is told otherwise.
 * @example clock.after(1_000, () => called.push('due'));
 *   clock.advance(1_000);
 */
export function createManualClock(): ManualClock {
  let nowMs = 0;
  const timers = new Set<Timer>();
  const watchers = new Set<() => void>();
  return {
    now: () => nowMs,
    after: (ms, callback) => {
      const timer = { ms, dueAt: nowMs + ms, callback };
      timers.add(timer);
      for (const watch of [...watchers]) watch();
      return () => void timers.delete(timer);
    },
    advance: (ms) => {
      nowMs += ms;
      for (const timer of [...timers].filter(({ dueAt }) => dueAt <= nowMs)) {
        timers.delete(timer);
        timer.callback();
      }
    },
    untilWaitedFor: (ms, many = 1) =>
      new Promise((resolve) => {
        const watch = () => {
          if ([...timers].filter((timer) => timer.ms === ms).length < many) return;
          watchers.delete(watch);
          resolve();
        };
        watchers.add(watch);
        watch();
      }),
  };
}

/** Holds whoever waits at it until it is opened. */
export interface Gate {
  readonly opened: Promise<void>;
  open(): void;
}

export function closedGate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: () => resolve() };
}

/** Lets everything go on that nobody holds: scoring in memory is microtasks, and one turn of the loop ends them all. */
export function whatCanHappen(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
