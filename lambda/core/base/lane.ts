import { type Deferred, deferred } from './deferred.ts';

/** Work that is done in the order it came, so much at the same time and no more. */
export interface Lane {
  /** Starts the work as soon as there is room for it. It must not throw. */
  add(work: () => Promise<void>): void;
  /** Whether some work has not been started yet. */
  isBehind(): boolean;
  /** Waits until all the work is started. */
  caughtUp(): Promise<void>;
  /** Waits until all the work is done. */
  drained(): Promise<void>;
}

/** @param most how much work is under way at the same time at most */
export function createLane(most: number): Lane {
  const waiting: (() => Promise<void>)[] = [];
  let next = 0;
  let underWay = 0;
  let allStarted: Deferred<void> | undefined;
  let allDone: Deferred<void> | undefined;

  const isBehind = (): boolean => next < waiting.length;
  const start = (): void => {
    while (underWay < most && isBehind()) {
      const work = waiting[next++] as () => Promise<void>;
      underWay += 1;
      work().finally(() => {
        underWay -= 1;
        start();
      });
    }
    if (isBehind()) return;
    waiting.length = 0;
    next = 0;
    allStarted?.resolve();
    if (underWay === 0) allDone?.resolve();
  };
  return {
    add(work) {
      waiting.push(work);
      start();
    },
    isBehind,
    async caughtUp() {
      if (!isBehind()) return;
      allStarted ??= deferred();
      await allStarted.promise;
      allStarted = undefined;
    },
    async drained() {
      if (underWay === 0) return;
      allDone ??= deferred();
      await allDone.promise;
      allDone = undefined;
    },
  };
}
