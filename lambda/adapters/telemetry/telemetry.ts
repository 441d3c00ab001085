import type { MiddlewareObj } from '@middy/core';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { Outcome } from '../../core/contract/result.ts';
import type { Observer } from '../../core/scoreRecords.ts';

export type ScoringMiddleware = MiddlewareObj<SQSEvent, SQSBatchResponse, Error, Context>;

/** Where a host's measurements and problems go. */
export interface Telemetry {
  readonly observer: Observer;
  /** Told the outcome of every record of an invocation, once. */
  outcomes(outcomes: readonly Outcome[]): void;
  /** What opens and closes an invocation, outermost first. */
  readonly middlewares: readonly ScoringMiddleware[];
}
