import { describe, expect, it } from '@jest/globals';
import type { Tensor } from '../../../lambda/core/tensor.ts';
import { everyGapModel, extraOutputsModel, optionalOutputModel, zipMapModel } from '../../helpers/axisModels.ts';
import { model, node } from '../../helpers/graph.ts';
import { meanOverBatchModel, scalarInputModel, sumAndDifferenceModel } from '../../helpers/onnxModels.ts';
import { openOnly } from '../../helpers/openModels.ts';
import { bodyOf, expectAnsweredAsAlone, FORMS, type Given, given, type RowsOf, score, sessionOf } from './asAlone.ts';

/** Why a model is refused. */
async function refusalOf(model: Uint8Array, config: object = {}): Promise<string> {
  return openOnly(model, { ...config }).then(
    () => 'it is served',
    ({ message }: Error) => message,
  );
}

/** The block of JSON that a refusal asks for. */
function blockIn(refusal: string): Record<string, unknown> {
  const [, block] = /put into config\.json.*?: (\{.*\})$/.exec(refusal) ?? [];
  if (block === undefined) throw new Error(`expected a block to paste, got: ${refusal}`);
  return JSON.parse(block);
}

const X = (rows: number, seed: number): Given[] => [given('x', 0, [rows, 3], seed)];
const SCALE: Tensor = { name: 'scale', datatype: 'FP32', shape: [], data: Float32Array.of(2.5) };

describe('a sound model that is refused for what its file does not say', () => {
  it.each<{
    title: string;
    model: () => Uint8Array;
    config?: object;
    block: object;
    filled?: object;
    rows: RowsOf;
    inputs?: typeof X;
  }>([
    {
      title: 'a map of probabilities',
      model: zipMapModel,
      block: { outputs: ['label'] },
      rows: { names: ['label'], axes: [0] },
    },
    {
      title: 'an optional output',
      model: optionalOutputModel,
      block: { outputs: ['y'] },
      rows: { names: ['y'], axes: [0] },
    },
    {
      title: 'constants, scalars and an output with its rows elsewhere',
      model: extraOutputsModel,
      block: { outputs: ['y', 'columns'], batchAxis: { columns: 1 } },
      rows: { names: ['y', 'columns'], axes: [0, 1] },
    },
    {
      title: 'all of it at once',
      model: everyGapModel,
      config: { ragged: { axis: 'length', pad: { x: 0 } } },
      block: {
        outputs: ['y', 'new_state'],
        batchAxis: { state: 1, new_state: 1 },
        constants: { scale: null },
        ragged: { axis: 'length', pad: { x: 0 }, cut: { y: 1 } },
      },
      filled: { constants: { scale: 2.5 } },
      rows: { names: ['y', 'new_state'], axes: [0, 1], constants: [SCALE] },
      inputs: (rows, seed) => [given('x', 0, [rows, 1 + (seed % 3)], seed), given('state', 1, [2, rows, 3], seed)],
    },
  ])('is served with the block that the refusal asks for: $title', async (one) => {
    const { model, config = {}, block, filled = {}, rows, inputs = X } = one;
    const asked = blockIn(await refusalOf(model(), config));
    expect(asked).toEqual(block);

    const opened = await openOnly(model(), { ...config, ...asked, ...filled });
    expect(opened).toMatchObject({ warnings: [], model: { independence: 'proved', maxBatchRows: 512 } });
    const requests = FORMS.map((form, index) => ({ form, inputs: inputs(1 + (index % 2), index) }));
    const json = requests.filter(({ form }) => form !== 'raw' || rows.names[0] !== 'label');
    await expectAnsweredAsAlone(opened, json, rows, await sessionOf(opened));
  });

  it('is told each tensor in words too', async () => {
    const refusal = await refusalOf(everyGapModel());
    expect(refusal).toContain("input 'scale': expected a batch axis, got a scalar");
    expect(refusal).toContain("got 'batch' on axis 0 of 'x' and on axis 1 of 'state'");
    expect(refusal).toContain("output 'loss': expected axis 0 to be the batch axis, 2 rows, got shape []");
    expect(refusal).toContain("output 'pieces': expected a tensor of a type that ONNX Runtime for Node carries");
    expect(refusal).toContain("put into config.json, with the values of 'scale' in place of null: {");
  });

  it('is refused again where the block was pasted without the values that only its owner knows', async () => {
    const config = blockIn(await refusalOf(scalarInputModel()));
    expect(await refusalOf(scalarInputModel(), config)).toMatch(/constants\.factor: expected a number .*, got null/);
  });

  it('keeps what config.json already says of other tensors', async () => {
    const config = { constants: { scale: 2.5 }, outputs: ['new_state', 'y', 'loss'] };
    expect(blockIn(await refusalOf(everyGapModel(), config))).toEqual({
      outputs: ['new_state', 'y'],
      batchAxis: { new_state: 1, state: 1 },
    });
  });

  it('is told which inputs may be weights where sizes are fixed, and which states', async () => {
    const weight = model('x FP32[4,3]; weight FP32[3,2]', 'y FP32[4,2]', [node('MatMul', 'x weight', 'y')]);
    expect(blockIn(await refusalOf(weight))).toEqual({ constants: { weight: null } });
    const state = model('x FP32[4,3]; state FP32[2,4,3]', 'y FP32[4,3]; new_state FP32[2,4,3]', [
      node('Identity', 'x', 'y'),
      node('Identity', 'state', 'new_state'),
    ]);
    const block = blockIn(await refusalOf(state));
    expect(block).toEqual({ batchAxis: { state: 1, new_state: 1 } });
    expect((await openOnly(state, block)).model.allowedSizes).toEqual([4]);
  });

  it('is not told of any block where none of its outputs has rows', async () => {
    expect(await refusalOf(meanOverBatchModel())).toMatch(
      /output 'mean': expected axis 0 to be the batch axis, 2 rows, got shape \[1, 1\]; .*no output has rows; export/,
    );
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
    expect(await namesOf(one, body)).toEqual(['difference']);
    expect(await namesOf(one, chosen)).toBe(
      "outputs[0].name: expected 'difference' of model 'model', got \"sum\"; use the model's names",
    );
  });

  it.each([
    [
      ['sum', 'product'],
      "outputs: expected names of the model's outputs ('sum', 'difference'), got 'product'; correct or remove it",
    ],
    [[], 'outputs: expected'],
    [['sum', 'sum'], 'outputs: expected'],
    ['sum', 'outputs: expected'],
  ])('is refused as %j', async (outputs, message) => {
    expect(await refusalOf(model, { outputs })).toContain(message);
  });

  it('is what an answer without rows asks for where nothing was run at start', async () => {
    const opened = await openOnly(extraOutputsModel(), { warmup: false });
    const [answer] = (await score(opened, [bodyOf('flat', X(2, 1))])).answers;
    expect(answer?.error).toMatch(
      /output 'classes': expected \d rows on axis 0, got shape \[7\]; .*"outputs" in config\.json/,
    );
  });
});
