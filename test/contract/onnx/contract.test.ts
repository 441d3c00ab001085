import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../lambda/core/model.ts';
import type { Datatype, Tensor, TensorData } from '../../../lambda/core/tensor.ts';
import { readConstants, readRagged } from '../../../lambda/onnx/contract.ts';
import { everyGapModel, extraOutputsModel, optionalOutputModel } from '../../helpers/axisModels.ts';
import { model, node } from '../../helpers/graph.ts';
import {
  ELEMENT_TYPE,
  identityModel,
  maskedMeanModel,
  scalarInputModel,
  sumAndDifferenceModel,
} from '../../helpers/onnxModels.ts';
import { counting, openOnly } from '../../helpers/openModels.ts';
import { spec } from '../../helpers/scoring.ts';
import { bodyOf, expectAnsweredAsAlone, FORMS, given, type RowsOf, score, sessionOf } from './asAlone.ts';

/** Two inputs, each given back on its own, so that they may have any axes. */
function pairModel(a: string, b: string): Uint8Array {
  return model(`a FP32[${a}]; b FP32[${b}]`, `same_a FP32[${a}]; same_b FP32[${b}]`, [
    node('Identity', 'a', 'same_a'),
    node('Identity', 'b', 'same_b'),
  ]);
}

describe('the contract of a model', () => {
  it('is read from the model: names, datatypes and axes, in its order', async () => {
    const { model, warnings } = await openOnly(sumAndDifferenceModel());
    const float = (name: string) => ({ name, datatype: 'FP32', shape: ['batch', 2] });

    expect(model).toMatchObject({ inputs: ['a', 'b'].map(float), outputs: ['sum', 'difference'].map(float) });
    expect(warnings).toEqual([]);
  });

  it('gives every axis without a name one of its own, so that none must equal another', async () => {
    const { model } = await openOnly(pairModel('?,?', '?,?'));

    const axes = model.inputs.flatMap(({ shape }) => shape);
    expect(axes).toEqual(['a axis 0', 'a axis 1', 'b axis 0', 'b axis 1']);
  });

  it('is refused with a scalar input, naming it', async () => {
    await expect(openOnly(scalarInputModel())).rejects.toThrow(
      /model\.onnx: input 'factor': expected a batch axis, got a scalar; add to config\.json, with the values of 'factor' in place of null: \{"constants":\{"factor":null\}\}$/,
    );
  });

  it('is refused with bfloat16, by that name', async () => {
    await expect(openOnly(identityModel(ELEMENT_TYPE.bfloat16))).rejects.toThrow(/model\.onnx: .*bfloat16/);
  });
});

describe('a baked batch axis', () => {
  it('makes that one size the only allowed one, whatever else is configured', async () => {
    const { model } = await openOnly(identityModel('FP32', [4, 3]), { maxBatchRows: 2, allowedSizes: [1, 2] });

    expect(model).toMatchObject({ maxBatchRows: 4, allowedSizes: [4] });
    expect((await model.run([counting('x', 4, 3)])).outputs[0]).toMatchObject({ shape: [4, 3] });
  });

  it('of one input binds the others, and may be that of a weight or a state: a warning says what to do', async () => {
    const { model, warnings } = await openOnly(pairModel('batch,2', '4,2'));

    expect(model).toMatchObject({ maxBatchRows: 4, allowedSizes: [4] });
    expect(warnings).toEqual([expect.stringMatching(/baked to 4: .*; only 'b' says so: .*"constants" .*"batchAxis"/)]);
  });
});

