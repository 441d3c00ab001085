import { setTimeout as sleep } from 'node:timers/promises';

/** Brings results from a store to the inbox for as long as someone waits there. */
export interface Collector {
  /** Resolves when the store knows of everything that was accepted and given back so far. */
  settled(): Promise<void>;
  /** Why the store could not be read the last time; undefined where it could. */
  lastError(): unknown;
  /** Resolves when nothing is under way any more. The inbox must be closed before. */
  close(): Promise<void>;
}

/** Pauses that double from 50 ms to 1 s. */
export interface Backoff {
  /** Sleeps; after the shortest pause `cutShort` ends it, and the next pause is the shortest again. */
  pause(cutShort: Promise<void>): Promise<void>;
  reset(): void;
}

const SHORTEST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

export function createBackoff(): Backoff {
  let pauseMs = SHORTEST_PAUSE_MS;
  return {
    async pause(cutShort) {
      const restMs = pauseMs - SHORTEST_PAUSE_MS;
      pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
      await sleep(SHORTEST_PAUSE_MS);
      if (restMs > 0 && (await isCutShort(restMs, cutShort))) pauseMs = SHORTEST_PAUSE_MS;
    },
    reset() {
      pauseMs = SHORTEST_PAUSE_MS;
    },
  };
}

async function isCutShort(ms: number, cutShort: Promise<void>): Promise<boolean> {
  const timer = new AbortController();
  try {
    return await Promise.race([sleep(ms, false, { signal: timer.signal }), cutShort.then(() => true)]);
  } finally {
    timer.abort();
  }
}
