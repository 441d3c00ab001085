import type { MiddlewareObj } from '@middy/core';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { Observer } from '../../core/observer.ts';
import type { MessageRecord, Outcome } from '../../core/record.ts';
import type { CallReport } from '../observedCalls.ts';

export type ScoringMiddleware = MiddlewareObj<SQSEvent, SQSBatchResponse, Error, Context>;

/** Where a host's measurements and problems go. */
export interface Telemetry {
  readonly observer: Observer;
  /** Told the outcome of every record of an invocation, once. Outcomes align with `records` by index. */
  outcomes(outcomes: readonly Outcome[], records: readonly MessageRecord[]): void;
  /** The process is about to end by its own will: what is measured so far must be out when this returns. */
  hostEnds(reason: string): void;
  /** Told where the runs of a model go, once it is loaded. @default nobody asks */
  readonly placed?: ((placement: { readonly provider: string; readonly cards: readonly string[] }) => void) | undefined;
  /** Told of each call to AWS once it has ended. @default nobody asks, so no call is observed */
  readonly awsCall?: ((report: CallReport) => void) | undefined;
  /** What opens and closes an invocation, outermost first. */
  readonly middlewares: readonly ScoringMiddleware[];
}
