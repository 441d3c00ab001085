import { type Constant, DataType, encodeModel } from '../../bench/workload/encodeModel.ts';

/** Gives back int32 `[batch, 3]`. With 8 rows or more it divides the least int32 by -1, at which x86 ends the process. */
export function trappingModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'INT32', shape: ['batch', 3] }],
    outputs: [{ name: 'y', datatype: 'INT32', shape: ['batch', 3] }],
    nodes: [
      { op: 'Shape', inputs: ['x'], outputs: ['shape'], attributes: { start: 0, end: 1 } },
      { op: 'Cast', inputs: ['shape'], outputs: ['rows'], attributes: { to: DataType.INT32 } },
      // 1 up to 7 rows, -1 from 8 on: 15 less twice the rows, cut to that.
      { op: 'Sub', inputs: ['fifteen', 'rows'], outputs: ['less'] },
      { op: 'Sub', inputs: ['less', 'rows'], outputs: ['least_twice'] },
      { op: 'Max', inputs: ['least_twice', 'minus_one'], outputs: ['from_below'] },
      { op: 'Min', inputs: ['from_below', 'one'], outputs: ['divisor'] },
      { op: 'Div', inputs: ['least', 'divisor'], outputs: ['quotient'] },
      { op: 'Mul', inputs: ['quotient', 'zero'], outputs: ['nothing'] },
      { op: 'Add', inputs: ['x', 'nothing'], outputs: ['y'] },
    ],
    constants: [
      scalar('fifteen', 15),
      scalar('minus_one', -1),
      scalar('one', 1),
      scalar('zero', 0),
      scalar('least', -(2 ** 31)),
    ],
  });
}

/** Gives back float32 `[batch, 3]`; the run fails with 8 rows or more. */
export function failingModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 3] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 3] }],
    nodes: [
      { op: 'Shape', inputs: ['x'], outputs: ['rows'], attributes: { start: 0, end: 1 } },
      { op: 'Gather', inputs: ['table', 'rows'], outputs: ['nothing'] },
      { op: 'Add', inputs: ['x', 'nothing'], outputs: ['y'] },
    ],
    constants: [{ name: 'table', dataType: DataType.FLOAT, dims: [8], floatData: new Array(8).fill(0) }],
  });
}

/** Looks `ids` (int64 `[batch, 2]`) up in a table that has those from 4,901 to 5,099 alone. */
export function farIdsModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'ids', datatype: 'INT64', shape: ['batch', 2] }],
    outputs: [{ name: 'value', datatype: 'FP32', shape: ['batch', 2] }],
    nodes: [
      { op: 'Sub', inputs: ['ids', 'offset'], outputs: ['places'] },
      { op: 'Abs', inputs: ['places'], outputs: ['distances'] },
      { op: 'Gather', inputs: ['table', 'distances'], outputs: ['value'] },
    ],
    constants: [
      { name: 'offset', dataType: DataType.INT64, dims: [1], int64Data: [5_000] },
      { name: 'table', dataType: DataType.FLOAT, dims: [100], floatData: Array.from({ length: 100 }, (_, id) => id) },
    ],
  });
}

/** Gives back float32 `[batch, 3]`, after a product of two square matrices with 128 rows for each that it is given. */
export function slowerTogetherModel(): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 3] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 3] }],
    nodes: [
      { op: 'Shape', inputs: ['x'], outputs: ['rows'], attributes: { start: 0, end: 1 } },
      { op: 'Mul', inputs: ['rows', 'each'], outputs: ['side'] },
      { op: 'Concat', inputs: ['side', 'side'], outputs: ['square'], attributes: { axis: 0 } },
      { op: 'ConstantOfShape', inputs: ['square'], outputs: ['zeros'] },
      { op: 'MatMul', inputs: ['zeros', 'zeros'], outputs: ['product'] },
      { op: 'ReduceMax', inputs: ['product'], outputs: ['nothing'], attributes: { keepdims: 0 } },
      { op: 'Add', inputs: ['x', 'nothing'], outputs: ['y'] },
    ],
    constants: [{ name: 'each', dataType: DataType.INT64, dims: [1], int64Data: [128] }],
  });
}

function scalar(name: string, value: number): Constant {
  return { name, dataType: DataType.INT32, dims: [1], int32Data: [value] };
}