describe('the names of axes', () => {
  it.each(['?', '-1', 'None', ''])(
    'are none where an exporter wrote %j: no two of these axes are one',
    async (name) => {
      const { model } = await openOnly(identityModel('FP32', [name, 3, name, name]));

      expect(model.inputs[0]?.shape).toEqual(['x axis 0', 3, 'x axis 2', 'x axis 3']);
      const data = Float32Array.from({ length: 2 * 3 * 2 * 5 }, (_, index) => index);
      const { outputs } = await model.run([{ name: 'x', datatype: 'FP32', shape: [2, 3, 2, 5], data }]);
      expect(outputs[0]?.shape).toEqual([2, 3, 2, 5]);
    },
  );

  it('deny that axis 0 is the batch where that of one input is another axis of another', async () => {
    const opening = openOnly(pairModel('n,2', '2,n'));

    await expect(opening).rejects.toThrow(
      "inputs 'a' and 'b': expected the same batch axis in both, got 'n' on axis 0 of 'a' and on axis 1 of 'b', so that " +
        'axis 0 of \'b\' is not the batch; if one of them has none, give it as "constants"; if a request is a graph of many ' +
        'nodes, export the model with an axis of 1 before all others; add to config.json: ' +
        '{"batchAxis":{"b":1,"same_b":1}}',
    );
  });

  it('say nothing where all axes have one name', async () => {
    const { model } = await openOnly(pairModel('n,n', 'n,n'));

    expect(model).toMatchObject({ maxBatchRows: 512, independence: 'independent' });
  });

  it('deny it of an input that was forgotten beside one that was declared', async () => {
    const opening = openOnly(pairModel('seq,n,2', 'seq,n,2'), { batchAxis: { a: 1, same_a: 1 } });
    await expect(opening).rejects.toThrow(
      "got 'n' on axis 1 of 'a' and on axis 1 of 'b', so that axis 0 of 'b' is not the batch",
    );
  });

  it('may be one on axes that differ behind the batch, as ONNX Runtime has it', async () => {
    const opened = await openOnly(pairModel('batch,n,n', 'batch,n'));
    const body = bodyOf('flat', [given('a', 0, [2, 1, 3], 1), given('b', 0, [2, 4], 2)]);
    const [answer] = (await score(opened, [body])).answers;
    expect(answer?.outputs?.map(({ shape }) => shape)).toEqual([
      [2, 1, 3],
      [2, 4],
    ]);
  });
});

/** Why a model is refused. */
async function refusalOf(model: Uint8Array, config: object = {}): Promise<string> {
  return openOnly(model, { ...config }).then(
    () => 'it is served',
    ({ message }: Error) => message,
  );
}

/** What a refusal asks to add to config.json. */
function blockIn(refusal: string): Record<string, unknown> {
  const [, block = 'null'] = /add to config\.json.*?: (\{.*\})$/.exec(refusal) ?? [];
  return JSON.parse(block);
}

describe('a sound model that is refused for what its file does not say', () => {
  it('is told of each tensor, and is served with what it is told to add', async () => {
    const refusal = await refusalOf(everyGapModel());
    expect(refusal).toContain("input 'scale': expected a batch axis, got a scalar");
    expect(refusal).toContain("got 'batch' on axis 0 of 'x' and on axis 1 of 'state'");
    expect(refusal).toContain("output 'pieces': expected a tensor of a type that ONNX Runtime for Node carries");
    const asked = blockIn(refusal);
    expect(asked).toEqual({
      outputs: ['y', 'new_state', 'loss'],
      batchAxis: { state: 1, new_state: 1 },
      constants: { scale: null },
    });
    expect(await refusalOf(everyGapModel(), asked)).toMatch(/constants\.scale: expected a number .*, got null/);

    const filled = { ...asked, constants: { scale: 2.5 } };
    expect(await refusalOf(everyGapModel(), filled)).toMatch(
      /output 'loss': expected axis 0 to be the batch axis, 1 row, got shape \[\]; name the outputs that have one as "outputs"/,
    );
    const opened = await openOnly(everyGapModel(), { ...filled, outputs: ['y', 'new_state'] });
    expect(opened).toMatchObject({ warnings: [], model: { sharing: 'compared', maxBatchRows: 512 } });
    const requests = FORMS.map((form, index) => {
      const rows = 1 + (index % 2);
      return { form, inputs: [given('x', 0, [rows, 1 + (index % 3)], index), given('state', 1, [2, rows, 3], index)] };
    });
    const scale: Tensor = { name: 'scale', datatype: 'FP32', shape: [], data: Float32Array.of(2.5) };
    const answered: RowsOf = { names: ['y', 'new_state'], axes: [0, 1], constants: [scale] };
    await expectAnsweredAsAlone(opened, requests, answered, await sessionOf(opened));
  });

  it.each([
    ['an optional output', optionalOutputModel(), { outputs: ['y'] }],
    [
      'a weight of a fixed size',
      model('x FP32[4,3]; weight FP32[3,2]', 'y FP32[4,2]', [node('MatMul', 'x weight', 'y')]),
      { constants: { weight: null } },
    ],
    [
      'a state of a fixed size',
      model('x FP32[4,3]; state FP32[2,4,3]', 'y FP32[4,3]; new_state FP32[2,4,3]', [
        node('Identity', 'x', 'y'),
        node('Identity', 'state', 'new_state'),
      ]),
      { batchAxis: { state: 1, new_state: 1 } },
    ],
  ])('is asked for %s', async (_, bytes, block) => {
    expect(blockIn(await refusalOf(bytes))).toEqual(block);
  });
});

