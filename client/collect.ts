import { startDeadline } from './abort.ts';
import type { Collector } from './collector.ts';
import { CollectTimeoutError } from './errors.ts';
import type { Inbox } from './inbox.ts';
import type { ScoringResult } from './result.ts';

export interface CollectOptions {
  /** Milliseconds until all results must have come, at least 1. */
  readonly timeoutMs: number;
  /** Ends the collection with its reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface CollectDependencies {
  readonly inbox: Inbox;
  readonly collector: Collector;
}

/** Yields results as they come, each message ID once, until all have come. */
export async function* collect(
  messageIds: Iterable<string>,
  { timeoutMs, signal }: CollectOptions,
  { inbox, collector }: CollectDependencies,
): AsyncGenerator<ScoringResult, void, undefined> {
  const missing = new Set(messageIds);
  const expected = missing.size;
  const deadline = startDeadline(timeoutMs, signal);
  const waiting = inbox.waitFor(missing, deadline.signal);
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
  } catch (error) {
    if (!deadline.isTimeout(error)) throw error;
    throw new CollectTimeoutError([...missing], expected, timeoutMs);
  } finally {
    waiting.close();
    deadline.clear();
    await collector.settled();
  }
}
