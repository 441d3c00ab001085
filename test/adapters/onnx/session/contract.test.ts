import { describe, expect, it } from '@jest/globals';
import { encodeModel, type GraphValue } from '../../../../bench/workload/models/encodeModel.ts';
import {
  ELEMENT_TYPE,
  identityModel,
  scalarInputModel,
  sequenceModel,
  sumAndDifferenceModel,
} from '../../../helpers/onnxModels.ts';
import { counting, openOnly } from '../setup.ts';

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
      /model\.onnx: input 'factor': expected axis 0 to be the batch axis, got a scalar/,
    );
  });

  it('is refused with a sequence, naming the output and what it is', async () => {
    await expect(openOnly(sequenceModel())).rejects.toThrow(
      /model\.onnx: output 'pieces': expected a tensor .*, got a sequence or a map/,
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
      /model\.onnx: inputs 'a' and 'b': expected the same size on axis 0, the batch axis, got 4 and 3/,
    );
  });
});
