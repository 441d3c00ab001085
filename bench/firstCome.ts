import type { MicroBatch, Planner } from '../lambda/core/plan.ts';
import type { ScoringRequest } from '../lambda/core/request.ts';

/**
 * First come, first served: chunks of as many one-row requests as the model takes, in the order they arrived, each
 * padded to its longest. What a batcher does that gathers for a while and runs what it has.
 */
export const planFirstCome: Planner = (requests) => {
  const batches: MicroBatch[] = [];
  const rows = requests[0]?.model.maxBatchRows ?? 1;
  for (let from = 0; from < requests.length; from += rows)
    batches.push(toMicroBatch(requests.slice(from, from + rows)));
  return batches;
};

function toMicroBatch(requests: readonly ScoringRequest[]): MicroBatch {
  const [{ model }] = requests as [ScoringRequest];
  const parts = requests.map((request) => ({ request, fromRow: 0, toRow: request.rows }));
  return { model, parts, rows: parts.length, paddedRows: parts.length, closedBecause: 'full' };
}
