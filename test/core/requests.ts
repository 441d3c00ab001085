import { allocate } from '../../lambda/core/datatype.ts';
import type { Model } from '../../lambda/core/model.ts';
import type { RequestInput, ScoringRequest } from '../../lambda/core/request.ts';
import { elementCount } from '../../lambda/core/tensor.ts';

/** A decoded request for `model` with these inputs, asking for all outputs. */
export function requestOf(model: Model, inputs: readonly RequestInput[], id?: string): ScoringRequest {
  const outputs = model.outputs.map((_, index) => index);
  return { id, model, rows: inputs[0]?.shape[0] ?? 0, inputs, outputs, reply: 'json' };
}

/** A decoded request of `rows` rows of zeros, its symbolic axes (all but the batch) of size `width`. */
export function zeros(model: Model, rows: number, width = 1): ScoringRequest {
  const inputs = model.inputs.map(({ datatype, shape }): RequestInput => {
    const sizes = [rows, ...shape.slice(1).map((dim) => (typeof dim === 'number' ? dim : width))];
    return { datatype, shape: sizes, data: allocate(datatype, elementCount(sizes)) };
  });
  return requestOf(model, inputs);
}
