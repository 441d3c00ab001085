import { type Failure, failure, isFailure } from './failure.ts';
import type { MicroBatch, Part, RequestInput } from './microBatch.ts';
import { axisInModel, OutOfMemoryError, shapeInModel, type TensorSpec } from './model.ts';
import {
  allocate,
  allocateTogether,
  type Base64Data,
  copyInto,
  decodeInto,
  elementCount,
  elementsPerRow,
  isBase64Data,
  type Tensor,
  type TensorData,
  viewOf,
  withRows,
  withSize,
} from './tensor.ts';

/**
 * Stacks inputs into one tensor per model input, `[paddedRows, …]`: the rows of all parts, then padding. On a ragged
 * axis, each part is padded with the model's pad value. A padding row repeats the last real row, so that a model sees
 * only real rows.
 *
 * @throws OutOfMemoryError
 */
export function stack(batch: MicroBatch): Tensor[] {
  const { inputs, allocate: room = allocateTogether } = batch.model;
  const shapes = inputs.map((_, index) => {
    const ragged = batch.model.ragged?.inputs[index];
    const { shape } = inputOf(batch.parts[0], index);
    return ragged === undefined ? shape : withSize(shape, ragged.axis, batch.paddedLength);
  });
  const sizes = inputs.map(({ datatype }, index) => ({
    datatype,
    length: batch.paddedRows * elementsPerRow(shapes[index] as readonly number[]),
  }));
  const arrays = orOutOfMemory(() => room(sizes));
  return inputs.map(({ name, datatype }, index) => {
    const ragged = batch.model.ragged?.inputs[index];
    const [padded, data] = [shapes[index] as readonly number[], arrays[index] as TensorData];
    const rowElements = elementsPerRow(padded);
    if (ragged !== undefined) (data as unknown[]).fill(ragged.pad);
    let row = 0;
    for (const part of batch.parts) {
      const input = inputOf(part, index);
      const at = row * rowElements;
      if (ragged === undefined || input.shape[ragged.axis] === batch.paddedLength) {
        copyElements(data, at, input.data, part.fromRow * rowElements, part.toRow * rowElements);
      } else copyRagged(data, at, input, part, ragged.axis, batch.paddedLength);
      row += part.toRow - part.fromRow;
    }
    if (row < batch.paddedRows) {
      const last = viewOf(data, (row - 1) * rowElements, row * rowElements);
      for (; row < batch.paddedRows; row++) copyInto(data, row * rowElements, last);
    }
    return { name, datatype, shape: withRows(padded, batch.paddedRows), data };
  });
}

function orOutOfMemory<T>(allocateAll: () => T): T {
  try {
    return allocateAll();
  } catch (error) {
    throw error instanceof RangeError ? new OutOfMemoryError(error.message, { cause: error }) : error;
  }
}

function copyElements(
  target: TensorData,
  offset: number,
  source: TensorData | Base64Data,
  from: number,
  to: number,
): void {
  if (!isBase64Data(source)) copyInto(target, offset, viewOf(source, from, to));
  else if (!Array.isArray(target)) decodeInto(target, offset, source, from, to);
}

/** Copies the ragged axis and the axes within it at once, and leaves the padding after it. */
function copyRagged(
  target: TensorData,
  offset: number,
  { shape, data }: RequestInput,
  { fromRow, toRow }: Part,
  axis: number,
  paddedLength: number,
): void {
  const inner = elementCount(shape.slice(axis + 1));
  const stretch = (shape[axis] as number) * inner;
  const paddedStretch = paddedLength * inner;
  const stretchesPerRow = elementCount(shape.slice(1, axis));
  let at = offset;
  for (let index = fromRow * stretchesPerRow; index < toRow * stretchesPerRow; index++) {
    copyElements(target, at, data, index * stretch, (index + 1) * stretch);
    at += paddedStretch;
  }
}

function inputOf(part: Part | undefined, index: number): RequestInput {
  const input = part?.request.inputs[index];
  if (input === undefined) throw new Error(`expected every part of a micro-batch to have input ${index}`);
  return input;
}

/**
 * Checks that a run kept the batch axis and the ragged axis.
 *
 * @throws Error if an output is missing, or the size of its batch axis or ragged axis is wrong
 */
