import type { DecodeDependencies } from './decode.ts';
import type { DecodeLimits } from './decodeRequest.ts';
import type { Pace } from './pace.ts';
import type { CloseReason, PlanLimits, Planner } from './plan.ts';
import type { ResultWriter } from './result.ts';

export interface ScoringLimits extends DecodeLimits, PlanLimits {
  /** Milliseconds kept free before the deadline for encoding and writing what was run. */
  readonly deadlineMarginMs: number;
}

/** What one run was, for metrics and for whoever asks why a batch was small. */
export interface MicroBatchReport {
  readonly model: string;
  readonly version: string;
  readonly requests: number;
  readonly rows: number;
  readonly paddedRows: number;
  readonly maxBatchRows: number;
  readonly closedBecause: CloseReason;
  readonly runMs: number;
}

/** What is told of the work while it goes on. Never a message's content. */
export interface Observer {
  microBatch(report: MicroBatchReport): void;
  /** Something that is a bug or an outage rather than a record's fault; the records it met are handed back. */
  problem(error: unknown): void;
}

/** Lives as long as the process. */
export interface ScoringDependencies extends DecodeDependencies {
  readonly writer: ResultWriter;
  readonly plan: Planner;
  readonly limits: ScoringLimits;
  readonly pace: Pace;
  readonly observer: Observer;
}

/** The time one call has. */
export interface TimeLimit {
  readonly remainingMs: () => number;
  /** Aborted when writes must stop being retried. */
  readonly signal: AbortSignal;
}
