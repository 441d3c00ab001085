import { firstDifference } from '../core/difference.ts';
import { messageOf } from '../core/failure.ts';
import { microBatchOf, type Part } from '../core/microBatch.ts';
import { type Model, ModelUnavailableError, OutOfMemoryError, RunOverdueError, type RunResult } from '../core/model.ts';
import { assertBatched, stack, unstack } from '../core/stack.ts';
import { elementsPerRow, type Tensor } from '../core/tensor.ts';

export interface RowTrial {
  /** `agree`: each row's answer in a batch equals its answer alone; `differ`: one does not; `untried`: no result. */
  readonly outcome: 'agree' | 'differ' | 'untried';
  /** Observation, or the reason why there is none. */
  readonly seen: string;
}

/** Batch sizes: small ones, and one that exceeds the vectors of any processor. */
const SIZES = [3, 8, 33];

/**
 * Compares answers of rows in batches with answers alone, for models whose graph does not tell. A dependence that no
 * probe triggers is not found.
 *
 * @param probes rows of one trailing shape
 * @throws ModelUnavailableError, RunOverdueError
 */
export async function tryRows(model: Model, probes: readonly Part[]): Promise<RowTrial> {
  const trial = (outcome: RowTrial['outcome'], seen: string): RowTrial => ({ outcome, seen });
  const sizes = (model.allowedSizes.length > 0 ? model.allowedSizes : SIZES).filter(
    (size) => size > 1 && size <= model.maxBatchRows,
  );
  if (probes.length === 0) return trial('untried', 'there is nothing to run it with');
  const alone: (readonly Tensor[])[] = [];
  try {
    for (const probe of probes) alone.push((await runTogether(model, [probe])).get(0) as readonly Tensor[]);
  } catch (error) {
    if (isNotTheRuns(error)) throw error;
    return trial('untried', messageOf(error));
  }
  const [first, ...others] = alone as [readonly Tensor[], ...(readonly Tensor[])[]];
  if (others.every((one) => firstDifference(one, first, model.isCoarse) === undefined)) {
    return trial('untried', `${probes.length} rows were answered alike, so that mixing them would not show`);
  }
  for (const size of sizes) {
    for (const order of [probes, probes.toReversed()]) {
      const parts = Array.from({ length: size }, (_, index) => order[index % order.length] as Part);
      const found = await compare(model, parts, (part) => alone[probes.indexOf(part)] as readonly Tensor[]);
      if (found !== undefined) return trial('differ', found);
    }
  }
  return trial('agree', `${probes.length} rows were answered alone as in runs of ${sizes.join(', ')}`);
}

async function compare(
  model: Model,
  parts: readonly Part[],
  aloneOf: (part: Part) => readonly Tensor[],
): Promise<string | undefined> {
  try {
    for (const [place, answer] of await runTogether(model, parts)) {
      const difference = firstDifference(aloneOf(parts[place] as Part), answer, model.isCoarse);
      if (difference !== undefined)
        return `alone and among ${parts.length} rows, output '${difference.output}' has ${difference.detail}`;
    }
    return undefined;
  } catch (error) {
    if (isNotTheRuns(error)) throw error;
    // A run that does not fit into memory tells nothing about rows.
    if (error instanceof OutOfMemoryError) return undefined;
    return `it runs with one row, and not with ${parts.length}: ${messageOf(error)}`;
  }
}

/**
 * Compares runs of one and of several equal rows. The answers are equal unless a kernel of ONNX Runtime is wrong.
 *
 * @param runs with zeros as inputs
 * @returns the difference, or undefined if there is none
 */
export function differenceByRows(runs: readonly RunResult[], isCoarse: boolean | undefined): string | undefined {
  const rowsOf = ({ outputs }: RunResult): number => outputs[0]?.shape[0] ?? 0;
  const rowAt = ({ outputs }: RunResult, row: number): Tensor[] =>
    outputs.map((output) => {
      const width = elementsPerRow(output.shape);
      const data = output.data.slice(row * width, (row + 1) * width);
      return { ...output, shape: [1, ...output.shape.slice(1)], data };
    });
  const [first] = runs;
  if (first === undefined) return undefined;
  for (const run of runs.filter((other) => rowsOf(other) > rowsOf(first))) {
    const difference = firstDifference(rowAt(first, 0), rowAt(run, rowsOf(run) - 1), isCoarse);
    if (difference === undefined || difference.axis !== undefined) continue;
    return `in runs of ${rowsOf(first)} and ${rowsOf(run)} rows of zeros, output '${difference.output}' has ${difference.detail}`;
  }
  return undefined;
}

/**
 * Runs parts of requests in one micro-batch like real ones: padded to an allowed size, and cut back.
 *
 * @param lengthOfRun padded size of the ragged axis. @default as for real requests
 * @returns answers by place, one tensor per output of the model
 * @throws Error if the run fails or an output lacks rows
 */
export async function runTogether(
  model: Model,
  parts: readonly Part[],
  lengthOfRun?: number,
): Promise<ReadonlyMap<number, readonly Tensor[]>> {
  const planned = microBatchOf(model, parts, 'end');
  const batch = { ...planned, paddedLength: lengthOfRun ?? planned.paddedLength };
  const { outputs } = await model.run(stack(batch));
  assertBatched(batch, outputs);
  const answers = new Map<number, readonly Tensor[]>();
  let row = 0;
  for (const [place, part] of parts.entries()) {
    answers.set(place, unstack(batch, part, row, outputs));
    row += part.toRow - part.fromRow;
  }
  return answers;
}

/** Returns true if a run failed because the model is unavailable or the run was given up. */
export function isNotTheRuns(error: unknown): boolean {
  return error instanceof RunOverdueError || error instanceof ModelUnavailableError;
}
