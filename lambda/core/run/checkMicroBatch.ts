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
  { outputs, runMs, card }: Ran,
  invocation: Invocation,
): Promise<boolean> {
  const { batching, observer } = invocation.deps;
  const { model, rows } = batch;
  if (rows === 1) return true;
  const allowance = batching.ran(model, rows, runMs);
  if (allowance !== undefined) {
    const checks = createCheckRuns(invocation, card);
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
  const bothWays: RowBothWays[] = [];
  let next = nthRow(0, allowance.row, batch);
  const runNext = async (): Promise<boolean> => {
    if (next === undefined) return false;
    const { row, part, alone } = next;
    const ran = await checks.run(alone);
    if (ran === undefined) return false;
    bothWays.push({ row, part, outputs: unstack(alone, part, 0, ran.outputs) });
    next = nthRow(bothWays.length, allowance.row, batch);
    return true;
  };
  const isDue = (): boolean => {
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

/** The rows to check are at about equal distances, round from the one at `first`; undefined where there are no more. */
function nthRow(index: number, first: number, batch: MicroBatch): Row | undefined {
  const { model, rows, closedBecause } = batch;
  const count = Math.min(MOST_ROWS, rows);
  if (index === count) return undefined;
  const row = (first + index * Math.floor(rows / count)) % rows;
  const part = rowAt(batch, row);
  return { row, part, alone: microBatchOf(model, [part], closedBecause) };
}
