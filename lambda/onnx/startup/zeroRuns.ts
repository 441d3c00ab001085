import { messageOf } from '../../core/contract/failure.ts';
import {
  axisInModel,
  type MeasuredRun,
  type Model,
  RunAbandonedError,
  type RunResult,
  SettingsMissingError,
  shapeInModel,
  type TensorSpec,
} from '../../core/contract/model.ts';
import { allocate } from '../../core/tensor/datatype.ts';
import { elementCount, type Tensor } from '../../core/tensor/tensor.ts';
import { type AxisSizes, elementsAt, shapesAt } from './axes.ts';

/** Runs of a model on zeros, and what they took. */
export interface ZeroRuns {
  /** Why the model does not run at so many rows; undefined where it does, at every rung of its ragged axis. */
  tryAt(rows: number, sizes: AxisSizes): Promise<string | undefined>;
  /** What they took: the faster of two where they are short, as the first run of a shape is slow. */
  readonly measured: readonly MeasuredRun[];
}

/** A run that takes less is measured again. */
const SHORT_RUN_MS = 50;

/**
 * @param onGpu whether the first run of a shape is slow however long it takes: then each is measured again
 * @param maxElements of the inputs: of several lengths only those that fit are run
 */
export function zeroRuns(model: Model, onGpu: boolean, maxElements = Number.POSITIVE_INFINITY): ZeroRuns {
  const measured: MeasuredRun[] = [];
  return {
    measured,
    async tryAt(rows, sizes) {
      for (const sizesOfRung of sizesOfRungs(model, sizes)) {
        if (elementsAt(model, rows, sizesOfRung) > maxElements) break;
        const first = await runOnZeros(model, rows, sizesOfRung);
        if (typeof first === 'string') return first;
        refuseUnbatched(model, first.outputs, rows);
        const isAgain = onGpu || first.runMs < SHORT_RUN_MS;
        const second = isAgain ? await runOnZeros(model, rows, sizesOfRung) : first;
        if (typeof second === 'string') return second;
        const length = model.ragged === undefined ? 1 : (sizesOfRung[model.ragged.name] ?? 1);
        measured.push({ rows, length, ms: Math.min(first.runMs, second.runMs) });
      }
      return undefined;
    },
  };
}

/** The sizes, once for every rung of the ragged axis. */
function sizesOfRungs({ ragged }: Model, sizes: AxisSizes): AxisSizes[] {
  if (ragged === undefined || ragged.ladder.length === 0) return [sizes];
  return ragged.ladder.map((length) => ({ ...sizes, [ragged.name]: length }));
}

function refuseUnbatched({ outputs: specs }: Model, outputs: readonly Tensor[], rows: number): void {
  for (const [index, { name, shape }] of outputs.entries()) {
    if (shape[0] === rows) continue;
    const spec = specs[index] as TensorSpec;
    throw new SettingsMissingError(
      `output '${name}': expected axis ${axisInModel(spec, 0)} to be the batch axis, ${rows} rows, got shape ` +
        `[${shapeInModel(spec, shape).join(', ')}]; name the outputs that have one as "outputs" in config.json, or the ` +
        `axis that it is as "batchAxis": {"${name}": …}`,
    );
  }
}

/** What the run gave, or why it failed. */
async function runOnZeros(model: Model, rows: number, sizes: AxisSizes): Promise<RunResult | string> {
  const inputs = shapesAt(model, rows, sizes, 1).map((shape, index): Tensor => {
    const { name, datatype } = model.inputs[index] as TensorSpec;
    return { name, datatype, shape, data: allocate(datatype, elementCount(shape)) };
  });
  try {
    return await model.run(inputs);
  } catch (error) {
    if (error instanceof RunAbandonedError) throw error;
    return messageOf(error);
  }
}
