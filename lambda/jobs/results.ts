import type { Failure } from '../core/failure.ts';
import type { Tensor } from '../core/tensor.ts';
import { type Rows, withKept } from './rows.ts';
import type { Table } from './table.ts';

/** Result of one row: a JSON document, and the failures that it tells of. */
export interface RowResult {
  readonly text: string;
  readonly failures: readonly Failure[];
}

/** Scores of rows that shared a request. */
export interface SharedScores {
  readonly table: Table;
  /** Rows in ascending order. */
  readonly rows: readonly number[];
  /** One tensor per model output, each `[rows, …]`. */
  readonly outputs: readonly Tensor[];
  /** Formats the result of the row at a place in `rows`. */
  textOf(id: string, place: number): string;
}

/** Results of rows that were scored together. */
export interface Results {
  readonly rows: Rows;
  /** Number of rows at the start that have results. There was no time or memory for the next one. */
  readonly count: number;
  /** Results of rows that shared no request, by row. */
  readonly single: readonly (RowResult | undefined)[];
  /** Scores of the other rows, in the order of the rows. */
  readonly shared: readonly SharedScores[];
  /** True if there was no memory for all results: score fewer rows together. */
  readonly isTooMuch: boolean;
}

export interface ResultVisitor {
  single(row: number, result: RowResult): void;
  shared(row: number, scores: SharedScores, place: number): void;
}

/**
 * Visits the results of the first `count` rows, in order.
 *
 * @param from first row to visit
 * @param isEnough asked after each row; true ends the visit
 * @returns the first row that is not visited
 */
export function visitResults(
  { count, single, shared }: Results,
  visitor: ResultVisitor,
  from = 0,
  isEnough = () => false,
): number {
  let [request, place] = [0, 0];
  for (let row = 0; row < count; row++) {
    const result = single[row];
    if (row > from && isEnough()) return row;
    if (result !== undefined) {
      if (row >= from) visitor.single(row, result);
      continue;
    }
    const scores = shared[request] as SharedScores;
    if (row >= from) visitor.shared(row, scores, place);
    place += 1;
    if (place === scores.rows.length) [request, place] = [request + 1, 0];
  }
  return count;
}

const NO_FAILURES: readonly Failure[] = [];

/** Returns a visitor that makes JSON documents with the kept columns. */
export function documentVisitor(
  { rows }: Results,
  visit: (text: string, failures: readonly Failure[], row: number) => void,
): ResultVisitor {
  return {
    single: (row, { text, failures }) => visit(withKept(text, rows.keptOf(row)), failures, row),
    shared: (row, scores, place) =>
      visit(withKept(scores.textOf(rows.idOf(row), place), rows.keptOf(row)), NO_FAILURES, row),
  };
}