describe('"outputs" in config.json', () => {
  const model = sumAndDifferenceModel();
  const [a, b] = [given('a', 0, [2, 2], 1), given('b', 0, [2, 2], 2)];

  it('names those that are computed, in that order, and requests choose among them', async () => {
    const both = await openOnly(model, { outputs: ['difference', 'sum'] });
    const one = await openOnly(model, { outputs: ['difference'] });
    const body = bodyOf('flat', [a, b]);
    const chosen = { ...body, outputs: [{ name: 'sum' }] };
    const namesOf = async (opened: typeof both, request: object) => {
      const [answer] = (await score(opened, [request])).answers;
      return answer?.outputs?.map(({ name }) => name) ?? answer?.error;
    };
    expect(await namesOf(both, body)).toEqual(['difference', 'sum']);
    expect(await namesOf(both, chosen)).toEqual(['sum']);
    expect(await namesOf(one, chosen)).toBe(
      "outputs[0].name: expected 'difference' of model 'model', got \"sum\"; use the model's names",
    );
  });

  it.each([
    [['sum', 'product'], "('sum', 'difference'), got 'product'; correct or remove it"],
    [['sum', 'sum'], 'outputs: expected'],
  ])('is refused as %j', async (outputs, message) => {
    expect(await refusalOf(model, { outputs })).toContain(message);
  });

  it('is what an answer without rows asks for where nothing was run at start', async () => {
    const opened = await openOnly(extraOutputsModel(), { warmup: false });
    const [answer] = (await score(opened, [bodyOf('flat', [given('x', 0, [2, 3], 1)])])).answers;
    expect(answer?.error).toMatch(
      /output 'classes': expected \d rows on axis 0, got shape \[7\]; .*"outputs" in config\.json/,
    );
  });
});

type Axes = readonly (number | string)[];

function read(value: unknown, datatype: Datatype, ...axes: Axes) {
  return readConstants({ c: value }, [spec('c', datatype, ...axes)])[0];
}

describe('readConstants', () => {
  it.each<[value: unknown, Datatype, Axes, shape: number[], data: TensorData]>([
    [16_000, 'INT64', [], [], BigInt64Array.of(16_000n)],
    ['9007199254740993', 'INT64', [], [], BigInt64Array.of(9_007_199_254_740_993n)],
    [0.5, 'FP32', ['n', 1], [1, 1], Float32Array.of(0.5)],
    [true, 'BOOL', [], [], Uint8Array.of(1)],
    [[1, 2, 3, 4], 'INT8', ['n', 2], [2, 2], Int8Array.of(1, 2, 3, 4)],
    [[[1, 2, 3]], 'INT8', ['n', 'm'], [1, 3], Int8Array.of(1, 2, 3)],
    [[], 'FP32', ['n'], [0], new Float32Array(0)],
  ])('reads %j of %s for %j', (value, datatype, axes, shape, data) => {
    expect(read(value, datatype, ...axes)).toEqual({ name: 'c', datatype, shape, data });
  });

  it.each<[value: unknown, Datatype, Axes, message: string]>([
    [300, 'UINT8', [], 'constants.c: expected an integer from 0 to 255 (UINT8), got 300'],
    [null, 'FP32', [], 'constants.c: expected a number'],
    [[1, 2], 'FP32', [3], 'constants.c: expected 3 elements for shape [3], got 2'],
    [[1, 2, 3], 'FP32', ['n', 2], 'constants.c: expected an array for [n, 2], got 3 elements'],
    [[1, 2], 'FP32', ['n', 'm'], 'expected an array for [n, m], got a flat one, which may have several shapes'],
    [[[1, 2], [3]], 'FP32', [2, 2], 'constants.c[1]: expected 2 elements on axis 1'],
    [[[1, 2]], 'FP32', [1, 2, 'n'], 'constants.c: expected an array for [1, 2, n], got one of the sizes [1, 2]'],
  ])('refuses %j of %s for %j', (value, datatype, axes, message) => {
    expect(() => read(value, datatype, ...axes)).toThrow(message);
  });
});

