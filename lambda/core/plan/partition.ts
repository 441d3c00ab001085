import type { Cost, Model } from '../contract/model.ts';
import type { CloseReason } from '../contract/observer.ts';
import type { ScoringRequest } from '../contract/request.ts';
import { affineCost } from './cost.ts';
import {
  elementsPerRowAt,
  type MicroBatch,
  microBatchOf,
  type Part,
  paddedLengthOf,
  paddedRowsOf,
} from './microBatch.ts';

/**
 * The least-cost partition of requests of one model and signature, shortest first, by exact dynamic programming.
 *
 * A run costs no less for being longer, so some least-cost partition of single rows holds, in order of length,
 * neighbours only. Over those it is exact: `least[i]`, the cost of the first `i` parts, is the least over every last
 * micro-batch `j + 1 … i` of `least[j]` and that run's cost. Of equals the smallest last one is taken, which fills the
 * others. O(n · maxBatchRows) at worst.
 */
export function partition(requests: readonly ScoringRequest[], maxElements: number): MicroBatch[] {
  const [first] = requests;
  if (first === undefined) return [];
  const { model } = first;
  const limits = openLimits(first, maxElements);
  const parts: Part[] = [];
  const whole: MicroBatch[] = [];
  for (const { length, alike } of byLength(requests)) {
    const { rows, reason } = limits.at(length);
    for (const request of alike) {
      let fromRow = 0;
      for (; request.rows - fromRow > rows; fromRow += rows) {
        whole.push(microBatchOf(model, [{ request, fromRow, toRow: fromRow + rows }], reason));
      }
      parts.push({ request, fromRow, toRow: request.rows });
    }
  }
  return [...whole, ...leastCost(parts, model, limits)];
}

/** Shortest first; those of one length in the order they came. There are far fewer lengths than requests. */
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

function leastCost(parts: readonly Part[], model: Model, limits: Limits): MicroBatch[] {
  const rowsBefore = new Int32Array(parts.length + 1);
  const least = new Float64Array(parts.length + 1);
  const startOfLast = new Int32Array(parts.length + 1);
  const cuts = new Int32Array(parts.length + 1);
  const fewCuts = rowsAddUp(model) && parts.every(({ fromRow, toRow }) => toRow - fromRow === 1);
  let cutCount = 1;
  let earliest = 0;
  for (let i = 1; i <= parts.length; i++) {
    const { request, fromRow, toRow } = parts[i - 1] as Part;
    const total = (rowsBefore[i - 1] as number) + toRow - fromRow;
    rowsBefore[i] = total;
    const own = limits.at(request.length);
    const next = parts[i]?.request;
    if (fewCuts && next !== undefined && limits.at(next.length) === own) {
      // Among parts of one length: a full micro-batch ends here, or none.
      least[i] =
        i < own.rows ? Number.POSITIVE_INFINITY : (least[i - own.rows] as number) + (own.costs[own.rows] as number);
      startOfLast[i] = i - own.rows;
      if (least[i] === Number.POSITIVE_INFINITY) continue;
    } else {
      // A longer micro-batch holds no more rows, so the earliest start never goes back.
      while (total - (rowsBefore[cuts[earliest] as number] as number) > own.rows) earliest += 1;
      const start = cheapestStart(cuts, earliest, cutCount, least, rowsBefore, own.costs, total);
      startOfLast[i] = start;
      least[i] = (least[start] as number) + (own.costs[total - (rowsBefore[start] as number)] as number);
    }
    cuts[cutCount++] = i;
  }

  const batches: MicroBatch[] = [];
  for (let end = parts.length; end > 0; ) {
    const start = startOfLast[end] as number;
    const taken = parts.slice(start, end);
    const rows = (rowsBefore[end] as number) - (rowsBefore[start] as number);
    batches.push(microBatchOf(model, taken, reasonOf(rows, taken.at(-1) as Part, parts[end], limits)));
    end = start;
  }
  return batches.reverse();
}

