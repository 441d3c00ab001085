import type { Model } from '../../../../lambda/core/model.ts';
import type { Datatype, Tensor } from '../../../../lambda/core/tensor.ts';
import { type InMemoryModelOptions, inMemoryModel } from '../../../helpers/scoring.ts';

export interface WatchedModelOptions extends InMemoryModelOptions {
  readonly sharing: 'compared' | 'trusted' | 'never';
}

/** `y` of row `row` (of `datatype`, `[batch, 1]`), from all the values of a run: float32 `x`, `[batch, 1]`. */
export type OfRow = (values: readonly number[], row: number) => number;

/** Remembers the values of each of its runs. */
export interface RecordedModel {
  readonly model: Model;
  readonly runs: readonly (readonly number[])[];
}

export function rowModel(ofRow: OfRow, options: WatchedModelOptions, datatype: Datatype = 'FP32'): RecordedModel {
  const runs: number[][] = [];
  const contract = {
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 1] }],
    outputs: [{ name: 'y', datatype, shape: ['batch', 1] }],
  } as const;
  const compute = ([x]: readonly Tensor[]): Tensor[] => {
    const { shape, data } = x as Tensor;
    const values = Array.from(data as Float32Array);
    runs.push(values);
    const scores = values.map((_, row) => ofRow(values, row));
    const array = datatype === 'INT64' ? BigInt64Array.from(scores.map(BigInt)) : Float32Array.from(scores);
    return [{ name: 'y', datatype, shape, data: array }];
  };
  return { model: inMemoryModel(contract, compute, options), runs };
}

/** `2x + 1`, whatever is beside it. */
export const LINE: OfRow = (values, row) => 2 * (values[row] as number) + 1;

/** The share of a row in the largest value of its run: 1 where it is alone. */
export const SHARE_OF_LARGEST: OfRow = (values, row) => (values[row] as number) / Math.max(...values);

/** `2x + 1`, unless a value beyond 1,000 is in the run with it. */
export const DISTURBED_BY_LARGE: OfRow = (values, row) =>
  values.some((value) => value > 1000) && values.length > 1 ? 0 : LINE(values, row);
