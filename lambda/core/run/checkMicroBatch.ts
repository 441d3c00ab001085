import { type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import { unstack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { CheckAllowance } from './batchingWatch.ts';
import { differingRows, explainDifferences, type RowBothWays, type Verdict } from './compareRuns.ts';
import type { Invocation } from './invocation.ts';
import { rowAt } from './rows.ts';
import { type CheckRuns, createCheckRuns, expectedCheckMs } from './runForCheck.ts';
import type { Ran } from './runMicroBatch.ts';
import { stopBatching } from './stopBatching.ts';

/** Most rows of a micro-batch that are run alone as well. */
const MOST_ROWS = 8;

/**
 * Runs some rows of a micro-batch that has run alone as well, where that is due, and compares. The first micro-batch of
 * a model in this process is checked, and later ones as often as the model's share of run time allows.
 *
 * @returns whether the micro-batch may be answered with its outputs
 */
export async function mayBeAnswered(
  batch: MicroBatch,
  { outputs, runMs }: Ran,
  invocation: Invocation,
): Promise<boolean> {
  const { batching, observer } = invocation.deps;
  const { model, rows } = batch;
  if (rows === 1) return true;
  const allowance = batching.ran(model, rows, runMs);
  if (allowance !== undefined) {
    const checks = createCheckRuns(invocation);
    const verdict = await check(batch, outputs, allowance, checks, invocation);
    if (verdict.status === 'differ') stopBatching(verdict, invocation);
    if (checks.runs > 0) {
      batching.checked(model, allowance, checks.spentMs);
      observer.checked(checks.spentMs);
    }
    if (verdict.status === 'unclear') return false;
  }
  // Another micro-batch may have been found out in the meantime.
  return batching.batchingOf(model) === 'together';
}

async function check(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  allowance: CheckAllowance,
  checks: CheckRuns,
  invocation: Invocation,
): Promise<Verdict> {
  const rows = spreadFrom(allowance.row, batch);
  const bothWays: RowBothWays[] = [];
  const runNext = async (): Promise<boolean> => {
    const next = rows[bothWays.length];
    if (next === undefined) return false;
    const ran = await checks.run(next.alone);
    if (ran === undefined) return false;
    bothWays.push({ ...next, outputs: unstack(next.alone, next.part, 0, ran.outputs) });
    return true;
  };
  const isDue = (): boolean => {
    const next = rows[bothWays.length];
    if (next === undefined) return false;
    if (allowance.isFirst && bothWays.length === 0) return true;
    return checks.spentMs + expectedCheckMs(next.alone, invocation) <= allowance.checkMs;
  };
  while (isDue() && (await runNext()));
  if (differingRows(batch, outputs, bothWays).length === 0) return { status: 'agree' };
  // One row that differs may be rounding: the others say whether it is.
  while (await runNext());
  const differing = differingRows(batch, outputs, bothWays);
  return explainDifferences(batch, outputs, bothWays.length, differing, checks);
}

interface Row {
  readonly row: number;
  readonly part: Part;
  readonly alone: MicroBatch;
}

/** Some rows of a micro-batch at about equal distances, round from the one at `first`. */
function spreadFrom(first: number, batch: MicroBatch): Row[] {
  const { model, rows, closedBecause } = batch;
  const count = Math.min(MOST_ROWS, rows);
  const distance = Math.floor(rows / count);
  return Array.from({ length: count }, (_, index) => {
    const row = (first + index * distance) % rows;
    const part = rowAt(batch, row);
    return { row, part, alone: microBatchOf(model, [part], closedBecause) };
  });
}
