import type { MessageRecord } from './contract/record.ts';
import type { DecodeInOrderDependencies } from './decode/decodeInOrder.ts';
import type { DecodeLimits } from './decode/limits.ts';
import type { Planner } from './plan/planner.ts';
import type { RunDependencies } from './run/invocation.ts';
import type { OutageWatch } from './settle/outageWatch.ts';
import type { WriteDependencies } from './settle/writeAndSettle.ts';

export type ScoringLimits = DecodeLimits & RunDependencies['limits'];

/** What scoring needs, from decoding to writing. Lives as long as the process. */
export interface ScoringDependencies extends DecodeInOrderDependencies, RunDependencies, WriteDependencies {
  readonly plan: Planner;
  readonly limits: ScoringLimits;
  /**
   * Acknowledges records that were answered, before others of the invocation are scored. Never throws: what it does not
   * acknowledge is acknowledged by the outcome.
   */
  acknowledge(records: readonly MessageRecord[], signal: AbortSignal): Promise<unknown>;
  /** Where calls tell each other of outages. @default each call finds out for itself */
  readonly outages?: OutageWatch | undefined;
}
