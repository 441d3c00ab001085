import { firstDifference } from '../core/difference.ts';
import { messageOf } from '../core/failure.ts';
import { microBatchOf, type Part } from '../core/microBatch.ts';
import { type Model, ModelUnavailableError, OutOfMemoryError, RunOverdueError, type RunResult } from '../core/model.ts';
import { assertBatched, stack, unstack } from '../core/stack.ts';
import { elementsPerRow, type Tensor } from '../core/tensor.ts';

/** What runs of a model's rows have shown. */
export interface RowTrial {
  /** `agree`: each row was answered alone as among others; `differ`: one was not; `untried`: nothing could be told. */
  readonly outcome: 'agree' | 'differ' | 'untried';
  /** What was seen, or why nothing was. */
  readonly seen: string;
  /** Rows that were run alone and together. */
  readonly rows: number;
}

/** Few, a few and many: beyond a vector of any processor. */
const SIZES = [3, 8, 33];

/**
 * Tries whether rows are answered alone as among others. It is for models whose graph does not tell: what no row of the
 * trial brings out stays unseen.
 *
 * @param probes rows of one trailing shape
 * @throws ModelUnavailableError, RunOverdueError
 */
export async function tryRows(model: Model, probes: readonly Part[]): Promise<RowTrial> {
  const trial = (outcome: RowTrial['outcome'], seen: string): RowTrial => ({ outcome, seen, rows: probes.length });
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
    // A run that does not fit says nothing of its rows.
    if (error instanceof OutOfMemoryError) return undefined;
    return `it runs with one row, and not with ${parts.length}: ${messageOf(error)}`;
  }
}

/**
 * Compares runs of equal rows: of one and of several the answers are the same, unless a kernel of ONNX Runtime is
 * wrong.
 *
 * @param runs with zeros for their inputs
 * @returns what differs; undefined if nothing does
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
 * Runs parts of requests in one micro-batch, as real ones are: padded up to an allowed size, and cut back.
 *
 * @param lengthOfRun size that the ragged axis is padded to. @default as for real ones
 * @returns answers by place, one tensor per output of the model
 * @throws Error when the run fails or an output has no row for each row that was run
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

/** True if a run failed because there was no model to run it, or it was given up: that says nothing of the rows. */
export function isNotTheRuns(error: unknown): boolean {
  return error instanceof RunOverdueError || error instanceof ModelUnavailableError;
}
