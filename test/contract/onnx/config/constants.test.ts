import { describe, expect, it } from '@jest/globals';
import { encodeModel, type GraphValue } from '../../../../bench/workload/encodeModel.ts';
import type { Model } from '../../../../lambda/core/model.ts';
import type { Datatype, TensorData } from '../../../../lambda/core/tensor.ts';
import { readConstants } from '../../../../lambda/onnx/contract.ts';

import { spec } from '../../../helpers/models.ts';
import { scalarInputModel } from '../../../helpers/onnxModels.ts';
import { counting, openOnly } from '../../../helpers/openModels.ts';

type Axes = readonly (number | string)[];

function read(value: unknown, datatype: Datatype, ...axes: Axes) {
  return readConstants({ c: value }, [spec('c', datatype, ...axes)])[0];
}

describe('readConstants', () => {
  it.each<[value: unknown, Datatype, Axes, shape: number[], data: TensorData]>([
    [16_000, 'INT64', [], [], BigInt64Array.of(16_000n)],
    [[16_000], 'INT64', [], [], BigInt64Array.of(16_000n)],
    ['9007199254740993', 'INT64', [], [], BigInt64Array.of(9_007_199_254_740_993n)],
    [0.5, 'FP32', [1], [1], Float32Array.of(0.5)],
    [0.5, 'FP32', ['n', 1], [1, 1], Float32Array.of(0.5)],
    ['-Infinity', 'FP64', [], [], Float64Array.of(Number.NEGATIVE_INFINITY)],
    [true, 'BOOL', [], [], Uint8Array.of(1)],
    ['en', 'BYTES', [1], [1], ['en']],
    [[1, 2, 3, 4], 'INT8', [2, 2], [2, 2], Int8Array.of(1, 2, 3, 4)],
    [[1, 2, 3, 4], 'INT8', ['n', 2], [2, 2], Int8Array.of(1, 2, 3, 4)],
    [[[1, 2, 3]], 'INT8', ['n', 'm'], [1, 3], Int8Array.of(1, 2, 3)],
    [[[[1], [2]]], 'INT8', [1, 'n', 'm'], [1, 2, 1], Int8Array.of(1, 2)],
    [[], 'FP32', ['n'], [0], new Float32Array(0)],
  ])('reads %j of %s for %j', (value, datatype, axes, shape, data) => {
    expect(read(value, datatype, ...axes)).toEqual({ name: 'c', datatype, shape, data });
  });

  it.each<[value: unknown, Datatype, Axes, message: string]>([
    ['x', 'INT64', [], 'constants.c: expected an integer from'],
    [300, 'UINT8', [], 'constants.c: expected an integer from 0 to 255 (UINT8), got 300'],
    [0.5, 'INT32', [], 'constants.c: expected an integer'],
    [null, 'FP32', [], 'constants.c: expected a number'],
    [{}, 'FP32', [], 'constants.c: expected a number'],
    [1, 'BYTES', [], 'constants.c: expected a string'],
    [1, 'FP32', [3], 'constants.c: expected 3 elements for shape [3], got 1'],
    [[1, 2], 'FP32', [], 'constants.c: expected 1 elements for shape [], got 2'],
    [[1, 2], 'FP32', [3], 'constants.c: expected 3 elements for shape [3], got 2'],
    [[1, 'x', 3], 'FP32', [3], 'constants.c[1]: expected a number'],
    [[[1], [2]], 'FP32', [2], 'constants.c[0]: expected a number'],
    [[1, 2, 3], 'FP32', ['n', 2], 'constants.c: expected an array for [n, 2], got 3 elements'],
    [
      [1, 2],
      'FP32',
      ['n', 'm'],
      'constants.c: expected an array for [n, m], got a flat one, which may have several shapes',
    ],
    [[[1, 2]], 'FP32', [2, 2], 'constants.c: expected an array for [2, 2], got one of the sizes [1, 2]'],
    [[[1, 2], [3]], 'FP32', [2, 2], 'constants.c[1]: expected 2 elements on axis 1'],
    [[[1, 2], 3], 'FP32', ['n', 'm'], 'constants.c[1]: expected 2 elements on axis 1'],
    [[[1, 2]], 'FP32', [1, 2, 'n'], 'constants.c: expected an array for [1, 2, n], got one of the sizes [1, 2]'],
    [[[1, 2, null]], 'FP32', ['n', 'm'], 'constants.c[0][2]: expected a number'],
    [[], 'FP32', [0, 'n'], 'constants.c: expected an array for [0, n], got 0 elements'],
  ])('refuses %j of %s for %j', (value, datatype, axes, message) => {
    expect(() => read(value, datatype, ...axes)).toThrow(message);
  });
});

/** `y`, the matrix product of `x` and `weights`: float32 `[batch, columns]`, `[batch, 2]`, `[rows, columns]`. */
function weightsModel(): Uint8Array {
  const value = (name: string, ...shape: Axes): GraphValue => ({ name, datatype: 'FP32', shape });
  return encodeModel({
    inputs: [value('x', 'batch', 2), value('weights', 'rows', 'columns')],
    outputs: [value('y', 'batch', 'columns')],
    nodes: [{ op: 'MatMul', inputs: ['x', 'weights'], outputs: ['y'] }],
  });
}

async function run(model: Model): Promise<unknown> {
  const columns = model.inputs[0]?.shape[1] as number;
  return (await model.run([counting('x', 2, columns)])).outputs[0];
}

describe('constants in config.json', () => {
  it('are given to every run, and are no inputs', async () => {
    const { model } = await openOnly(scalarInputModel(), { constants: { factor: -2 } });
    expect(model.inputs.map(({ name }) => name)).toEqual(['x']);
    const doubled = { name: 'y', datatype: 'FP32', shape: [2, 3], data: Float32Array.of(-2, -4, -6, -8, -10, -12) };
    expect([await run(model), await run(model)]).toEqual([doubled, doubled]);
  });

  it('may be weights of the sizes that they have', async () => {
    const weights = [
      [1, 0, 1],
      [0, 1, 1],
    ];
    const { model, warnings } = await openOnly(weightsModel(), { constants: { weights } });
    expect(await run(model)).toMatchObject({ shape: [2, 3], data: Float32Array.of(1, 2, 3, 3, 4, 7) });
    expect(warnings).toEqual([]);
  });

  it.each<[title: string, constants: unknown, message: string]>([
    [
      'a name that is none',
      { faktor: 2 },
      "constants: expected names of the model's inputs ('x', 'factor'), got 'faktor'",
    ],
    ['an output', { factor: 1, y: 2 }, "got 'y'; correct or remove it"],
    ['a value of another datatype', { factor: 'two' }, 'constants.factor: expected a number'],
    ['nothing left for requests', { factor: 1, x: [[1, 2, 3]] }, "got only \"constants\": 'x', 'factor'"],
    ['no object', 7, 'constants'],
  ])('are refused with %s', async (_, constants, message) => {
    await expect(openOnly(scalarInputModel(), { constants })).rejects.toThrow(message);
  });
});
