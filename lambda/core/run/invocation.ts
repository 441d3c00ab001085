import type { Model } from '../contract/model.ts';
import type { Observer } from '../contract/observer.ts';
import type { TimeLimit } from '../contract/timeLimit.ts';
import type { Ledger, PendingWrite } from '../settle/ledger.ts';
import type { PartialOutputs } from '../settle/partialOutputs.ts';
import type { LatencyEstimator } from './latencyEstimator.ts';
import type { MemoryCeiling } from './memoryCeiling.ts';
import type { Schedule } from './schedule.ts';

export interface RunDependencies {
  readonly limits: {
    /** Milliseconds kept free before the deadline for encoding and writing what was run. */
    readonly deadlineMarginMs: number;
    /** Most elements, padding included, that the inputs of one micro-batch hold together. */
    readonly maxBatchElements: number;
    /** Most characters of the answer to one message. */
    readonly maxAnswerCharacters: number;
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
  readonly schedule: Schedule;
  readonly deps: RunDependencies;
  readonly time: TimeLimit;
  /** Whether something is left to be done after the runs of now: none of them may then take all the time. */
  hasMoreToDo: boolean;
  /** Has results written and their records settled. Resolves once there is memory for more of them. Never throws. */
  write(pending: readonly PendingWrite[]): Promise<void>;
  /** Resolves when all that may be written now is written, and its records are settled. */
  settled(): Promise<void>;
}

/** Most elements that a micro-batch of a model may hold by what is configured and by what was learnt. */
export function mostElements({ limits, memory }: RunDependencies, model: Model): number {
  return Math.min(limits.maxBatchElements, memory.mostElements(model));
}
