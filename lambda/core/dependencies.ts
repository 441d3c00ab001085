import type { DecodeInOrderDependencies } from './decode/decodeInOrder.ts';
import type { DecodeLimits } from './decode/decodeRequest.ts';
import type { Planner } from './plan/planner.ts';
import type { RunDependencies } from './run/invocation.ts';
import type { WriteDependencies } from './settle/writeResults.ts';

export interface ScoringLimits extends DecodeLimits {
  /** Most elements, padding included, that the inputs of one micro-batch hold together. */
  readonly maxBatchElements: number;
  /** Milliseconds kept free before the deadline for encoding and writing what was run. */
  readonly deadlineMarginMs: number;
}

/** What scoring needs, from decoding to writing. Lives as long as the process. */
export interface ScoringDependencies extends DecodeInOrderDependencies, RunDependencies, WriteDependencies {
  readonly plan: Planner;
  readonly limits: ScoringLimits;
}
