import { setTimeout as passTime } from 'node:timers/promises';
import { CollectTimeoutError } from './clientErrors.ts';
import type { Inbox } from './inbox.ts';
import type { ScoringResult } from './readResult.ts';

export interface CollectOptions {
  /** Longest wait for all results in milliseconds, at least 1. */
  readonly timeoutMs: number;
  /** Ends the collection with its reason. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Message IDs whose results were all collected before, by a run that crashed say: a result queue may still hold them,
   * alone or beside others, and they are dropped. The last 10,000 are remembered.
   */
  readonly collected?: Iterable<string> | undefined;
}

interface CollectDependencies {
  readonly inbox: Inbox;
  readonly collector: Collector;
}

/** Yields results as they come, each message ID once, until all have come. */
export async function* collect(
  messageIds: Iterable<string>,
  { timeoutMs, signal, collected = [] }: CollectOptions,
  dependencies: CollectDependencies,
): AsyncGenerator<ScoringResult, void, undefined> {
  const missing = new Set(messageIds);
  const expected = missing.size;
  const deadline = startDeadline(timeoutMs, signal);
  const { collector, inbox } = dependencies;
  for (const id of collected) inbox.dismiss(id);
  const othersBefore = collector.othersReceived;
  try {
    yield* collectUntil(deadline.signal, missing, dependencies);
  } catch (error) {
    if (!deadline.isTimeout(error)) throw error;
    const othersReceived = collector.othersReceived - othersBefore;
    throw new CollectTimeoutError([...missing], expected, timeoutMs, { cause: collector.lastError, othersReceived });
  } finally {
    deadline.clear();
  }
}

/** Removes from `missing` what has come. A result is taken unless its caller throws into the generator. */
async function* collectUntil(
  ended: AbortSignal,
  missing: Set<string>,
  { inbox, collector }: CollectDependencies,
): AsyncGenerator<ScoringResult, void, undefined> {
  const waiting = inbox.waitFor(missing, ended);
  try {
    while (missing.size > 0) {
      const arrival = await waiting.next();
      missing.delete(arrival.result.messageId);
      let isTaken = true;
      try {
        yield arrival.result;
      } catch (error) {
        isTaken = false;
        throw error;
      } finally {
        if (isTaken) arrival.accept();
        else arrival.giveBack();
      }
    }
  } finally {
    waiting.close();
    await collector.settled();
  }
}

/** When a caller stops waiting. */
export interface Deadline {
  /** Aborts at the deadline, or with the caller's signal and its reason. */
  readonly signal: AbortSignal;
  /** Returns true if `error` says that the time ran out. */
  isTimeout(error: unknown): boolean;
  /** Ends the timer. */
  clear(): void;
}

/** Node fires a longer timer at once. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * Unlike `AbortSignal.timeout`, it keeps the process alive: someone is waiting.
 *
 * @throws RangeError when `timeoutMs` is not a time that a timer can take
 */
export function startDeadline(timeoutMs: number, signal: AbortSignal | undefined): Deadline {
  if (!(timeoutMs >= 1 && timeoutMs <= LONGEST_TIMEOUT_MS)) {
    throw new RangeError(`timeoutMs: expected 1 to ${LONGEST_TIMEOUT_MS} milliseconds, got ${timeoutMs}`);
  }
  const time = new AbortController();
  const timer = setTimeout(() => time.abort(), timeoutMs);
  return {
    signal: signal === undefined ? time.signal : AbortSignal.any([signal, time.signal]),
    isTimeout: (error) => time.signal.aborted && error === time.signal.reason,
    clear: () => clearTimeout(timer),
  };
}

/** Brings results from a store to the inbox while someone waits for them. */
export interface Collector {
  /** Resolves when the store has been told of everything accepted or given back so far. */
  settled(): Promise<void>;
  /** Why the store could not be read the last time; undefined if it could. */
  readonly lastError: unknown;
  /** How often a result that nobody here waited for was received, and given back; 0 for a table. */
  readonly othersReceived: number;
  /** Resolves when nothing is under way any more. Close the inbox first. */
  close(): Promise<void>;
}

const SHORTEST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

/** Pauses that double from 50 ms to 1 s, each up to half shorter or longer: clients that wait must not do so in step. */
export class Backoff {
  readonly #sleep: Sleep;
  #pauseMs = SHORTEST_PAUSE_MS;

  constructor(sleep: Sleep = (ms, signal) => passTime(ms, undefined, { signal })) {
    this.#sleep = sleep;
  }

  reset(): void {
    this.#pauseMs = SHORTEST_PAUSE_MS;
  }

  /**
   * Sleeps, for about `minMs` or longer. Once the shortest pause is over, `cutShort` ends it and makes the next pause
   * the shortest again.
   */
  async pause(cutShort: Promise<void>, minMs = 0): Promise<void> {
    const scale = 0.5 + Math.random();
    const restMs = (Math.max(this.#pauseMs, minMs) - SHORTEST_PAUSE_MS) * scale;
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
    await this.#sleep(SHORTEST_PAUSE_MS * scale);
    if (restMs <= 0) return;
    const timer = new AbortController();
    const isCutShort = await Promise.race([
      this.#sleep(restMs, timer.signal).then(() => false),
      cutShort.then(() => true),
    ]);
    timer.abort();
    if (isCutShort) this.reset();
  }
}

/** Resolves after `ms`; rejects when `signal` aborts. */
type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>;
