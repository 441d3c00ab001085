import type { Model } from '../../lambda/core/model.ts';
import type { RequestInput } from '../../lambda/core/scoringRequest.ts';
import { DATATYPES } from '../../lambda/core/tensor.ts';

import { type AxisSizes, emptyPast, symbolicAxes } from '../../lambda/onnx/contract.ts';
import type { ModelConfig } from '../../lambda/onnx/modelConfig.ts';
import type { ModelGraph } from '../../lambda/onnx/modelFile.ts';
import { type Manner, makeUp, rowShapes } from '../../lambda/onnx/probes.ts';

const MANNERS: readonly Manner[] = ['unit', 'ones', 'small', 'zeros'];
/** Short ones first: they are to be read. */
const LENGTHS = [4, 8, 32, 128, 1];
const REQUESTS = 4;
/** Of floats that nobody measured. */
const DIGITS = 3;

/** Inputs of a few requests of one row each: what the model may take, the likeliest first. */
export function* madeUpInputs(
  model: Model,
  graph: ModelGraph,
  warmUp: ModelConfig['warmup'],
): Generator<readonly (readonly RequestInput[])[]> {
  const given = typeof warmUp === 'object' ? warmUp : {};
  const ragged = model.ragged?.name;
  const sizes = Object.fromEntries(Object.entries(given).filter(([axis]) => axis !== ragged));
  const isOpen = symbolicAxes(model).some((axis) => sizes[axis] === undefined);
  const most = model.ragged?.ladder.at(-1) ?? Number.POSITIVE_INFINITY;
  const lengths = isOpen ? LENGTHS.filter((length) => length <= most) : [1];
  const past = emptyPast(model);
  const choices: AxisSizes[] = past === undefined ? [sizes] : [sizes, { ...past, ...sizes }];
  for (const manner of MANNERS) {
    for (const length of lengths) {
      for (const choice of choices) {
        const rows = makeUp(
          model,
          rowShapes(model, choice, length),
          Array.from({ length: REQUESTS }, () => manner),
          graph,
        );
        yield rows.map(({ request }) => request.inputs.map(rounded));
      }
    }
  }
}

function rounded(input: RequestInput): RequestInput {
  const { datatype, data } = input;
  if (DATATYPES[datatype].kind !== 'float') return input;
  const floats = data as Float32Array;
  return { ...input, data: floats.map((value) => Number(value.toPrecision(DIGITS))) };
}
