import type { Model } from '../../../core/contract/model.ts';
import { microBatchOf, type Part } from '../../../core/plan/microBatch.ts';
import { assertBatched, stack, unstack } from '../../../core/stack/stack.ts';
import type { Tensor } from '../../../core/tensor/tensor.ts';

/** What each part was answered in a run, one tensor per output of the model, and how many rows were run. */
export interface TogetherRun {
  readonly answers: readonly (readonly Tensor[])[];
  readonly paddedRows: number;
}

/**
 * Runs parts of requests in one micro-batch, as real ones are: padded up to a rung, and cut back.
 *
 * @param lengthOfRun the size that the ragged axis is padded to. @default as for real ones
 * @throws Error when the run fails or an output has no row for each row that was run
 */
export async function runTogether(model: Model, parts: readonly Part[], lengthOfRun?: number): Promise<TogetherRun> {
  const planned = microBatchOf(model, parts, 'end');
  const batch = { ...planned, paddedLength: lengthOfRun ?? planned.paddedLength };
  const { outputs } = await model.run(stack(batch));
  assertBatched(batch, outputs);
  let row = 0;
  const answers = parts.map((part) => {
    const answer = unstack(batch, part, row, outputs);
    row += part.toRow - part.fromRow;
    return answer;
  });
  return { answers, paddedRows: batch.paddedRows };
}
