import { describe, expect, it } from '@jest/globals';
import type { Datatype } from '../../../../lambda/core/tensor.ts';

import { readRagged } from '../../../../lambda/onnx/contract.ts';
import { spec } from '../../../helpers/models.ts';
import { identityModel, maskedMeanModel } from '../../../helpers/onnxModels.ts';
import { openOnly } from '../../../helpers/openModels.ts';

const MASKED = { axis: 'length', pad: { values: 0, mask: 0 } };

describe('ragged in config.json', () => {
  it('is read with the axes that the model itself has', async () => {
    const { model, warnings } = await openOnly(maskedMeanModel(), {
      ragged: { ...MASKED, pad: { values: -7.5, mask: 0 }, ladder: [16, 4] },
    });
    expect(model.ragged).toEqual({
      name: 'length',
      inputs: [
        { axis: 1, pad: -7.5 },
        { axis: 1, pad: 0 },
      ],
      outputs: [undefined, 1],
      ladder: [4, 16],
    });
    expect(warnings).toEqual([]);
  });

  it('need not be there', async () => {
    expect((await openOnly(maskedMeanModel())).model.ragged).toBeUndefined();
  });

  it.each([
    [
      'an axis that the model does not have',
      { ...MASKED, axis: 'lenght' },
      "ragged.axis: expected a symbolic axis of the inputs (length), got 'lenght'",
    ],
    [
      'the batch axis',
      { ...MASKED, axis: 'batch' },
      "ragged.axis: expected a symbolic axis of the inputs (length), got 'batch'",
    ],
    [
      'an input without its element',
      { ...MASKED, pad: { values: 0 } },
      'ragged.pad: expected each of values, mask, got values',
    ],
    ['no elements at all', { ...MASKED, pad: {} }, 'ragged.pad: expected each of values, mask, got none'],
    [
      'an input that is none',
      { ...MASKED, pad: { values: 0, mask: 0, x: 0 } },
      'ragged.pad: expected each of values, mask, got values, mask, x',
    ],
    ['an element of another datatype', { ...MASKED, pad: { values: 0, mask: true } }, 'ragged.pad.mask'],
    [
      'an output that is none',
      { ...MASKED, cut: { values: 1 } },
      'ragged.cut: expected some of mean, doubled, got values',
    ],
    [
      'an axis of an output that has one size',
      { ...MASKED, cut: { mean: 1 } },
      'ragged.cut.mean: expected a symbolic axis of [batch, 1] other than the batch axis 0, got 1',
    ],
    [
      'an axis that an output does not have',
      { ...MASKED, cut: { doubled: 2 } },
      'ragged.cut.doubled: expected a symbolic axis of [batch, length] other than the batch axis 0, got 2',
    ],
    ['a rung twice', { ...MASKED, ladder: [4, 4] }, 'expected an array of whole numbers from 1 to 65536, each once'],
    ['an empty ladder', { ...MASKED, ladder: [] }, 'ladder'],
    [
      'the batch axis of an output',
      { ...MASKED, cut: { doubled: 0 } },
      'ragged.cut.doubled: expected a symbolic axis of [batch, length] other than the batch axis 0, got 0',
    ],
    ['a key that is none', { ...MASKED, pads: {} }, '"pads"'],
    ['no axis', { pad: MASKED.pad }, 'axis'],
  ])('is refused for %s, naming it', async (_, ragged, message) => {
    await expect(openOnly(maskedMeanModel(), { ragged })).rejects.toThrow(message);
  });

  it('is refused for a model without symbolic axes', async () => {
    const opening = openOnly(identityModel(), { ragged: { axis: 'length', pad: {} } });
    await expect(opening).rejects.toThrow("expected a symbolic axis of the inputs (it has none), got 'length'");
  });
});

describe('readRagged', () => {
  const contract = (...inputs: ReturnType<typeof spec>[]) => ({ inputs, outputs: [], bakedRows: undefined });

  it.each<[Datatype, unknown, unknown]>([
    ['INT64', 7, 7n],
    ['UINT64', '18446744073709551615', 2n ** 64n - 1n],
    ['BOOL', true, 1],
    ['BYTES', '[PAD]', '[PAD]'],
    ['FP64', 'NaN', Number.NaN],
    ['UINT8', 255, 255],
  ])('reads an element of %s as a tensor holds it: %j', (datatype, pad, held) => {
    const config = { axis: 'length', pad: { x: pad as number } };
    const { inputs } = readRagged(
      config,
      contract(spec('x', datatype, 'batch', 2, 'length'), spec('y', 'FP32', 'batch')),
    );
    expect(inputs).toEqual([{ axis: 2, pad: held }, undefined]);
  });

  it.each<[Datatype, number | boolean | string]>([
    ['INT64', 0.5],
    ['INT64', 2 ** 60],
    ['UINT8', 256],
    ['BOOL', 0],
    ['BYTES', 0],
    ['FP32', 'zero'],
    ['FP32', false],
  ])('refuses an element that %s does not hold: %j', (datatype, pad) => {
    const config = { axis: 'length', pad: { x: pad } };
    expect(() => readRagged(config, contract(spec('x', datatype, 'batch', 'length')))).toThrow(/^ragged\.pad\.x/);
  });

  it('refuses an axis that an input, or an output, has twice', () => {
    const square = spec('x', 'FP32', 'batch', 'length', 'length');
    const config = { axis: 'length', pad: { x: 0 } };
    expect(() => readRagged(config, contract(square))).toThrow(
      "ragged.axis: expected 'length' once in input 'x', got [batch, length, length]",
    );
    const outputs = { ...contract(spec('x', 'FP32', 'batch', 'length')), outputs: [square] };
    expect(() => readRagged(config, outputs)).toThrow("expected 'length' once in output 'x'");
  });

  it('cuts the axis of an output that the model names otherwise', () => {
    const outputs = [spec('y', 'FP32', 'batch', 'length_out')];
    const { outputs: cut } = readRagged(
      { axis: 'length', pad: { x: 0 }, cut: { y: 1 } },
      { ...contract(spec('x', 'FP32', 'batch', 'length')), outputs },
    );
    expect(cut).toEqual([1]);
  });

  it('counts axes as the model does, and not with the rows first', () => {
    const outputs = [
      { ...spec('y', 'FP32', 'batch', 'steps', 'length'), batchAxis: 2 },
      { ...spec('z', 'FP32', 'batch', 'steps', 2), batchAxis: 1 },
    ];
    const read = (cut: Record<string, number>) =>
      readRagged(
        { axis: 'length', pad: { x: 0 }, cut },
        { inputs: [{ ...spec('x', 'FP32', 'batch', 'length'), batchAxis: 1 }], outputs },
      );
    expect(read({ y: 0, z: 0 })).toMatchObject({ inputs: [{ axis: 1, pad: 0 }], outputs: [1, 1] });
    expect(read({ y: 1 }).outputs).toEqual([2, undefined]);
    expect(() => read({ z: 1 })).toThrow(
      'ragged.cut.z: expected a symbolic axis of [steps, batch, 2] other than the batch axis 1, got 1',
    );
    expect(() => read({ z: 2 })).toThrow('ragged.cut.z: ');
  });

  it('cuts an axis of an output whose shape the model does not say', () => {
    const config = { axis: 'length', pad: { x: 0 }, cut: { y: 1 } };
    const inputs = [spec('x', 'FP32', 'batch', 'length')];
    expect(readRagged(config, { inputs, outputs: [spec('y', 'FP32')] }).outputs).toEqual([1]);
  });
});
