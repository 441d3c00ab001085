import type { MicroBatch, RequestInput, ScoringRequest } from '../../../lambda/core/microBatch.ts';
import type { Cost, Model } from '../../../lambda/core/model.ts';
import { plan } from '../../../lambda/core/plan.ts';
import { allocate, elementCount } from '../../../lambda/core/tensor.ts';

/** A decoded request for `model` with these inputs, asking for all outputs. */
export function requestOf(model: Model, inputs: readonly RequestInput[], id?: string): ScoringRequest {
  const outputs = model.outputs.map((_, index) => index);
  const index = model.ragged?.inputs.findIndex((input) => input !== undefined) ?? 0;
  const length = inputs[index]?.shape[model.ragged?.inputs[index]?.axis ?? -1] ?? 1;
  const place = { bodyIndex: 0, position: 0 };
  return { ...place, id, model, rows: inputs[0]?.shape[0] ?? 0, length, inputs, outputs, reply: 'json' };
}

/** A decoded request of `rows` rows of zeros, its symbolic axes (all but the batch) of size `width`. */
export function zeros(model: Model, rows: number, width = 1): ScoringRequest {
  const inputs = model.inputs.map(({ datatype, shape }): RequestInput => {
    const sizes = [rows, ...shape.slice(1).map((dim) => (typeof dim === 'number' ? dim : width))];
    return { datatype, shape: sizes, data: allocate(datatype, elementCount(sizes)) };
  });
  return requestOf(model, inputs);
}

/** Every micro-batch of a plan for these requests. */
export function planAll(
  requests: readonly ScoringRequest[],
  { maxBatchElements, cost }: { readonly maxBatchElements: number; readonly cost?: Cost | undefined },
): MicroBatch[] {
  const planned = plan(
    () => maxBatchElements,
    () => cost,
  );
  const closed = requests.flatMap((request) => planned.add(request));
  return [...closed, ...planned.finish()];
}
