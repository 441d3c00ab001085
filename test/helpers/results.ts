import type { ScoringResult } from '../../client/index.ts';
import type { Result } from '../../lambda/core/record.ts';

export const IN_TIME = { timeoutMs: 20_000 };

/** A signal that never aborts. */
export const ALIVE = new AbortController().signal;

/** A result as a deployment writes it, that says no more than whose it is. */
export function resultOf(messageId: string): Result {
  return { messageId, body: JSON.stringify({ message_id: messageId, predictions: [] }), messageGroupId: undefined };
}

export function idsOf(results: readonly ScoringResult[]): string[] {
  return results.map(({ messageId }) => messageId).toSorted();
}

export function byId(results: readonly ScoringResult[]): Map<string, ScoringResult> {
  return new Map(results.map((result) => [result.messageId, result]));
}
