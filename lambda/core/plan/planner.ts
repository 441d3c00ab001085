import type { Cost, Model } from '../contract/model.ts';
import type { ScoringRequest } from '../contract/request.ts';
import type { MicroBatch } from './microBatch.ts';

/** A plan of requests: every row of every request goes into exactly one micro-batch. */
export interface Plan {
  /** Takes a request. Gives the micro-batches that it closes: they may run while others are decoded. */
  add(request: ScoringRequest): readonly MicroBatch[];
  /** There are no more requests: the micro-batches that are left. */
  finish(): readonly MicroBatch[];
}

/** What runs of a model may hold, by what is known of its rows. */
export interface Sharing {
  /** Most rows of a run, beside what the model itself allows. */
  readonly maxRows: number;
  /** Whether a request may be cut into several runs. */
  readonly mayCut: boolean;
}

/**
 * Begins a plan.
 *
 * @param maxElementsOf most elements, padding included, that the inputs of one micro-batch of a model hold together
 * @param learntCostOf what this process has learnt of the cost of a model's runs, for those that bring none of their own.
 *   @default nothing
 * @param sharingOf how the rows of a model may share runs. @default as the model allows
 */
export type Planner = (
  maxElementsOf: (model: Model) => number,
  learntCostOf?: (model: Model) => Cost | undefined,
  sharingOf?: (model: Model) => Sharing,
) => Plan;

/** What bounds the micro-batches of one model. */
export interface RunLimits extends Sharing {
  readonly maxElements: number;
  /** What runs cost by what was learnt; undefined where nothing was. */
  readonly learnt: Cost | undefined;
}
