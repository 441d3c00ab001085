import { type MicroBatch, microBatchOf, type Part } from '../../lambda/core/microBatch.ts';
import type { Planner } from '../../lambda/core/plan.ts';

/**
 * First come, first served: micro-batches of as many one-row requests as the model takes, in the order of arrival, each
 * padded to its longest. It is what a batcher does that gathers for a while and runs what it has.
 */
export const planFirstCome: Planner = () => {
  let parts: Part[] = [];
  const close = (): MicroBatch[] => {
    const [first] = parts;
    if (first === undefined) return [];
    const batch = microBatchOf(first.request.model, parts, 'full');
    parts = [];
    return [batch];
  };
  return {
    add(request) {
      parts.push({ request, fromRow: 0, toRow: request.rows });
      return parts.length === request.model.maxBatchRows ? close() : [];
    },
    finish: close,
  };
};
