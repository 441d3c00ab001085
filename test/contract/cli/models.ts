import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DataType, encodeModel } from '../../../bench/workload/encodeModel.ts';

/** Puts a model where a repository in `folder` has it. @returns the model's folder */
export async function putModel(folder: string, name: string, model: Uint8Array): Promise<string> {
  const file = join(folder, name, '1', 'model.onnx');
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, model);
  return join(folder, name);
}

/** Asks for room for as many float32 as the most of `room` says (int64 `[batch, 1]`); `y` is `x` (float32). */
export function hungryModel(): Uint8Array {
  const column = { datatype: 'FP32', shape: ['batch', 1] } as const;
  return encodeModel({
    inputs: [
      { name: 'x', ...column },
      { name: 'room', datatype: 'INT64', shape: ['batch', 1] },
    ],
    outputs: [{ name: 'y', ...column }],
    nodes: [
      { op: 'ReduceMax', inputs: ['room'], outputs: ['most'], attributes: { keepdims: 0 } },
      { op: 'Max', inputs: ['most', 'one'], outputs: ['width'] },
      { op: 'Reshape', inputs: ['width', 'one_axis'], outputs: ['size'] },
      { op: 'Expand', inputs: ['x', 'size'], outputs: ['wide'] },
      { op: 'ReduceMean', inputs: ['wide', 'axis_1'], outputs: ['y'], attributes: { keepdims: 1 } },
    ],
    constants: [
      { name: 'one', dataType: DataType.INT64, dims: [], int64Data: [1] },
      { name: 'one_axis', dataType: DataType.INT64, dims: [1], int64Data: [1] },
      { name: 'axis_1', dataType: DataType.INT64, dims: [1], int64Data: [1] },
    ],
  });
}
