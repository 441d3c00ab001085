import { type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { differingRows, explainDifferences, type RowBothWays, type Verdict } from './compareRuns.ts';
import type { Invocation } from './invocation.ts';
import { areAlike, inputsOf } from './rows.ts';
import { type CheckRuns, createCheckRuns } from './runForCheck.ts';
import { stopBatching } from './stopBatching.ts';

/** Most rows that are run together to be compared. */
const MOST_ROWS = 64;

/** Whether the rows of a micro-batch, which were all run alone, get the same outputs together. */
export interface Proof {
  /** @param outputs of the row alone, each `[1, …]`, cut back */
  add(part: Part, outputs: readonly Tensor[]): void;
  /** Runs the rows that were added together, and compares; nothing of it is written. */
  compare(): Promise<void>;
}

/** A model of which nothing is known is proved by rows that differ from each other; for any other this does nothing. */
export function createProof({ model, closedBecause }: MicroBatch, invocation: Invocation): Proof {
  const { batching, observer } = invocation.deps;
  const rows: RowBothWays[] = [];
  const inputsOfRows: Tensor[][] = [];
  const isProving = (): boolean => batching.batchingOf(model) === 'proving';
  return {
    add(part, outputs) {
      if (rows.length === MOST_ROWS || !isProving()) return;
      const inputs = inputsOf(part);
      if (inputsOfRows.some((known) => areAlike(known, inputs))) return;
      inputsOfRows.push(inputs);
      rows.push({ part, outputs, row: rows.length });
    },
    async compare() {
      if (rows.length < 2 || !isProving()) return;
      const together = microBatchOf(
        model,
        rows.map(({ part }) => part),
        closedBecause,
      );
      const checks = createCheckRuns(invocation);
      const verdict = await compareTogether(together, rows, checks);
      if (verdict.status === 'differ') stopBatching(verdict, invocation);
      else if (checks.runs > 0) batching.proved(model, verdict.status === 'agree' ? rows.length : 0);
      if (checks.runs > 0) observer.checked(checks.spentMs);
    },
  };
}

async function compareTogether(
  together: MicroBatch,
  rows: readonly RowBothWays[],
  checks: CheckRuns,
): Promise<Verdict> {
  const ran = await checks.run(together);
  if (ran === undefined) return { status: 'unclear' };
  const differing = differingRows(together, ran.outputs, rows);
  if (differing.length === 0) return { status: 'agree' };
  return explainDifferences(together, ran.outputs, rows.length, differing, checks);
}
