import { type Deferred, deferred } from './deferred.ts';

/** Work that is done in the order it came, so much at the same time and no more. */
export interface Lane {
  /** Starts the work as soon as there is room for it. It must not throw. */
  add(work: () => Promise<void>): void;
  /** Waits until all the work is done. */
  drained(): Promise<void>;
}

/** @param most how much work is under way at the same time at most */
export function createLane(most: number): Lane {
  const waiting: (() => Promise<void>)[] = [];
  let next = 0;
  let underWay = 0;
  let empty: Deferred<void> | undefined;

  const start = (): void => {
    while (underWay < most && next < waiting.length) {
      const work = waiting[next++] as () => Promise<void>;
      underWay += 1;
      work().finally(() => {
        underWay -= 1;
        start();
      });
    }
    if (next === waiting.length) {
      waiting.length = 0;
      next = 0;
    }
    if (underWay === 0) empty?.resolve();
  };
  return {
    add(work) {
      waiting.push(work);
      start();
    },
    async drained() {
      if (underWay === 0) return;
      empty ??= deferred();
      await empty.promise;
      empty = undefined;
    },
  };
}
