import {
  type Axis,
  type Constant,
  DataLocation,
  DataType,
  encodeModel,
  type Graph,
  type GraphValue,
  tensorType,
} from '../../bench/workload/encodeModel.ts';
import type { Datatype } from '../../lambda/core/tensor.ts';

/** ONNX element types that no datatype stands for. @see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto */
export const ELEMENT_TYPE = { bfloat16: 16, int4: 22 } as const;

/**
 * `y` is `x`: the bytes of a model, as every function here gives them.
 *
 * ```ts
 * const directory = await modelsDirectory({ 'same/1/model.onnx': identityModel('FP32', ['batch', 3]) });
 * ```
 */
export function identityModel(datatype: Datatype | number = 'FP32', shape: readonly Axis[] = ['batch', 3]): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype, shape }],
    outputs: [{ name: 'y', datatype, shape }],
    nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }],
  });
}

/** Adds three numbers, which lie in another file, to float32 `[batch, 3]`. */
export function modelWithWeightsIn(location: string, bytes = 12): Uint8Array {
  return encodeModel({ ...ADDITION, constants: [weightsIn(location, bytes)] });
}

/** The same within the branches of a condition that holds. */
export function branchWithWeightsIn(location: string): Uint8Array {
  const branch = (): Graph => ({
    inputs: [],
    outputs: [{ name: 'z', datatype: 'FP32', shape: ['batch', 3] }],
    nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['z'] }],
    constants: [weightsIn(location, 12)],
  });
  return encodeModel({
    ...ADDITION,
    nodes: [
      { op: 'If', inputs: ['yes'], outputs: ['y'], attributes: { then_branch: branch(), else_branch: branch() } },
    ],
    constants: [{ name: 'yes', dataType: DataType.BOOL, dims: [], int32Data: [1] }],
  });
}

const ADDITION: Graph = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 3] }],
  outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 3] }],
  nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }],
};

/** @see https://github.com/onnx/onnx/blob/main/docs/ExternalData.md */
function weightsIn(location: string, bytes: number): Constant {
  const entries = Object.entries({ location, offset: '0', length: String(bytes) });
  const externalData = entries.map(([key, value]) => ({ key, value }));
  return { name: 'w', dataType: DataType.FLOAT, dims: [3], dataLocation: DataLocation.EXTERNAL, externalData };
}

/** `sum` is `a + b`, `difference` is `a - b`: float32, axis 0 of `a` and `b` as given, 2 columns. */
export function sumAndDifferenceModel(rowsOfA: Axis = 'batch', rowsOfB: Axis = 'batch'): Uint8Array {
  return encodeModel({
    inputs: [
      { name: 'a', datatype: 'FP32', shape: [rowsOfA, 2] },
      { name: 'b', datatype: 'FP32', shape: [rowsOfB, 2] },
    ],
    outputs: [
      { name: 'sum', datatype: 'FP32', shape: [rowsOfA, 2] },
      { name: 'difference', datatype: 'FP32', shape: [rowsOfA, 2] },
    ],
    nodes: [
      { op: 'Add', inputs: ['a', 'b'], outputs: ['sum'] },
      { op: 'Sub', inputs: ['a', 'b'], outputs: ['difference'] },
    ],
  });
}

/** Calls its batch axis dynamic, and reshapes to one row inside. float32 `[batch, 3]` in and out. */
export function oneRowOnlyModel(): Uint8Array {
  return rowsOnlyModel(1);
}

/** Calls its batch axis dynamic, and reshapes to so many rows inside. float32 `[batch, 3]` in and out. */
export function rowsOnlyModel(rows: number): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 3] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 3] }],
    nodes: [{ op: 'Reshape', inputs: ['x', 'shape'], outputs: ['y'] }],
    constants: [{ name: 'shape', dataType: DataType.INT64, dims: [2], int64Data: [rows, 3] }],
  });
}

