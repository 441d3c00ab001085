import { decodeAll, isBase64Data } from '../../../lambda/core/base64.ts';
import type { Part } from '../../../lambda/core/microBatch.ts';
import type { RaggedAxis } from '../../../lambda/core/model.ts';
import type { RequestInput } from '../../../lambda/core/scoringRequest.ts';
import { allocate, elementCount, type TensorData } from '../../../lambda/core/tensor.ts';

import { asProbe } from '../../../lambda/onnx/probes.ts';

/** A row whose ragged axis has `length`: its first elements, or all of them again and again. */
export function withLength({ request, fromRow }: Part, ragged: RaggedAxis, length: number): Part {
  const inputs = request.inputs.map((input, index) => {
    const row = rowOf(input, fromRow);
    const axis = ragged.inputs[index]?.axis;
    return axis === undefined ? row : resized(row, axis, length);
  });
  return asProbe(request.model, inputs);
}

interface Row {
  readonly datatype: RequestInput['datatype'];
  readonly shape: readonly number[];
  readonly data: TensorData;
}

function rowOf({ datatype, shape, data }: RequestInput, row: number): Row {
  const rowShape = [1, ...shape.slice(1)];
  const count = elementCount(rowShape);
  const elements = isBase64Data(data) ? decodeAll(data, datatype, shape) : data;
  return { datatype, shape: rowShape, data: elements.slice(row * count, (row + 1) * count) };
}

function resized({ datatype, shape, data }: Row, axis: number, length: number): Row {
  const resizedShape = shape.with(axis, length);
  const inner = elementCount(shape.slice(axis + 1));
  const before = shape[axis] as number;
  const filled = allocate(datatype, elementCount(resizedShape));
  for (let index = 0; index < filled.length; index++) {
    const outer = Math.floor(index / (inner * length));
    const along = Math.floor(index / inner) % length;
    filled[index] = data[(outer * before + (along % before)) * inner + (index % inner)] as never;
  }
  return { datatype, shape: resizedShape, data: filled };
}
