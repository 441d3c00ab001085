import type { ScoringRequest } from '../contract/request.ts';
import { elementsPerRowAt, type MicroBatch, microBatchOf, type Part } from './microBatch.ts';
import { capacityOf } from './partition.ts';

/** Micro-batches of requests that are all alike, filled as the requests come. */
export interface Fill {
  /** Takes a request. Gives the micro-batches that it closes. */
  add(request: ScoringRequest): readonly MicroBatch[];
  /** The micro-batch that is still open, if any. */
  finish(): readonly MicroBatch[];
}

const NONE: readonly MicroBatch[] = [];

/**
 * Fills up to what a micro-batch may hold, in arrival order: the fewest runs, which is the least cost where every row
 * costs the same. A request is cut only when it has more rows than one micro-batch holds.
 *
 * @param like any request of the group
 */
export function openFill(like: ScoringRequest, maxElements: number): Fill {
  const { model } = like;
  const { rows: most, reason } = capacityOf(model, elementsPerRowAt(like, like.length), maxElements);
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
