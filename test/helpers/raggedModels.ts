import { DataType, encodeModel, type GraphNode, type GraphValue } from '../../bench/workload/encodeModel.ts';

const X: GraphValue = { name: 'x', datatype: 'FP32', shape: ['batch', 'length'] };
const LENGTH_AXIS = { name: 'axis_1', dataType: DataType.INT64, dims: [1], int64Data: [1] };

/** Gives float32 `[batch, length]` back, and calls its second axis something else. */
export function renamedLengthModel(): Uint8Array {
  return encodeModel({
    inputs: [X],
    outputs: [{ ...X, name: 'y', shape: ['batch', 'time'] }],
    nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['y'] }],
  });
}

/** The length of float32 `[batch, length]` for each row: int64 `[batch]`. */
export function lengthModel(): Uint8Array {
  return encodeModel({
    inputs: [X],
    outputs: [{ name: 'y', datatype: 'INT64', shape: ['batch'] }],
    nodes: [
      { op: 'Shape', inputs: ['x'], outputs: ['length'], attributes: { start: 1, end: 2 } },
      { op: 'Shape', inputs: ['x'], outputs: ['rows'], attributes: { start: 0, end: 1 } },
      { op: 'Expand', inputs: ['length', 'rows'], outputs: ['y'] },
    ],
  });
}

/** The mean of each row of float32 `[batch, length]`, whose length must be a multiple of four. */
export function multipleOfFourMeanModel(): Uint8Array {
  return encodeModel({
    inputs: [X],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 1, 1] }],
    nodes: [
      { op: 'Reshape', inputs: ['x', 'fours'], outputs: ['folded'] },
      { op: 'ReduceMean', inputs: ['folded', 'axes'], outputs: ['y'] },
    ],
    constants: [
      { name: 'fours', dataType: DataType.INT64, dims: [3], int64Data: [0, -1, 4] },
      { name: 'axes', dataType: DataType.INT64, dims: [2], int64Data: [1, 2] },
    ],
  });
}

/** The largest of each row of float32 `[batch, length]` below 40, quantised dynamically before. */
export function quantisedInPlaceModel(): Uint8Array {
  const nodes: GraphNode[] = [
    { op: 'DynamicQuantizeLinear', inputs: ['x'], outputs: ['q', 'scale', 'zero'] },
    { op: 'DequantizeLinear', inputs: ['q', 'scale', 'zero'], outputs: ['rough'] },
    { op: 'Less', inputs: ['x', 'limit'], outputs: ['real'] },
    { op: 'Where', inputs: ['real', 'rough', 'least'], outputs: ['kept'] },
    { op: 'ReduceMax', inputs: ['kept', 'axis_1'], outputs: ['y'] },
  ];
  return encodeModel({
    inputs: [X],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 1] }],
    nodes,
    constants: [
      LENGTH_AXIS,
      { name: 'limit', dataType: DataType.FLOAT, dims: [], floatData: [40] },
      { name: 'least', dataType: DataType.FLOAT, dims: [], floatData: [-1000] },
    ],
  });
}

/** What an operator reduces each row of `x` `[batch, length]` to. */
export function reducingModel(op: 'ReduceMax' | 'ReduceMin', datatype: 'FP32' | 'INT64'): Uint8Array {
  return encodeModel({
    inputs: [{ ...X, datatype }],
    outputs: [{ name: 'y', datatype, shape: ['batch', 1] }],
    nodes: [{ op, inputs: ['x', 'axis_1'], outputs: ['y'] }],
    constants: [LENGTH_AXIS],
  });
}

/**
 * Attends to float32 `values` `[batch, length]` where float32 `mask` is 1, as exported transformers do: 10,000 times what
 * the mask is short of 1 is taken off before the softmax.
 */
export function additiveMaskModel(): Uint8Array {
  return encodeModel({
    inputs: ['values', 'mask'].map((name) => ({ ...X, name })),
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 1] }],
    nodes: [
      { op: 'Sub', inputs: ['one', 'mask'], outputs: ['missing'] },
      { op: 'Mul', inputs: ['missing', 'much'], outputs: ['penalty'] },
      { op: 'Sub', inputs: ['values', 'penalty'], outputs: ['scores'] },
      { op: 'Softmax', inputs: ['scores'], outputs: ['attention'], attributes: { axis: 1 } },
      { op: 'Mul', inputs: ['attention', 'values'], outputs: ['weighted'] },
      { op: 'ReduceSum', inputs: ['weighted', 'axis_1'], outputs: ['y'] },
    ],
    constants: [
      LENGTH_AXIS,
      { name: 'one', dataType: DataType.FLOAT, dims: [], floatData: [1] },
      { name: 'much', dataType: DataType.FLOAT, dims: [], floatData: [10_000] },
    ],
  });
}
