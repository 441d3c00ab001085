import type { MiddlewareObj } from '@middy/core';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { TransientCode } from '../core/failure.ts';
import type { Observer } from '../core/observer.ts';
import type { MessageRecord, Outcome } from '../core/record.ts';

type ScoringMiddleware = MiddlewareObj<SQSEvent, SQSBatchResponse, Error, Context>;

export interface Telemetry {
  readonly observer: Observer;
  /** Takes the outcomes of an invocation, once. They align with `records` by index. */
  outcomes(outcomes: readonly Outcome[], records: readonly MessageRecord[]): void;
  /** Takes the error when the scorer process died, or was killed because a run did not end. @default not counted */
  readonly scorerLost?: ((error: Error) => void) | undefined;
  /** Takes the provider and devices of a model when it is loaded. @default ignored */
  readonly assigned?:
    | ((assignment: { readonly provider: string; readonly devices: readonly string[] }) => void)
    | undefined;
  /** Middlewares that open and close an invocation, outermost first. */
  readonly middlewares: readonly ScoringMiddleware[];
}

interface RetryReason {
  readonly code: TransientCode;
  readonly reason: string;
  readonly records: number;
  readonly messageId: string | undefined;
}

const MAX_REASONS = 10;

/** Returns the distinct reasons of an invocation's retries, at most ten, the most frequent first. */
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
 * Replaces everything in double quotes with `"…"`, because it may come from a request. A truncated quotation ends with
 * an ellipsis and no quote. In doubt, more is left out.
 */
export function withoutQuotations(message: string): string {
  return message.replace(/"(?:\\[^…]|[^"\\…])*"|"(?:.*["…]|.*)/gs, '"…"');
}
