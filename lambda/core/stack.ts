import { allocate, type TensorData } from './datatype.ts';
import { type Failure, failure, isFailure } from './failure.ts';
import type { MicroBatch, Part } from './plan.ts';
import { type Base64Data, decodeInto, isBase64Data } from './rawData.ts';
import { copyInto, elementsPerRow, type Tensor, viewOf, withRows } from './tensor.ts';

/**
 * One tensor per model input, `[paddedRows, …]`: the parts' rows one after the other, then padding.
 * A padding row repeats the last real one, so that a model never sees values that nobody sent.
 */
export function stack(batch: MicroBatch): Tensor[] {
  return batch.model.inputs.map((spec, index) => {
    const trailing = inputOf(batch.parts[0], index).shape;
    const rowElements = elementsPerRow(trailing);
    const data = allocate(spec.datatype, batch.paddedRows * rowElements);
    let row = 0;
    for (const part of batch.parts) {
      copyPart(
        data,
        row * rowElements,
        inputOf(part, index).data,
        part.fromRow * rowElements,
        part.toRow * rowElements,
      );
      row += part.toRow - part.fromRow;
    }
    const last = viewOf(data, (batch.rows - 1) * rowElements, batch.rows * rowElements);
    for (; row < batch.paddedRows; row++) copyInto(data, row * rowElements, last);
    return { name: spec.name, datatype: spec.datatype, shape: withRows(trailing, batch.paddedRows), data };
  });
}

/** Elements `from` to `to` of a request's input, decoded in place where they still are base64. */
function copyPart(target: TensorData, offset: number, source: TensorData | Base64Data, from: number, to: number): void {
  if (!isBase64Data(source)) copyInto(target, offset, viewOf(source, from, to));
  else if (!Array.isArray(target)) decodeInto(target, offset, source, from, to);
}

function inputOf(part: Part | undefined, index: number) {
  const input = part?.request.inputs[index];
  if (input === undefined) throw new Error(`expected every part of a micro-batch to have input ${index}`);
  return input;
}

/**
 * The outputs of each part, aligned with `batch.parts`: views, not copies, of `outputs`, padding left out.
 *
 * @throws Error when an output is missing or its axis 0 is not the rows that were run
 */
export function unstack(batch: MicroBatch, outputs: readonly Tensor[]): Tensor[][] {
  assertBatched(batch, outputs);
  let row = 0;
  return batch.parts.map((part) => {
    const from = row;
    row += part.toRow - part.fromRow;
    return outputs.map((output) => rowsOf(output, from, row));
  });
}

function assertBatched(batch: MicroBatch, outputs: readonly Tensor[]): void {
  if (outputs.length !== batch.model.outputs.length) {
    throw new Error(`expected ${batch.model.outputs.length} outputs from the run, got ${outputs.length}`);
  }
  for (const output of outputs) {
    if (output.shape[0] !== batch.paddedRows) {
      throw new Error(
        `output '${output.name}': expected ${batch.paddedRows} rows on axis 0, got shape [${output.shape.join(', ')}]; ` +
          'export the model so that axis 0 of every output is the batch axis',
      );
    }
  }
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

/** The parts of one request's outputs, in row order, as one tensor per output again. */
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

function concatenate(pieces: readonly Tensor[]): Tensor | Failure {
  const head = pieces[0] as Tensor;
  const rowElements = elementsPerRow(head.shape);
  const odd = pieces.find((piece) => piece.shape.slice(1).join() !== head.shape.slice(1).join());
  if (odd !== undefined) {
    return failure(
      'RUN_FAILED',
      `output '${head.name}': expected the same trailing shape from every run of a request that was split, got ` +
        `[${head.shape.join(', ')}] and [${odd.shape.join(', ')}]; send fewer rows in a request`,
    );
  }
  const rows = pieces.reduce((sum, piece) => sum + (piece.shape[0] ?? 0), 0);
  const data = allocate(head.datatype, rows * rowElements);
  let offset = 0;
  for (const piece of pieces) {
    copyInto(data, offset, piece.data);
    offset += piece.data.length;
  }
  return { ...head, shape: withRows(head.shape, rows), data };
}
