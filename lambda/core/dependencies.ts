import type { ResultWriter } from './contract/result.ts';
import type { DecodeDependencies } from './decode/decode.ts';
import type { DecodeLimits } from './decode/decodeRequest.ts';
import type { CloseReason } from './plan/microBatch.ts';
import type { Planner } from './plan/plan.ts';
import type { Pace } from './run/pace.ts';

export interface ScoringLimits extends DecodeLimits {
  /** Most elements, padding included, that the inputs of one micro-batch hold together. */
  readonly maxBatchElements: number;
  /** Milliseconds kept free before the deadline for encoding and writing what was run. */
  readonly deadlineMarginMs: number;
  /** Whether equal requests of one call are run once and answered many times. */
  readonly collapseEqualRequests: boolean;
}

/** What one run was, for metrics and for whoever asks why a batch was small. */
export interface MicroBatchReport {
  readonly model: string;
  readonly version: string;
  readonly requests: number;
  readonly rows: number;
  readonly paddedRows: number;
  readonly maxBatchRows: number;
  /** Size that the ragged axis was padded to; 1 without one. */
  readonly paddedLength: number;
  /** Share of the elements run that nobody sent, from 0 to 1. */
  readonly paddingShare: number;
  readonly closedBecause: CloseReason;
  readonly stackMs: number;
  readonly runMs: number;
  readonly encodeMs: number;
  readonly writeMs: number;
}

/** What is told of the work while it goes on. Never a message's content. */
export interface Observer {
  microBatch(report: MicroBatchReport): void;
  /** Records were decoded, in so many milliseconds, reading their payloads included. */
  decoded(records: number, decodeMs: number): void;
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
  /** A clock that never goes back, in milliseconds. */
  readonly now: () => number;
}

/** The time one call has. */
export interface TimeLimit {
  readonly remainingMs: () => number;
  /** Aborted when writes must stop being retried. */
  readonly signal: AbortSignal;
}
