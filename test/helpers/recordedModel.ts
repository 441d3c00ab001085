import type { Model, TensorSpec } from '../../lambda/core/model.ts';

export interface RecordedModel extends Model {
  /** The shapes of the inputs of every run. */
  readonly runs: number[][][];
  /** The elements of the inputs of every run. */
  readonly values: unknown[][];
}

/**
 * Gives its first input back, and remembers what it was run with.
 *
 * @param runsMs how long its runs take, one after the other; the last also for all that follow
 */
export function recordedModel(
  inputs: readonly TensorSpec[],
  limits: Partial<Pick<Model, 'maxBatchRows' | 'ladder' | 'ragged'>> = {},
  runsMs: readonly number[] = [100],
): RecordedModel {
  const runs: number[][][] = [];
  const values: unknown[][] = [];
  return {
    name: 'recorded',
    version: '1',
    inputs,
    outputs: inputs.slice(0, 1),
    maxBatchRows: 512,
    ladder: [],
    ...limits,
    runs,
    values,
    async run(tensors) {
      runs.push(tensors.map(({ shape }) => [...shape]));
      values.push(tensors.flatMap(({ data }) => Array.from<unknown>(data)));
      return { outputs: tensors.slice(0, 1), runMs: runsMs[runs.length - 1] ?? runsMs.at(-1) ?? 0 };
    },
  };
}

/** Fails the runs whose first input is of such a shape. */
export function failing(model: Model, isRefused: (shape: readonly number[]) => boolean): Model {
  return {
    ...model,
    async run(inputs) {
      const [shape] = inputs.map((input) => input.shape) as [readonly number[]];
      if (isRefused(shape)) throw new Error(`cannot run [${shape.join(', ')}]`);
      return model.run(inputs);
    },
  };
}
