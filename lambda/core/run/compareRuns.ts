import { type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import { unstack } from '../stack/stack.ts';
import {
  type Difference,
  differenceOf,
  firstDifference,
  isMoreThanRounding,
  OTHER_SHAPE,
  SAME_SHAPE,
} from '../tensor/difference.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { areAlike, inputsOf } from './rows.ts';
import type { CheckRuns } from './runForCheck.ts';

/** One row that was run alone. */
export interface RowAlone {
  readonly part: Part;
  /** One tensor per model output, each `[1, …]`, cut back. */
  readonly outputs: readonly Tensor[];
}

/** A row of a micro-batch that was also run alone. */
export interface RowBothWays extends RowAlone {
  /** Its place in the micro-batch. */
  readonly row: number;
}

export interface DifferingRow extends RowBothWays {
  readonly difference: Difference;
}

/**
 * What rows say that were run both ways: they `agree`; they `differ` because of the rows beside them; or it is `unclear`,
 * because there was no time to tell the one from the other.
 */
export type Verdict =
  | { readonly status: 'agree' | 'unclear' }
  | { readonly status: 'differ'; readonly part: Part; readonly difference: Difference };

/** So many rows that differ are run in copies: of the others most are of the same kind. */
const MOST_ROWS_IN_COPIES = 2;
const MOST_PLACES = 32;

/** The rows whose outputs in a micro-batch are not those of the row alone, by more than rounding. */
export function differingRows(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  rows: readonly RowBothWays[],
): DifferingRow[] {
  return rows.flatMap((one) => {
    const difference = firstDifference(unstack(batch, one.part, one.row, outputs), one.outputs, OTHER_SHAPE);
    return difference === undefined ? [] : [{ ...one, difference }];
  });
}

/**
 * Tells what neighbours change from what the number of rows alone changes: a sum in another order can turn a label
 * where two are all but equal, or move a quantised value by one. A row that differs is run in copies of itself, in a
 * run of the micro-batch's shape: what is equal then is not the neighbours' doing. Few such rows are rounding. Where
 * most rows differ, the row count or the padding itself changes answers.
 *
 * @param compared how many rows were run both ways
 * @param differing those that differ, at least one
 */
export async function explainDifferences(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  compared: number,
  differing: readonly DifferingRow[],
  checks: CheckRuns,
): Promise<Verdict> {
  for (const one of differing.slice(0, MOST_ROWS_IN_COPIES)) {
    const copies = inCopies(one.part, batch);
    const ran = await checks.run(copies);
    if (ran === undefined) return { status: 'unclear' };
    const amongCopies = unstack(copies, one.part, one.row, ran.outputs);
    const byNeighbours = firstDifference(unstack(batch, one.part, one.row, outputs), amongCopies, SAME_SHAPE);
    if (byNeighbours !== undefined || dependsOnPlace(one.row, copies, ran.outputs)) return differ(one);
  }
  if (2 * differing.length <= compared) return { status: 'agree' };
  const [first, ...others] = differing as readonly [DifferingRow, ...DifferingRow[]];
  // The same row again and again may be the one in a million that is between two labels.
  return others.every(({ part }) => areAlike(inputsOf(part), inputsOf(first.part)))
    ? { status: 'unclear' }
    : differ(first);
}

function differ({ part, difference }: DifferingRow): Verdict {
  return { status: 'differ', part, difference };
}

function inCopies(part: Part, { model, rows, paddedLength, closedBecause }: MicroBatch): MicroBatch {
  return { ...microBatchOf(model, new Array<Part>(rows).fill(part), closedBecause), paddedLength };
}

/** Whether copies of one row get other answers at most other places of a run. */
function dependsOnPlace(row: number, { rows }: MicroBatch, outputs: readonly Tensor[]): boolean {
  let compared = 0;
  let differing = 0;
  for (let other = 0; other < rows; other += Math.ceil(rows / MOST_PLACES)) {
    if (other === row) continue;
    compared += 1;
    const differs = outputs.some((output) =>
      isMoreThanRounding(differenceOf(output, row, output, other), output.datatype, SAME_SHAPE),
    );
    if (differs) differing += 1;
  }
  return 2 * differing > compared;
}
