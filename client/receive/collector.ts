import { setTimeout } from 'node:timers/promises';

/** Brings results from a store to the inbox while someone waits for them. */
export interface Collector {
  /** Resolves when the store has been told of everything accepted or given back so far. */
  settled(): Promise<void>;
  /** Why the store could not be read the last time; undefined if it could. */
  lastError(): unknown;
  /** Resolves when nothing is under way any more. Close the inbox first. */
  close(): Promise<void>;
}

/** Pauses that double from 50 ms to 1 s. */
export interface Backoff {
  /** Sleeps. Once the shortest pause is over, `cutShort` ends it and makes the next pause the shortest again. */
  pause(cutShort: Promise<void>): Promise<void>;
  reset(): void;
}

/** Resolves after `ms`; rejects when `signal` aborts. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>;

const SHORTEST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

export function createBackoff(sleep: Sleep = sleepFor): Backoff {
  let pauseMs = SHORTEST_PAUSE_MS;
  return {
    async pause(cutShort) {
      const restMs = pauseMs - SHORTEST_PAUSE_MS;
      pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
      await sleep(SHORTEST_PAUSE_MS);
      if (restMs > 0 && (await isCutShort(restMs, cutShort, sleep))) pauseMs = SHORTEST_PAUSE_MS;
    },
    reset() {
      pauseMs = SHORTEST_PAUSE_MS;
    },
  };
}

async function isCutShort(ms: number, cutShort: Promise<void>, sleep: Sleep): Promise<boolean> {
  const timer = new AbortController();
  try {
    return await Promise.race([sleep(ms, timer.signal).then(() => false), cutShort.then(() => true)]);
  } finally {
    timer.abort();
  }
}

function sleepFor(ms: number, signal?: AbortSignal): Promise<void> {
  return setTimeout(ms, undefined, { signal });
}
