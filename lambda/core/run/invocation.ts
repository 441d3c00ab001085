import type { Model } from '../contract/model.ts';
import type { Observer } from '../contract/observer.ts';
import type { TimeLimit } from '../contract/timeLimit.ts';
import type { Ledger, PendingWrite } from '../settle/ledger.ts';
import type { PartialOutputs } from '../settle/partialOutputs.ts';
import type { LatencyEstimator } from './latencyEstimator.ts';
import type { MemoryCeiling } from './memoryCeiling.ts';

export interface RunDependencies {
  readonly limits: {
    /** Milliseconds kept free before the deadline for encoding and writing what was run. */
    readonly deadlineMarginMs: number;
  };
  readonly latency: LatencyEstimator;
  readonly memory: MemoryCeiling;
  readonly observer: Observer;
  /** A clock that never goes back, in milliseconds. */
  readonly now: () => number;
}

/** What the micro-batches of one invocation share. */
export interface Invocation {
  readonly ledger: Ledger;
  readonly partialOutputs: PartialOutputs;
  readonly deps: RunDependencies;
  readonly time: TimeLimit;
  /** Runs under way. */
  running: number;
  /** Models whose predicted time kept a run from being started. */
  readonly doubted: Set<Model>;
  /** Writes results and settles their records. Never throws. */
  write(pending: readonly PendingWrite[]): Promise<void>;
}
