import { describe, expect, it } from '@jest/globals';
import { encodeModel, type GraphValue } from '../../../../bench/workload/encodeModel.ts';
import { scoreRecords } from '../../../../lambda/core/scoreRecords.ts';
import { elementCount } from '../../../../lambda/core/tensor.ts';
import {
  ELEMENT_TYPE,
  identityModel,
  scalarInputModel,
  sequenceModel,
  sumAndDifferenceModel,
} from '../../../helpers/onnxModels.ts';
import { counting, openOnly } from '../../../helpers/openModels.ts';
import { messageIdOf, standardRecords } from '../../../helpers/records.ts';
import { enoughTime, scoringDependencies } from '../../../helpers/scoring.ts';

/** Two inputs, each given back on its own, so that they may have any axes. */
function pairModel(a: Pick<GraphValue, 'shape'>, b: Pick<GraphValue, 'shape'>): Uint8Array {
  const value = (name: string, shape: GraphValue['shape']): GraphValue => ({ name, datatype: 'FP32', shape });
  return encodeModel({
    inputs: [value('a', a.shape), value('b', b.shape)],
    outputs: [value('same_a', a.shape), value('same_b', b.shape)],
    nodes: [
      { op: 'Identity', inputs: ['a'], outputs: ['same_a'] },
      { op: 'Identity', inputs: ['b'], outputs: ['same_b'] },
    ],
  });
}

describe('the contract of a model', () => {
  it('is read from the model: names, datatypes and axes, in its order', async () => {
    const { model, warnings } = await openOnly(sumAndDifferenceModel());

    expect(model.inputs).toEqual([
      { name: 'a', datatype: 'FP32', shape: ['batch', 2] },
      { name: 'b', datatype: 'FP32', shape: ['batch', 2] },
    ]);
    expect(model.outputs).toEqual([
      { name: 'sum', datatype: 'FP32', shape: ['batch', 2] },
      { name: 'difference', datatype: 'FP32', shape: ['batch', 2] },
    ]);
    expect(warnings).toEqual([]);
  });

  it('keeps the names of symbolic axes behind the batch axis', async () => {
    const { model } = await openOnly(identityModel('INT64', ['batch', 'length', 4, 'width']));

    expect(model.inputs[0]?.shape).toEqual(['batch', 'length', 4, 'width']);
  });

  it('gives every axis without a name one of its own, so that none must equal another', async () => {
    const { model } = await openOnly(pairModel({ shape: [undefined, undefined] }, { shape: [undefined, undefined] }));

    const axes = model.inputs.flatMap(({ shape }) => shape);
    expect(axes).toEqual(['a axis 0', 'a axis 1', 'b axis 0', 'b axis 1']);
  });

  it('is refused without an input', async () => {
    const constantModel = encodeModel({
      inputs: [],
      outputs: [{ name: 'y', datatype: 'FP32', shape: [1] }],
      nodes: [{ op: 'Identity', inputs: ['one'], outputs: ['y'] }],
      constants: [{ name: 'one', dataType: 1, dims: [1], floatData: [1] }],
    });

    await expect(openOnly(constantModel)).rejects.toThrow(/model\.onnx: expected a model with at least one input/);
  });

  it('is refused with a scalar input, naming it', async () => {
    await expect(openOnly(scalarInputModel())).rejects.toThrow(
      /model\.onnx: input 'factor': expected a batch axis, got a scalar; .*: \{"constants":\{"factor":null\}\}/,
    );
  });

  it('is refused with a sequence, naming the output and what it is', async () => {
    await expect(openOnly(sequenceModel())).rejects.toThrow(
      /model\.onnx: output 'pieces': expected a tensor .*, got a sequence, a map or an optional .*zipmap: False.*; export the model/,
    );
  });

  it('is refused with bfloat16, by that name', async () => {
    await expect(openOnly(identityModel(ELEMENT_TYPE.bfloat16))).rejects.toThrow(/model\.onnx: .*bfloat16/);
  });
});

