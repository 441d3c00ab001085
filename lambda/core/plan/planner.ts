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

/**
 * Begins a plan.
 *
 * @param maxElementsOf most elements, padding included, that the inputs of one micro-batch of a model hold together
 * @param learntCostOf what this process has learnt of the cost of a model's runs, for those that bring none of their own.
 *   @default nothing
 */
export type Planner = (
  maxElementsOf: (model: Model) => number,
  learntCostOf?: (model: Model) => Cost | undefined,
) => Plan;