export function assertBatched(batch: MicroBatch, outputs: readonly Tensor[]): void {
  if (outputs.length !== batch.model.outputs.length) {
    throw new Error(`expected ${batch.model.outputs.length} outputs from the run, got ${outputs.length}`);
  }
  for (const [index, { name, shape }] of outputs.entries()) {
    const spec = batch.model.outputs[index] as TensorSpec;
    const got = () => `got shape [${shapeInModel(spec, shape).join(', ')}]`;
    if (shape[0] !== batch.paddedRows) {
      throw new Error(
        `output '${name}': expected ${batch.paddedRows} rows on axis ${spec.batchAxis ?? 0}, ${got()}; ` +
          'name the outputs that have rows as "outputs" in config.json, or the axis that they are as "batchAxis"',
      );
    }
    const cutAxis = batch.model.ragged?.outputs[index];
    if (cutAxis !== undefined && shape[cutAxis] !== batch.paddedLength) {
      throw new Error(
        `output '${name}': expected the size ${batch.paddedLength} of the ragged axis on axis ` +
          `${axisInModel(spec, cutAxis)}, ${got()}; fix "ragged" in config.json`,
      );
    }
  }
}

/**
 * Returns the outputs of `part`, whose rows start at `row` of the run, without padding. They are views of `outputs` if
 * the elements are contiguous, else copies.
 */
export function unstack(batch: MicroBatch, part: Part, row: number, outputs: readonly Tensor[]): Tensor[] {
  return outputs.map((output, index) => {
    const mine = rowsOf(output, row, row + part.toRow - part.fromRow);
    const cutAxis = batch.model.ragged?.outputs[index];
    return cutAxis === undefined ? mine : cutBack(mine, cutAxis, part.request.length);
  });
}

function rowsOf(tensor: Tensor, from: number, to: number): Tensor {
  const rowElements = elementsPerRow(tensor.shape);
  return {
    name: tensor.name,
    datatype: tensor.datatype,
    shape: withRows(tensor.shape, to - from),
    data: viewOf(tensor.data, from * rowElements, to * rowElements),
  };
}

function cutBack(tensor: Tensor, axis: number, length: number): Tensor {
  const paddedLength = tensor.shape[axis] as number;
  if (length === paddedLength) return tensor;
  const inner = elementCount(tensor.shape.slice(axis + 1));
  const stretches = elementCount(tensor.shape.slice(0, axis));
  const shape = withSize(tensor.shape, axis, length);
  if (stretches === 1) return { ...tensor, shape, data: viewOf(tensor.data, 0, length * inner) };
  const data = allocate(tensor.datatype, stretches * length * inner);
  for (let index = 0; index < stretches; index++) {
    const from = index * paddedLength * inner;
    copyInto(data, index * length * inner, viewOf(tensor.data, from, from + length * inner));
  }
  return { ...tensor, shape, data };
}

/** Joins the outputs of a request's parts, in row order. */
export function join(parts: readonly (readonly Tensor[])[]): readonly Tensor[] | Failure {
  const [first] = parts;
  if (first === undefined) throw new Error('expected at least one part to join');
  if (parts.length === 1) return first;
  const joined: Tensor[] = [];
  for (const [index, head] of first.entries()) {
    const tensor = concatenate(parts.map((part) => part[index] ?? head));
    if (isFailure(tensor)) return tensor;
    joined.push(tensor);
  }
  return joined;
}

function concatenate(parts: readonly Tensor[]): Tensor | Failure {
  const head = parts[0] as Tensor;
  const rowElements = elementsPerRow(head.shape);
  const odd = parts.find((part) => part.shape.slice(1).join() !== head.shape.slice(1).join());
  if (odd !== undefined) {
    return failure(
      'RUN_FAILED',
      `output '${head.name}': expected the same trailing shape from every run of a request that was split, got ` +
        `[${head.shape.join(', ')}] and [${odd.shape.join(', ')}]; send fewer rows in a request`,
    );
  }
  const rows = parts.reduce((sum, part) => sum + (part.shape[0] ?? 0), 0);
  const data = allocate(head.datatype, rows * rowElements);
  let offset = 0;
  for (const part of parts) {
    copyInto(data, offset, part.data);
    offset += part.data.length;
  }
  return { ...head, shape: withRows(head.shape, rows), data };
}
