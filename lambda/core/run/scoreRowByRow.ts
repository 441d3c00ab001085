import { isFailure } from '../contract/failure.ts';
import { type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import { unstack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { answerParts } from './answerParts.ts';
import type { Invocation } from './invocation.ts';
import { createProof } from './prove.ts';
import { reportOf, type StageTimes } from './report.ts';
import { rowsOf } from './rows.ts';
import { runMicroBatch } from './runMicroBatch.ts';
import { startStopwatch } from './stopwatch.ts';
import { fitTime } from './timeLeft.ts';
import { createWrites, type Writes } from './writeTogether.ts';

/** A row that was run alone. */
interface ScoredRow {
  readonly alone: MicroBatch;
  /** Of the row, each `[1, …]`, cut back. */
  readonly outputs: readonly Tensor[];
  readonly times: Omit<StageTimes, 'writeMs'>;
}

/**
 * Runs each row of a micro-batch alone, for a model that may not be batched. Results are written while later rows run,
 * as many together as have come. Where the model may yet prove itself, rows are run together afterwards, to be compared.
 */
export async function scoreRowByRow(batch: MicroBatch, invocation: Invocation): Promise<void> {
  const { ledger, deps } = invocation;
  const writes = createWrites(invocation);
  const proof = createProof(batch, invocation);
  const scored: Pick<ScoredRow, 'alone' | 'times'>[] = [];
  for (const part of rowsOf(batch)) {
    if (ledger.isComplete(part.request.record)) continue;
    const row = await scoreRow(part, batch, writes, invocation);
    if (row === undefined) continue;
    proof.add(part, row.outputs);
    scored.push({ alone: row.alone, times: row.times });
  }
  const writeMs = (await writes.drained()) / scored.length;
  for (const { alone, times } of scored) deps.observer.microBatch(reportOf(alone, { ...times, writeMs }));
  await proof.compare();
}

/** Answers one row, or says why it could not be run. */
async function scoreRow(
  part: Part,
  { model, closedBecause }: MicroBatch,
  writes: Writes,
  invocation: Invocation,
): Promise<ScoredRow | undefined> {
  const { ledger, deps } = invocation;
  const alone = microBatchOf(model, [part], closedBecause);
  const fit = fitTime(alone, invocation);
  const ran = fit.fits ? await runMicroBatch(alone, fit.expectedMs, invocation) : fit.failure;
  if (isFailure(ran)) {
    const failed = ledger.recordFailure(part.request, ran);
    if (failed !== undefined) await writes.add([failed]);
    return undefined;
  }
  const { outputs, stackMs, runMs } = ran;
  const stopwatch = startStopwatch(deps.now);
  let encodeMs = 0;
  for await (const pending of answerParts(alone, outputs, invocation)) {
    encodeMs += stopwatch.lap();
    await writes.add(pending);
    stopwatch.lap();
  }
  return { alone, outputs: unstack(alone, part, 0, outputs), times: { stackMs, runMs, encodeMs } };
}
