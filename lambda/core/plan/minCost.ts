import type { LimitsAtLength, LimitsByLength } from './capacity.ts';
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
  /** What a micro-batch may hold and costs whose last part is the one before `i`. */
  readonly limits: readonly LimitsAtLength[];
}

/**
 * The least-cost partition of parts sorted by length, shortest first, by exact dynamic programming.
 *
 * A longer run never costs less. So for single rows there is a least-cost partition in which every micro-batch holds
 * neighbours in order of length, and among those the result is exact: `minCost[i]`, the cost of the first `i` parts, is
 * the least of `minCost[j]` plus the cost of a last micro-batch `j + 1 … i`. Of equally cheap ones the smallest is taken,
 * which fills the others.
 */
export function minCostPartition(parts: readonly Part[], limits: LimitsByLength): Span[] {
  const table = tableOf(parts, limits);
  if (limits.furtherRowsCostMore) tryFewStarts(table, parts.length);
  else tryEveryStart(table, parts.length);
  return spansOf(table.startOfLast, parts.length);
}

function tableOf(parts: readonly Part[], limits: LimitsByLength): Table {
  const rowsBefore = new Int32Array(parts.length + 1);
  const limitsAt: LimitsAtLength[] = [];
  for (const [index, { request, fromRow, toRow }] of parts.entries()) {
    rowsBefore[index + 1] = (rowsBefore[index] as number) + toRow - fromRow;
    limitsAt[index + 1] = limits.at(request.length);
  }
  return {
    rowsBefore,
    minCost: new Float64Array(parts.length + 1),
    startOfLast: new Int32Array(parts.length + 1),
    limits: limitsAt,
  };
}

/** Tries as the start of the last micro-batch whatever it may hold. O(n · maxBatchRows). */
function tryEveryStart(table: Table, parts: number): void {
  for (let end = 1, windowStart = 0; end <= parts; end++) {
    // A longer micro-batch holds no more rows, so the earliest start never goes back. A part alone always fits.
    while (windowStart < end - 1 && costOf(table, windowStart, end) === Number.POSITIVE_INFINITY) windowStart += 1;
    let cheapest = windowStart;
    for (let start = windowStart + 1; start < end; start++) {
      if (costOf(table, start, end) <= costOf(table, cheapest, end)) cheapest = start;
    }
    enter(table, cheapest, end);
  }
}

/** A start, and the first end from which it is cheaper than those before it. */
interface Candidate {
  readonly start: number;
  readonly from: number;
}

/**
 * The same where a further row costs no less the more rows a run has and the longer it is, save for the second. Then the
 * cheapest start never goes back as the end goes on, and where a later start becomes cheaper than an earlier one it stays
 * so, which bisection finds. Rows that are run alone are tried besides. O(n · log n).
 *
 * @see Galil and Park (1990), "A linear-time algorithm for concave one-dimensional dynamic programming", on such costs
 */
function tryFewStarts(table: Table, parts: number): void {
  const candidates: Candidate[] = [];
  let first = 0;
  for (let end = 1; end <= parts; end++) {
    const start = end - 1;
    let from = end;
    while (candidates.length > first) {
      const last = candidates.at(-1) as Candidate;
      const earliest = Math.max(last.from, end);
      from = firstEndCheaper(table, start, last.start, earliest, parts);
      if (from > earliest) break;
      candidates.pop();
    }
    if (from <= parts) candidates.push({ start, from });
    while ((candidates[first + 1]?.from ?? parts + 1) <= end) first += 1;
    const among = (candidates[first] as Candidate).start;
    enter(table, costOf(table, start, end) <= costInCompany(table, among, end) ? start : among, end);
  }
}

/** The first end from `earliest` on at which `later` is no dearer a start than `sooner`; one beyond `parts` if there is none. */
function firstEndCheaper(table: Table, later: number, sooner: number, earliest: number, parts: number): number {
  const isCheaper = (end: number): boolean => costInCompany(table, later, end) <= costInCompany(table, sooner, end);
  if (isCheaper(earliest)) return earliest;
  // So far on, a micro-batch from `sooner` would hold too many rows.
  const tooFar = sooner + (table.limits[earliest] as LimitsAtLength).rows + 1;
  if (tooFar > parts && !isCheaper(parts)) return parts + 1;
  let [dearer, cheaper] = [earliest, Math.min(tooFar, parts)];
  while (cheaper - dearer > 1) {
    const middle = (dearer + cheaper) >> 1;
    if (isCheaper(middle)) cheaper = middle;
    else dearer = middle;
  }
  return cheaper;
}

/** The least cost of the first `end` parts if the last micro-batch starts at `start`; infinite if it holds no so many. */
function costOf({ minCost, rowsBefore, limits }: Table, start: number, end: number): number {
  const rows = (rowsBefore[end] as number) - (rowsBefore[start] as number);
  return (minCost[start] as number) + ((limits[end] as LimitsAtLength).costs[rows] ?? Number.POSITIVE_INFINITY);
}

/** The same, one row alone left out: what it costs says nothing of further rows. */
function costInCompany(table: Table, start: number, end: number): number {
  const rows = (table.rowsBefore[end] as number) - (table.rowsBefore[start] as number);
  return rows === 1 ? Number.POSITIVE_INFINITY : costOf(table, start, end);
}

function enter(table: Table, start: number, end: number): void {
  table.startOfLast[end] = start;
  table.minCost[end] = costOf(table, start, end);
}

function spansOf(startOfLast: Int32Array, parts: number): Span[] {
  const spans: Span[] = [];
  for (let end = parts; end > 0; end = startOfLast[end] as number)
    spans.push({ start: startOfLast[end] as number, end });
  return spans.reverse();
}