/** Multiplies float32 `[batch, 3]` by a `factor` that has no axis at all. */
export function scalarInputModel(): Uint8Array {
  return encodeModel({
    inputs: [
      { name: 'x', datatype: 'FP32', shape: ['batch', 3] },
      { name: 'factor', datatype: 'FP32', shape: [] },
    ],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 3] }],
    nodes: [{ op: 'Mul', inputs: ['x', 'factor'], outputs: ['y'] }],
  });
}

/** The mean over everything, rows included: float32 `[batch, 3]` in, `[1, 1]` out, whatever the batch. */
export function meanOverBatchModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 3] }],
    outputs: [{ name: 'mean', datatype: 'FP32', shape: [1, 1] }],
    nodes: [{ op: 'ReduceMean', inputs: ['x'], outputs: ['mean'], attributes: { keepdims: 1 } }],
  });
}

/** Looks `index` (int64 `[batch]`) up in a table of three; the run fails for an index outside of -3..2. */
export function lookupModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'index', datatype: 'INT64', shape: ['batch'] }],
    outputs: [{ name: 'value', datatype: 'FP32', shape: ['batch'] }],
    nodes: [{ op: 'Gather', inputs: ['table', 'index'], outputs: ['value'] }],
    constants: [{ name: 'table', dataType: DataType.FLOAT, dims: [3], floatData: [10, 20, 30] }],
  });
}

/** Splits float32 `[batch, length]` into as many equal parts as it can: fails unless `length` is a multiple of 4. */
export function multipleOfFourModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 'length'] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 'quarter', 4] }],
    nodes: [{ op: 'Reshape', inputs: ['x', 'fours'], outputs: ['y'] }],
    constants: [{ name: 'fours', dataType: DataType.INT64, dims: [3], int64Data: [0, -1, 4] }],
  });
}

/** `depth` multiplications one after the other by the same `width` by `width` matrix: float32 `[batch, width]`. */
export function slowModel(depth: number, width: number): Uint8Array {
  const weights = new Float32Array(width * width).fill(1 / width);
  const names = ['x', ...Array.from({ length: depth - 1 }, (_, layer) => `hidden_${layer}`), 'y'];
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', width] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', width] }],
    nodes: Array.from({ length: depth }, (_, layer) => ({
      op: 'MatMul',
      inputs: [names[layer] as string, 'weights'],
      outputs: [names[layer + 1] as string],
    })),
    constants: [
      { name: 'weights', dataType: DataType.FLOAT, dims: [width, width], rawData: new Uint8Array(weights.buffer) },
    ],
  });
}

/** Gives a sequence of tensors instead of a tensor. */
export function sequenceModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 3] }],
    outputs: [{ name: 'pieces', type: { sequenceType: { elemType: tensorType({ datatype: 'FP32', shape: [] }) } } }],
    nodes: [{ op: 'SequenceConstruct', inputs: ['x'], outputs: ['pieces'] }],
  });
}

/** Whole for the check of its file, and yet no model that ONNX Runtime can load. */
export function unloadableModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 3] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 3] }],
    nodes: [{ op: 'NoSuchOperator', inputs: ['x'], outputs: ['y'] }],
  });
}

/**
 * `mean` of float32 `values` over `length` where `mask` is not 0 (float32 `[batch, 1]`), and `doubled`, twice each
 * value (float32 `[batch, length]`). Padding changes neither.
 */
export function maskedMeanModel(): Uint8Array {
  const matrix = ['batch', 'length'];
  return encodeModel({
    inputs: [
      { name: 'values', datatype: 'FP32', shape: matrix },
      { name: 'mask', datatype: 'FP32', shape: matrix },
    ],
    outputs: [
      { name: 'mean', datatype: 'FP32', shape: ['batch', 1] },
      { name: 'doubled', datatype: 'FP32', shape: matrix },
    ],
    nodes: [
      { op: 'Mul', inputs: ['values', 'mask'], outputs: ['masked'] },
      { op: 'ReduceSum', inputs: ['masked', 'axis_1'], outputs: ['sum'], attributes: { keepdims: 1 } },
      { op: 'ReduceSum', inputs: ['mask', 'axis_1'], outputs: ['count'], attributes: { keepdims: 1 } },
      { op: 'Div', inputs: ['sum', 'count'], outputs: ['mean'] },
      { op: 'Add', inputs: ['values', 'values'], outputs: ['doubled'] },
    ],
    constants: [AXIS_1],
  });
}

