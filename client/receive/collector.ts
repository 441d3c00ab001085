import { setTimeout } from 'node:timers/promises';

/** Brings results from a store to the inbox while someone waits for them. */
export interface Collector {
  /** Resolves when the store has been told of everything accepted or given back so far. */
  settled(): Promise<void>;
  /** Why the store could not be read the last time; undefined if it could. */
  lastError(): unknown;
  /** How often a result that nobody here waited for was received, and given back; 0 for a table. */
  othersReceived(): number;
  /** Resolves when nothing is under way any more. Close the inbox first. */
  close(): Promise<void>;
}

/** Pauses that double from 50 ms to 1 s, each up to half shorter or longer: clients that wait must not do so in step. */
export interface Backoff {
  /**
   * Sleeps, for about `leastMs` or longer. Once the shortest pause is over, `cutShort` ends it and makes the next pause
   * the shortest again.
   */
  pause(cutShort: Promise<void>, leastMs?: number): Promise<void>;
  reset(): void;
}

/** Resolves after `ms`; rejects when `signal` aborts. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>;

const SHORTEST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

export interface BackoffOptions {
  /** @default a timer */
  readonly sleep?: Sleep;
  /** @default Math.random */
  readonly random?: () => number;
}

export function createBackoff({ sleep = sleepFor, random = Math.random }: BackoffOptions = {}): Backoff {
  let pauseMs = SHORTEST_PAUSE_MS;
  return {
    async pause(cutShort, leastMs = 0) {
      const scale = 0.5 + random();
      const restMs = (Math.max(pauseMs, leastMs) - SHORTEST_PAUSE_MS) * scale;
      pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
      await sleep(SHORTEST_PAUSE_MS * scale);
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
