import pLimit from 'p-limit';
import { isFailure } from '../../core/failure.ts';
import type { WriteVerdict } from '../../core/record.ts';
import { deliver } from '../deliver.ts';
import type { RetryOptions } from '../untilDone.ts';
import { allRefused, type BatchAnswer, refusalsIn } from './batchAnswer.ts';
import { MAX_BATCH_ENTRIES } from './limits.ts';

/** Something that SQS does to received messages, in batch requests. */
export interface MessageAction<M> {
  /** What it is, in problems: `acknowledgement`. */
  readonly name: string;
  /** Which messages it was not done to, and what becomes of them: `messages that come back`. */
  readonly otherwise: string;
  /** Makes one batch request; the ID of each entry is its position. */
  readonly send: (messages: readonly M[], signal: AbortSignal, attempt: number) => Promise<BatchAnswer>;
  /** Told why SQS did not do it, once for each reason. */
  readonly onProblem: (error: Error) => void;
  /** Most batch requests in flight. @default 16 */
  readonly concurrency?: number | undefined;
  /** @default three attempts */
  readonly retry?: RetryOptions | undefined;
}

/**
 * Never throws: what SQS does not do is a problem for the log, and ends with the messages' visibility timeout.
 *
 * @returns the messages it was not done to
 */
export type ActOnMessages<M> = (messages: readonly M[], signal: AbortSignal) => Promise<M[]>;

export function createMessageAction<M>(action: MessageAction<M>): ActOnMessages<M> {
  const { name, otherwise, send, onProblem, concurrency = 16, retry = { attempts: 3 } } = action;
  const inFlight = pLimit(concurrency);
  return async (messages, signal) => {
    const attempt = (batch: readonly M[], number: number) =>
      inFlight(async () => {
        try {
          return refusalsIn(batch, await send(batch, signal, number));
        } catch (error) {
          return allRefused(batch, error);
        }
      });
    const verdicts = await deliver(messages, { store: name, pack: inTens, attempt, signal, retry });
    for (const [reason, count] of countReasons(verdicts)) onProblem(new Error(`${reason}; ${otherwise}: ${count}`));
    return messages.filter((_, index) => isFailure(verdicts[index]));
  };
}

function inTens<M>(messages: readonly M[]): M[][] {
  return Array.from({ length: Math.ceil(messages.length / MAX_BATCH_ENTRIES) }, (_, batch) =>
    messages.slice(batch * MAX_BATCH_ENTRIES, (batch + 1) * MAX_BATCH_ENTRIES),
  );
}

function countReasons(verdicts: readonly WriteVerdict[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const verdict of verdicts) {
    if (isFailure(verdict)) counts.set(verdict.message, (counts.get(verdict.message) ?? 0) + 1);
  }
  return counts;
}
