import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import onnxProto from 'onnx-proto';
import { DataType, encodeModel } from '../../bench/workload/models/encodeModel.ts';

const { AttributeProto, ModelProto } = onnxProto.onnx;

/** Puts a model where a repository in `folder` has it. @returns the model's folder */
export async function putModel(folder: string, name: string, model: Uint8Array): Promise<string> {
  const file = join(folder, name, '1', 'model.onnx');
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, model);
  return join(folder, name);
}

/** `y` is `x`, float32 `[batch, 1]`, after as many turns of a loop as the most of `turns` (int64 `[batch, 1]`) says. */
export function turningModel(): Uint8Array {
  const column = { datatype: 'FP32', shape: ['batch', 1] } as const;
  const model = ModelProto.decode(
    encodeModel({
      inputs: [
        { name: 'x', ...column },
        { name: 'turns', datatype: 'INT64', shape: ['batch', 1] },
      ],
      outputs: [{ name: 'y', ...column }],
      nodes: [
        { op: 'ReduceMax', inputs: ['turns'], outputs: ['most'], attributes: { keepdims: 0 } },
        { op: 'Loop', inputs: ['most', '', 'x'], outputs: ['y'] },
      ],
    }),
  );
  const loop = model.graph?.node?.at(-1);
  loop?.attribute?.push({ name: 'body', type: AttributeProto.AttributeType.GRAPH, g: idleTurn() });
  return ModelProto.encode(model).finish();
}

function idleTurn() {
  const body = ModelProto.decode(
    encodeModel({
      inputs: [
        { name: 'turn', datatype: 'INT64', shape: [] },
        { name: 'goes_on', datatype: 'BOOL', shape: [] },
        { name: 'before', datatype: 'FP32', shape: ['batch', 1] },
      ],
      outputs: [
        { name: 'goes_on_still', datatype: 'BOOL', shape: [] },
        { name: 'after', datatype: 'FP32', shape: ['batch', 1] },
      ],
      nodes: [
        { op: 'Identity', inputs: ['goes_on'], outputs: ['goes_on_still'] },
        { op: 'Identity', inputs: ['before'], outputs: ['after'] },
      ],
    }),
  );
  return body.graph;
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
