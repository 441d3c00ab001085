import { microBatchOf, type Part } from '../../core/microBatch.ts';
import { type Model, ModelUnavailableError, RunAbandonedError } from '../../core/model.ts';
import { assertBatched, stack, unstack } from '../../core/stack.ts';
import type { Tensor } from '../../core/tensor.ts';

/** What the parts were answered in a run, one tensor per output of the model, and how many rows were run. */
export interface TogetherRun {
  /** By place; of many parts only some are looked at. */
  readonly answers: ReadonlyMap<number, readonly Tensor[]>;
  readonly paddedRows: number;
}

/** Of the inputs of one run: as many float32 take 4 MiB. */
export const MANY_ELEMENTS = 1_048_576;

const MANY_PARTS = 32;

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
  const distance = parts.length > MANY_PARTS ? Math.ceil(parts.length / MANY_PARTS) : 1;
  const answers = new Map<number, readonly Tensor[]>();
  let row = 0;
  for (const [place, part] of parts.entries()) {
    if (place % distance === 0 || place === parts.length - 1) answers.set(place, unstack(batch, part, row, outputs));
    row += part.toRow - part.fromRow;
  }
  return { answers, paddedRows: batch.paddedRows };
}

/** Whether a run failed because there was no model to run it, or it was given up: that says nothing of the rows. */
export function isNotTheRuns(error: unknown): boolean {
  return error instanceof RunAbandonedError || error instanceof ModelUnavailableError;
}