describe('a baked batch axis', () => {
  it('makes a ladder of that one rung, whatever else is configured', async () => {
    const { model } = await openOnly(identityModel('FP32', [4, 3]), { maxBatchRows: 2, ladder: [1, 2] });

    expect(model).toMatchObject({ maxBatchRows: 4, ladder: [4] });
    expect((await model.run([counting('x', 4, 3)])).outputs[0]).toMatchObject({ shape: [4, 3] });
  });

  it('is warned of once, with the size and how to export without', async () => {
    const { warnings } = await openOnly(identityModel('FP32', [4, 3]));

    expect(warnings).toEqual([expect.stringMatching(/model\.onnx: the batch axis is baked to 4: /)]);
    expect(warnings[0]).toContain('export the model with a dynamic batch axis (torch.onnx.export: dynamic_axes');
  });

  it('may be on every input', async () => {
    const { model } = await openOnly(sumAndDifferenceModel(4, 4));

    expect(model.ladder).toEqual([4]);
  });

  it('on one input binds the others', async () => {
    const { model } = await openOnly(pairModel({ shape: ['batch', 2] }, { shape: [4, 2] }));

    expect(model).toMatchObject({ maxBatchRows: 4, ladder: [4] });
  });

  it('is refused when two inputs disagree, naming both and their sizes', async () => {
    const opening = openOnly(pairModel({ shape: [4, 2] }, { shape: [3, 2] }));

    await expect(opening).rejects.toThrow(
      /model\.onnx: inputs 'a' and 'b': expected the same size on the batch axis, got 4 on axis 0 and 3 on axis 0; .*"constants" .*"batchAxis"/,
    );
  });

  it('of one input only may be that of a weight or a state: the warning names it, and what to do', async () => {
    const { warnings } = await openOnly(pairModel({ shape: ['batch', 2] }, { shape: [4, 2] }));

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
    const opening = openOnly(pairModel({ shape: ['n', 2] }, { shape: [2, 'n'] }));

    await expect(opening).rejects.toThrow(
      "inputs 'a' and 'b': expected the same batch axis in both, got 'n' on axis 0 of 'a' and on axis 1 of 'b', so that " +
        'axis 0 of \'b\' is not the batch; where one of them has none, give it as "constants"; put into config.json: ' +
        '{"batchAxis":{"b":1,"same_b":1}}',
    );
  });

  it('deny it whichever input comes first, and where one has the name on both axes', async () => {
    const first = openOnly(pairModel({ shape: [2, 'n'] }, { shape: ['n', 2] }));
    await expect(first).rejects.toThrow("got 'n' on axis 0 of 'b' and on axis 1 of 'a'");
    const square = openOnly(pairModel({ shape: ['n', 2] }, { shape: ['n', 'n'] }));
    await expect(square).rejects.toThrow("got 'n' on axis 0 of 'a' and on axis 1 of 'b'");
  });

  it('say nothing where all axes have one name', async () => {
    const { model } = await openOnly(pairModel({ shape: ['n', 'n'] }, { shape: ['n', 'n'] }));

    expect(model).toMatchObject({ maxBatchRows: 512, independence: 'proved' });
  });

  it('deny it of an input that was forgotten beside one that was declared', async () => {
    const model = pairModel({ shape: ['seq', 'n', 2] }, { shape: ['seq', 'n', 2] });
    const opening = openOnly(model, { batchAxis: { a: 1, same_a: 1 } });
    await expect(opening).rejects.toThrow(
      "got 'n' on axis 1 of 'a' and on axis 1 of 'b', so that axis 0 of 'b' is not the batch",
    );
  });

  it.each([
    ['the batch axis is declared elsewhere', { a: 0, b: 1, same_b: 1 }],
    ['both are declared to be the batch all the same', { a: 0, b: 0 }],
  ])('deny nothing where %s', async (_, batchAxis) => {
    const { model } = await openOnly(pairModel({ shape: ['n', 2] }, { shape: [2, 'n'] }), { batchAxis, warmup: false });
    expect(model.inputs.map(({ name }) => name)).toEqual(['a', 'b']);
  });

  it('may be one on axes that differ behind the batch, as ONNX Runtime has it', async () => {
    const { repository } = await openOnly(pairModel({ shape: ['batch', 'n', 'n'] }, { shape: ['batch', 'n'] }));
    const input = (name: string, shape: readonly number[]) => {
      return { name, datatype: 'FP32', shape, data: new Array(elementCount(shape)).fill(1) };
    };
    const deps = scoringDependencies({ models: repository });
    const body = { inputs: [input('a', [2, 1, 3]), input('b', [2, 4])] };
    await scoreRecords(standardRecords([body]), deps, enoughTime());
    const [answer] = deps.writer.documentsOf(messageIdOf(0)) as { outputs: { shape: number[] }[] }[];
    expect(answer?.outputs.map(({ shape }) => shape)).toEqual([
      [2, 1, 3],
      [2, 4],
    ]);
  });
});