/**
 * Whether a run costs the same for each of its rows, beside its overhead. Then, of one-row requests, a cut between two of
 * one length is needed only after a full micro-batch: else the second had better be moved to the first's, where it is not
 * padded. So nearly all cuts are between lengths, and there are no more than a few hundred of those.
 */
function rowsAddUp({ ladder, cost }: Model): boolean {
  return ladder.length === 0 && cost === undefined;
}

/** Where the cheapest last micro-batch starts: the latest of equals among the cuts from `earliest` up to before `end`. */
function cheapestStart(
  cuts: Int32Array,
  earliest: number,
  end: number,
  least: Float64Array,
  rowsBefore: Int32Array,
  costs: Float64Array,
  total: number,
): number {
  let cheapest = Number.POSITIVE_INFINITY;
  let start = 0;
  for (let index = earliest; index < end; index++) {
    const cut = cuts[index] as number;
    const cost = (least[cut] as number) + (costs[total - (rowsBefore[cut] as number)] as number);
    if (cost <= cheapest) {
      cheapest = cost;
      start = cut;
    }
  }
  return start;
}

/** @param longest the last part of the micro-batch @param next the one that it did not take */
function reasonOf(rows: number, longest: Part, next: Part | undefined, limits: Limits): CloseReason {
  const own = limits.at(longest.request.length);
  if (rows === own.rows) return own.reason;
  if (next === undefined) return 'end';
  const withNext = limits.at(next.request.length);
  return rows + next.toRow - next.fromRow > withNext.rows ? withNext.reason : 'padding';
}

/** What a micro-batch may hold whose longest request is of one length, and what its runs cost. */
interface LimitsAtLength {
  /** Most rows: at least one, on a ladder the top rung allowed. */
  readonly rows: number;
  /** What bounds the rows. */
  readonly reason: 'full' | 'budget';
  /** Cost of a run by its rows, from 1 to `rows`. */
  readonly costs: Float64Array;
}

interface Limits {
  at(length: number): LimitsAtLength;
}

function openLimits(like: ScoringRequest, maxElements: number): Limits {
  const { model } = like;
  const known = new Map<number, LimitsAtLength>();
  return {
    at(length) {
      const paddedLength = paddedLengthOf(model, length);
      const found = known.get(paddedLength);
      if (found !== undefined) return found;
      const elementsPerRow = elementsPerRowAt(like, paddedLength);
      const capacity = capacityOf(model, elementsPerRow, maxElements);
      const cost = model.cost ?? affineCost(() => elementsPerRow);
      const limits = { ...capacity, costs: costsOf(model, cost, capacity.rows, paddedLength) };
      known.set(paddedLength, limits);
      return limits;
    },
  };
}

function costsOf(model: Model, cost: Cost, rows: number, paddedLength: number): Float64Array {
  const costs = new Float64Array(rows + 1);
  let paddedRows = 0;
  let ofRung = 0;
  for (let count = 1; count <= rows; count++) {
    if (count > paddedRows) {
      paddedRows = paddedRowsOf(model, count);
      ofRung = cost(paddedRows, paddedLength);
    }
    costs[count] = ofRung;
  }
  return costs;
}

/** How many rows of `elementsPerRow` a micro-batch may hold: at least one, on a ladder the top rung allowed. */
export function capacityOf(
  { maxBatchRows, ladder }: Model,
  elementsPerRow: number,
  maxElements: number,
): { readonly rows: number; readonly reason: 'full' | 'budget' } {
  const affordable = Math.max(1, Math.floor(maxElements / elementsPerRow));
  const reason = affordable < maxBatchRows ? 'budget' : 'full';
  const rows = Math.min(maxBatchRows, affordable);
  if (ladder.length === 0) return { rows, reason };
  return { rows: ladder.findLast((rung) => rung <= rows) ?? (ladder[0] as number), reason };
}
