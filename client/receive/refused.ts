import { placeOf } from '../base/requestIds.ts';
import type { FailedResult, ScoringResult } from '../result/result.ts';
import { resultOf } from '../result/resultOf.ts';

/**
 * Errors of whole messages. Their store may drop them before each request of the message was asked for, as nobody can
 * tell how many there are; so they are remembered.
 */
export interface Refused {
  /** Takes note of a result that was delivered, if it is such an error and will be the same next time. */
  note(result: ScoringResult): void;
  /** What is known of a request of a packed message. */
  resultOf(id: string): ScoringResult | undefined;
}

/** The oldest is forgotten first. */
const REMEMBERED_MESSAGES = 1_000;

export function createRefused(): Refused {
  const messages = new Map<string, FailedResult>();
  return {
    note(result) {
      if (!('error' in result) || result.error.retryable) return;
      messages.set(result.messageId, result);
      const [oldest] = messages.keys();
      if (messages.size > REMEMBERED_MESSAGES && oldest !== undefined) messages.delete(oldest);
    },
    resultOf(id) {
      const { messageId, position } = placeOf(id);
      const refused = position === undefined ? undefined : messages.get(messageId);
      return refused === undefined ? undefined : resultOf(id, refused);
    },
  };
}
