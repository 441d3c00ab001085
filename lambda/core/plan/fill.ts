import type { ScoringRequest } from '../contract/request.ts';
import { capacityOf } from './capacity.ts';
import { elementsPerRowAt, type MicroBatch, microBatchOf, type Part } from './microBatch.ts';
import type { Plan } from './planner.ts';

const NONE: readonly MicroBatch[] = [];

/**
 * The plan of requests of one model and signature whose rows all cost the same: each micro-batch is filled, in arrival
 * order, with as many rows as it may hold. That is the fewest runs, and so the least cost. A request is cut only when it
 * has more rows than one micro-batch holds.
 *
 * Micro-batches run while later bodies are decoded, so that not all requests are in memory at once:
 * docs/adr/0009-plans-that-stream-and-plans-that-wait.md has the figures.
 *
 * @param sample any request of the group
 */
export function createFill(sample: ScoringRequest, maxElements: number): Plan {
  const { model } = sample;
  const { rows: most, reason } = capacityOf(model, elementsPerRowAt(sample, sample.length), maxElements);
  let parts: Part[] = [];
  let rows = 0;
  const close = (closedBecause: MicroBatch['closedBecause']): readonly MicroBatch[] => {
    if (parts.length === 0) return NONE;
    const batch = microBatchOf(model, parts, closedBecause);
    parts = [];
    rows = 0;
    return [batch];
  };
  return {
    add(request) {
      let closed = request.rows <= most && rows + request.rows > most ? close(reason) : NONE;
      for (let fromRow = 0; fromRow < request.rows; ) {
        const toRow = Math.min(request.rows, fromRow + most - rows);
        parts.push({ request, fromRow, toRow });
        rows += toRow - fromRow;
        fromRow = toRow;
        if (rows === most) closed = closed.length === 0 ? close(reason) : [...closed, ...close(reason)];
      }
      return closed;
    },
    finish: () => close('end'),
  };
}
