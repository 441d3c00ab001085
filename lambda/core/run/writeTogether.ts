import type { PendingWrite } from '../settle/ledger.ts';
import type { Invocation } from './invocation.ts';
import { startStopwatch } from './stopwatch.ts';

/** Results that come one by one, on their way to the stores. */
export interface Writes {
  /** Takes results. Waits only where too much waits to be written. */
  add(pending: readonly PendingWrite[]): Promise<void>;
  /** Waits until all is written. @returns milliseconds that writing took, in all */
  drained(): Promise<number>;
}

/** Characters of results that wait at most while others are written. */
const MOST_CHARACTERS = 4 * 1024 * 1024;

/** Writes as long as there is anything, each time all that came during the write before: one batch request takes many. */
export function createWrites({ write, deps: { now } }: Invocation): Writes {
  let waiting: PendingWrite[] = [];
  let characters = 0;
  let writeMs = 0;
  let underWay: Promise<void> | undefined;
  const writeAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      const taken = waiting;
      waiting = [];
      characters = 0;
      const stopwatch = startStopwatch(now);
      await write(taken);
      writeMs += stopwatch.lap();
    }
    underWay = undefined;
  };
  return {
    async add(pending) {
      for (const one of pending) {
        waiting.push(one);
        characters += one.result.body.length;
      }
      if (waiting.length === 0) return;
      underWay ??= writeAll();
      if (characters > MOST_CHARACTERS) await underWay;
    },
    async drained() {
      await underWay;
      return writeMs;
    },
  };
}
