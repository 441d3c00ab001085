import { isFailure } from '../contract/failure.ts';
import { type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import { unstack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { answerMicroBatch } from './answerMicroBatch.ts';
import type { Invocation } from './invocation.ts';
import { createProof } from './prove.ts';
import { rowsOf } from './rows.ts';
import { runMicroBatch } from './runMicroBatch.ts';
import { fitTime } from './timeLeft.ts';

/**
 * Runs each row of a micro-batch alone, for a model that may not be batched. Where the model may yet prove itself, rows are run together afterwards, to be compared.
 */
export async function scoreRowByRow(batch: MicroBatch, invocation: Invocation): Promise<void> {
  const proof = createProof(batch, invocation);
  for (const part of rowsOf(batch)) {
    if (invocation.ledger.isComplete(part.request.record)) continue;
    const outputs = await scoreRow(part, batch, invocation);
    if (outputs !== undefined) proof.add(part, outputs);
  }
  await proof.compare();
}

/** Answers one row, or says why it could not be run. Gives the outputs of the row, each `[1, …]`, cut back. */
async function scoreRow(
  part: Part,
  { model, closedBecause }: MicroBatch,
  invocation: Invocation,
): Promise<readonly Tensor[] | undefined> {
  const { ledger } = invocation;
  const alone = microBatchOf(model, [part], closedBecause);
  const fit = fitTime(alone, invocation);
  const ran = fit.fits ? await runMicroBatch(alone, fit.expectedMs, invocation) : fit.failure;
  if (isFailure(ran)) {
    const failed = ledger.recordFailure(part.request, ran);
    if (failed !== undefined) await invocation.write([failed]);
    return undefined;
  }
  await answerMicroBatch(alone, ran, invocation);
  return unstack(alone, part, 0, ran.outputs);
}
