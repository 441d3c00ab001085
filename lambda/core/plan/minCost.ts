import type { Model } from '../contract/model.ts';
import type { LimitsByLength } from './capacity.ts';
import type { Part } from './microBatch.ts';

/** Where a micro-batch starts and, exclusively, ends among the parts. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** What is known of the first `i` parts, for every `i`. */
interface Table {
  readonly rowsBefore: Int32Array;
  readonly minCost: Float64Array;
  /** Where the last micro-batch of their least-cost partition starts. */
  readonly startOfLast: Int32Array;
  /** The positions at which a micro-batch may end, ascending, and how many there are. */
  readonly candidates: Int32Array;
  candidateCount: number;
}

/**
 * The least-cost partition of parts sorted by length, shortest first, by exact dynamic programming.
 *
 * A longer run never costs less. So for single rows there is a least-cost partition in which every micro-batch holds
 * neighbours in order of length, and among those the result is exact: `minCost[i]`, the cost of the first `i` parts, is
 * the least of `minCost[j]` plus the cost of a last micro-batch `j + 1 … i`. Of equally cheap ones the smallest is taken,
 * which fills the others. O(n · maxBatchRows) at worst.
 */
export function minCostPartition(parts: readonly Part[], model: Model, limits: LimitsByLength): Span[] {
  const table = emptyTable(parts.length);
  const { rowsBefore, minCost, startOfLast, candidates } = table;
  const mayEndBetweenLengthsOnly = rowsAddUp(model) && parts.every(({ fromRow, toRow }) => toRow - fromRow === 1);
  let windowStart = 0;
  for (let end = 1; end <= parts.length; end++) {
    const { request, fromRow, toRow } = parts[end - 1] as Part;
    rowsBefore[end] = (rowsBefore[end - 1] as number) + toRow - fromRow;
    const own = limits.at(request.length);
    const next = parts[end]?.request;
    if (mayEndBetweenLengthsOnly && next !== undefined && limits.at(next.length) === own) {
      if (!endsFull(table, end, own.rows, own.costs)) continue;
    } else {
      // A longer micro-batch holds no more rows, so the earliest start never goes back.
      while (rowsBetween(table, candidates[windowStart] as number, end) > own.rows) windowStart += 1;
      const start = cheapestStart(table, windowStart, end, own.costs);
      startOfLast[end] = start;
      minCost[end] = (minCost[start] as number) + (own.costs[rowsBetween(table, start, end)] as number);
    }
    candidates[table.candidateCount++] = end;
  }
  return spansOf(startOfLast, parts.length);
}

function emptyTable(parts: number): Table {
  return {
    rowsBefore: new Int32Array(parts + 1),
    minCost: new Float64Array(parts + 1),
    startOfLast: new Int32Array(parts + 1),
    candidates: new Int32Array(parts + 1),
    candidateCount: 1,
  };
}

/**
 * Whether each row adds the same to the cost of a run. Then a cut between two one-row requests of the same length is
 * needed only after a full micro-batch: otherwise the second might as well join the first, where it is not padded. So
 * nearly all cuts are between lengths, of which there are a few hundred at most.
 */
function rowsAddUp({ ladder, cost }: Model): boolean {
  return ladder.length === 0 && cost === undefined;
}

/** Among parts of one length: whether a full micro-batch can end here. Enters it if so. */
function endsFull({ minCost, startOfLast }: Table, end: number, rows: number, costs: Float64Array): boolean {
  const start = end - rows;
  minCost[end] = start < 0 ? Number.POSITIVE_INFINITY : (minCost[start] as number) + (costs[rows] as number);
  startOfLast[end] = start;
  return minCost[end] !== Number.POSITIVE_INFINITY;
}

/** Where the cheapest last micro-batch starts: of equally cheap candidates from `windowStart` on, the latest. */
function cheapestStart(table: Table, windowStart: number, end: number, costs: Float64Array): number {
  const { candidates, candidateCount, minCost, rowsBefore } = table;
  const rowsBeforeEnd = rowsBefore[end] as number;
  let cheapest = Number.POSITIVE_INFINITY;
  let start = 0;
  for (let index = windowStart; index < candidateCount; index++) {
    const candidate = candidates[index] as number;
    const cost = (minCost[candidate] as number) + (costs[rowsBeforeEnd - (rowsBefore[candidate] as number)] as number);
    if (cost <= cheapest) {
      cheapest = cost;
      start = candidate;
    }
  }
  return start;
}

function rowsBetween({ rowsBefore }: Table, start: number, end: number): number {
  return (rowsBefore[end] as number) - (rowsBefore[start] as number);
}

function spansOf(startOfLast: Int32Array, parts: number): Span[] {
  const spans: Span[] = [];
  for (let end = parts; end > 0; end = startOfLast[end] as number)
    spans.push({ start: startOfLast[end] as number, end });
  return spans.reverse();
}
