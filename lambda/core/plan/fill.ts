import type { ScoringRequest } from '../contract/request.ts';
import { capacityOf, limitsByLength } from './capacity.ts';
import { elementsPerRowAt, type MicroBatch, microBatchOf, type Part, wholeRun } from './microBatch.ts';
import { partitionParts } from './partition.ts';
import type { Plan, RunLimits } from './planner.ts';

const NONE: readonly MicroBatch[] = [];

/**
 * The plan of requests of one model and signature whose rows all have one shape: each micro-batch is filled, in arrival
 * order, with as many rows as it may hold, or as many as cost least a row. That is the least cost. What is left in the
 * end is one micro-batch, or, where a ladder or measured costs say that several cost less, those. A request is cut only
 * when it has more rows than one micro-batch is filled with, and may be.
 *
 * Micro-batches run while later bodies are decoded, so that not all requests are in memory at once:
 * docs/adr/0009-plans-that-stream-and-plans-that-wait.md has the figures.
 *
 * @param sample any request of the group
 */
export function createFill(sample: ScoringRequest, runLimits: RunLimits): Plan {
  const { model } = sample;
  const { learnt, mayCut } = runLimits;
  const capacity = capacityOf(model, elementsPerRowAt(sample, sample.length), runLimits);
  const isGuess = model.ladder.length < 2 && (model.cost ?? learnt) === undefined;
  const limits = isGuess ? undefined : limitsByLength(sample, runLimits);
  const most = limits === undefined ? capacity.rows : leastPerRow(limits.at(sample.length).costs);
  const reason = most === capacity.rows ? capacity.reason : 'dearer';
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
      if (request.rows > most && !mayCut) return [wholeRun(request, reason)];
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
    finish() {
      if (limits === undefined) return close('end');
      const left = parts;
      parts = [];
      rows = 0;
      return partitionParts(left, model, limits);
    },
  };
}

/** Of row counts that cost nearly the least a row, the smallest: more would only make answers wait. */
const NEARLY = 1.01;

/** Where that is nearly as many as there may be, it is as many. */
const NEARLY_ALL = 0.8;

/** The rows whose run costs least a row, or next to it. */
function leastPerRow(costs: Float64Array): number {
  const perRow = (rows: number): number => (costs[rows] as number) / rows;
  let least = 1;
  for (let rows = 2; rows < costs.length; rows++) if (perRow(rows) < perRow(least)) least = rows;
  const most = NEARLY * perRow(least);
  const all = costs.length - 1;
  for (let rows = 1; rows < least; rows++) {
    if (perRow(rows) > most) continue;
    return rows >= NEARLY_ALL * all && perRow(all) <= most ? all : rows;
  }
  return least;
}
