import type { Model } from '../contract/model.ts';
import type { CloseReason } from '../contract/observer.ts';
import type { ScoringRequest } from '../contract/request.ts';
import { type LimitsAtLength, type LimitsByLength, limitsByLength } from './capacity.ts';
import { type MicroBatch, microBatchOf, type Part, paddedRowsOf, wholeRun } from './microBatch.ts';
import { minCostPartition } from './minCost.ts';
import type { RunLimits } from './planner.ts';

/**
 * Cuts requests of one model and signature into micro-batches at the least total cost, shortest first. A request with
 * more rows than a micro-batch holds fills some of its own, and its last rows join the others; where it may not be cut, it
 * has one to itself.
 */
export function partition(requests: readonly ScoringRequest[], runLimits: RunLimits): MicroBatch[] {
  const [sample] = requests;
  if (sample === undefined) return [];
  const { model } = sample;
  const limits = limitsByLength(sample, runLimits);
  const parts: Part[] = [];
  const batches: MicroBatch[] = [];
  for (const { length, alike } of byLength(requests)) {
    const { rows, reason } = limits.at(length);
    for (const request of alike) {
      if (request.rows > rows && !runLimits.mayCut) {
        batches.push(wholeRun(request, reason));
        continue;
      }
      let fromRow = 0;
      for (; request.rows - fromRow > rows; fromRow += rows) {
        batches.push(microBatchOf(model, [{ request, fromRow, toRow: fromRow + rows }], reason));
      }
      parts.push({ request, fromRow, toRow: request.rows });
    }
  }
  return [...batches, ...partitionParts(parts, model, limits)];
}

/**
 * The same of parts, none of which has more rows than a micro-batch holds.
 *
 * @param parts shortest first
 */
export function partitionParts(parts: readonly Part[], model: Model, limits: LimitsByLength): MicroBatch[] {
  return minCostPartition(parts, limits).map(({ start, end }) => {
    const taken = parts.slice(start, end);
    return microBatchOf(model, taken, reasonOf(taken, parts[end], model, limits));
  });
}

/** Shortest first; those of one length in the order in which they came. There are far fewer lengths than requests. */
function byLength(
  requests: readonly ScoringRequest[],
): { readonly length: number; readonly alike: readonly ScoringRequest[] }[] {
  const known = new Map<number, ScoringRequest[]>();
  for (const request of requests) {
    const alike = known.get(request.length);
    if (alike === undefined) known.set(request.length, [request]);
    else alike.push(request);
  }
  return [...known].map(([length, alike]) => ({ length, alike })).toSorted((a, b) => a.length - b.length);
}

/** @param taken shortest first @param next the part that was not taken */
function reasonOf(taken: readonly Part[], next: Part | undefined, model: Model, limits: LimitsByLength): CloseReason {
  const rows = taken.reduce((sum, { fromRow, toRow }) => sum + toRow - fromRow, 0);
  const own = limits.at((taken.at(-1) as Part).request.length);
  if (rows === own.rows) return own.reason;
  if (next === undefined) return 'end';
  const withNext = limits.at(next.request.length);
  const rowsWithNext = rows + next.toRow - next.fromRow;
  if (rowsWithNext > withNext.rows) return withNext.reason;
  const isPadded = paddedRowsOf(model, rowsWithNext) > rowsWithNext;
  return !isPadded && costsMoreARow(own, rows, rowsWithNext) ? 'dearer' : 'padding';
}

/** Whether more rows would raise what one costs, even if they were no longer than these. */
function costsMoreARow({ costs }: LimitsAtLength, rows: number, more: number): boolean {
  return (costs[more] as number) / more > (costs[rows] as number) / rows;
}
