import { startDeadline } from '../base/abort.ts';
import { CollectTimeoutError } from '../base/errors.ts';
import type { ScoringResult } from '../result/result.ts';
import type { Collector } from './collector.ts';
import type { Inbox } from './inbox.ts';

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

export interface CollectDependencies {
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
  const othersBefore = collector.othersReceived();
  try {
    yield* collectUntil(deadline.signal, missing, dependencies);
  } catch (error) {
    if (!deadline.isTimeout(error)) throw error;
    const othersReceived = collector.othersReceived() - othersBefore;
    throw new CollectTimeoutError([...missing], expected, timeoutMs, { cause: collector.lastError(), othersReceived });
  } finally {
    deadline.clear();
  }
}

/** Removes from `missing` what has come. */
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
      try {
        yield arrival.result;
      } finally {
        arrival.accept();
      }
    }
  } finally {
    waiting.close();
    await collector.settled();
  }
}
