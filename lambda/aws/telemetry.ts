import type { MiddlewareObj } from '@middy/core';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { TransientCode } from '../core/failure.ts';
import type { Observer } from '../core/observer.ts';
import type { MessageRecord, Outcome } from '../core/record.ts';

type ScoringMiddleware = MiddlewareObj<SQSEvent, SQSBatchResponse, Error, Context>;

/** Where a host's measurements and problems go. */
export interface Telemetry {
  readonly observer: Observer;
  /** Told the outcome of every record of an invocation, once. Outcomes align with `records` by index. */
  outcomes(outcomes: readonly Outcome[], records: readonly MessageRecord[]): void;
  /** Told that the process that holds the models died, or was ended because a run did not end. @default nobody counts them */
  readonly scorerLost?: ((error: Error) => void) | undefined;
  /** Told where the runs of a model go, once it is loaded. @default nobody asks */
  readonly assigned?:
    | ((assignment: { readonly provider: string; readonly devices: readonly string[] }) => void)
    | undefined;
  /** What opens and closes an invocation, outermost first. */
  readonly middlewares: readonly ScoringMiddleware[];
}

/** Why records of one invocation are handed back. */
interface RetryReason {
  readonly code: TransientCode;
  /** The failure's message, without anything that it quotes. */
  readonly reason: string;
  /** How many records it met. */
  readonly records: number;
  readonly messageId: string | undefined;
}

const MAX_REASONS = 10;

/** The distinct reasons of an invocation's retries, those of most records first, at most ten. */
export function retryReasons(outcomes: readonly Outcome[], records: readonly MessageRecord[]): RetryReason[] {
  const reasons = new Map<string, RetryReason>();
  for (const [index, outcome] of outcomes.entries()) {
    if (outcome.status === 'answered') continue;
    const { code, message } = outcome.failure;
    const reason = withoutQuotations(message);
    const key = `${code} ${reason}`;
    const { records: met, messageId } = reasons.get(key) ?? { records: 0, messageId: records[index]?.messageId };
    reasons.set(key, { code, reason, records: met + 1, messageId });
  }
  return [...reasons.values()].toSorted((a, b) => b.records - a.records).slice(0, MAX_REASONS);
}

/**
 * A message with `"…"` in place of everything in double quotes, which may be of a request. A quotation that was cut
 * short ends with an ellipsis and no quote; where it cannot be told which, more is left out rather than less.
 */
export function withoutQuotations(message: string): string {
  return message.replace(/"(?:\\[^…]|[^"\\…])*"|"(?:.*["…]|.*)/gs, '"…"');
}