/** `y`, the matrix product of `x` and `weights`: float32 `[batch, columns]`, `[batch, 2]`, `[rows, columns]`. */
function weightsModel(): Uint8Array {
  const product = node('MatMul', 'x weights', 'y');
  return model('x FP32[batch,2]; weights FP32[rows,columns]', 'y FP32[batch,columns]', [product]);
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
    ['a name that is none', { factor: 1, y: 2 }, "('x', 'factor'), got 'y'; correct or remove it"],
    ['nothing left for requests', { factor: 1, x: [[1, 2, 3]] }, "got only \"constants\": 'x', 'factor'"],
  ])('are refused with %s', async (_, constants, message) => {
    await expect(openOnly(scalarInputModel(), { constants })).rejects.toThrow(message);
  });
});

const MASKED = { axis: 'length', pad: { values: 0, mask: 0 } };

describe('ragged in config.json', () => {
  it('is read with the axes that the model itself has', async () => {
    const { model, warnings } = await openOnly(maskedMeanModel(), {
      ragged: { ...MASKED, pad: { values: -7.5, mask: 0 }, allowedSizes: [16, 4] },
    });
    expect(model.ragged).toEqual({
      name: 'length',
      inputs: [
        { axis: 1, pad: -7.5 },
        { axis: 1, pad: 0 },
      ],
      outputs: [undefined, 1],
      allowedSizes: [4, 16],
    });
    expect(warnings).toEqual([]);
  });

  it.each([
    [
      'an axis that the model does not have',
      { ...MASKED, axis: 'lenght' },
      "ragged.axis: expected a symbolic axis of the inputs (length), got 'lenght'",
    ],
    [
      'an input without its element',
      { ...MASKED, pad: { values: 0 } },
      'ragged.pad: expected each of values, mask, got values',
    ],
    ['an element of another datatype', { ...MASKED, pad: { values: 0, mask: 'none' } }, 'ragged.pad.mask'],
    ['an output that is none', { ...MASKED, cut: { values: 1 } }, 'expected some of mean, doubled, got values'],
    [
      'the batch axis of an output',
      { ...MASKED, cut: { doubled: 0 } },
      'ragged.cut.doubled: expected a symbolic axis of [batch, length] other than the batch axis 0, got 0',
    ],
  ])('is refused for %s, naming it', async (_, ragged, message) => {
    await expect(openOnly(maskedMeanModel(), { ragged })).rejects.toThrow(message);
  });
});

describe('readRagged', () => {
  const contract = (...inputs: ReturnType<typeof spec>[]) => ({ inputs, outputs: [], bakedRows: undefined });

  it.each<[Datatype, unknown, unknown]>([
    ['INT64', 7, 7n],
    ['BOOL', true, 1],
    ['BYTES', '[PAD]', '[PAD]'],
  ])('reads an element of %s as a tensor holds it: %j', (datatype, pad, held) => {
    const config = { axis: 'length', pad: { x: pad as number } };
    const { inputs } = readRagged(
      config,
      contract(spec('x', datatype, 'batch', 2, 'length'), spec('y', 'FP32', 'batch')),
    );
    expect(inputs).toEqual([{ axis: 2, pad: held }, undefined]);
  });
});