/** The mean of float32 `values` over `length`, padding included: float32 `[batch, 1]`. */
export function plainMeanModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'values', datatype: 'FP32', shape: ['batch', 'length'] }],
    outputs: [{ name: 'mean', datatype: 'FP32', shape: ['batch', 1] }],
    nodes: [{ op: 'ReduceMean', inputs: ['values', 'axis_1'], outputs: ['mean'], attributes: { keepdims: 1 } }],
    constants: [AXIS_1],
  });
}

const AXIS_1 = { name: 'axis_1', dataType: DataType.INT64, dims: [1], int64Data: [1] };

/** Asks for a pebibyte, more than a process can address: the run fails at the allocation. float32 `[batch, 1]` in. */
export function endlessModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 1] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 'height', 'width'] }],
    nodes: [{ op: 'Expand', inputs: ['x', 'size'], outputs: ['y'] }],
    constants: [{ name: 'size', dataType: DataType.INT64, dims: [3], int64Data: [1, 2 ** 24, 2 ** 24] }],
  });
}

/** Reshapes float32 `[batch, 3]` to `size` (int64 `[batch]`); the run of a row fails unless its `size` is 3. */
export function reshapeModel(): Uint8Array {
  return encodeModel({
    inputs: [
      { name: 'x', datatype: 'FP32', shape: ['batch', 3] },
      { name: 'size', datatype: 'INT64', shape: ['batch'] },
    ],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch'] }],
    nodes: [{ op: 'Reshape', inputs: ['x', 'size'], outputs: ['y'] }],
  });
}

/** Goes round as often as the largest of `turns` says (int64 `[batch]`), about a million times a second; gives `turns`. */
export function turningModel(): Uint8Array {
  const turns = { datatype: 'INT64', shape: ['batch'] } as const;
  const scalar = { datatype: 'INT64', shape: [] } as const;
  return encodeModel({
    inputs: [{ name: 'turns', ...turns }],
    outputs: [{ name: 'turned', ...turns }],
    nodes: [
      { op: 'ReduceMax', inputs: ['turns'], outputs: ['most'], attributes: { keepdims: 0 } },
      { op: 'Loop', inputs: ['most', '', 'zero'], outputs: ['count'], attributes: { body: countingBody(scalar) } },
      { op: 'Mul', inputs: ['count', 'zero'], outputs: ['nothing'] },
      { op: 'Add', inputs: ['turns', 'nothing'], outputs: ['turned'] },
    ],
    constants: [{ name: 'zero', dataType: DataType.INT64, dims: [], int64Data: [0] }],
  });
}

/** The body of a loop that counts its turns. */
function countingBody(scalar: Omit<GraphValue, 'name'>): Graph {
  const goesOn = { datatype: 'BOOL', shape: [] } as const;
  return {
    inputs: [
      { name: 'turn', ...scalar },
      { name: 'goes_on', ...goesOn },
      { name: 'before', ...scalar },
    ],
    outputs: [
      { name: 'still_goes_on', ...goesOn },
      { name: 'after', ...scalar },
    ],
    nodes: [
      { op: 'Identity', inputs: ['goes_on'], outputs: ['still_goes_on'] },
      { op: 'Add', inputs: ['before', 'one'], outputs: ['after'] },
    ],
    constants: [{ name: 'one', dataType: DataType.INT64, dims: [], int64Data: [1] }],
  };
}
