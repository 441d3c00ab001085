import { describe, expect, it } from '@jest/globals';
import { checkPadding } from '../../../../lambda/adapters/onnx/startup/checkPadding.ts';
import type { Model } from '../../../../lambda/core/contract/model.ts';
import type { Tensor } from '../../../../lambda/core/tensor/tensor.ts';
import { modelOf, spec } from '../../../helpers/models.ts';
import { maskedMeanModel, plainMeanModel } from '../../../helpers/onnxModels.ts';
import { openOnly } from '../setup.ts';

const MASKED = { axis: 'length', pad: { values: 0, mask: 0 } };

describe('a model whose answers padding changes', () => {
  it('stops the start, naming the output, the lengths and the values', async () => {
    const opening = openOnly(plainMeanModel(), { ragged: { axis: 'length', pad: { values: 0 } } });
    await expect(opening).rejects.toThrow(
      /model\.onnx: output 'mean': expected the same answer with 'length' padded from 4 to 8, got 0\.21875 in place of 0\.4375 at element 0; mask the padding in the model, choose other pad values, or remove "ragged" from config\.json/,
    );
  });

  it('shows between the two lowest rungs', async () => {
    const opening = openOnly(plainMeanModel(), { ragged: { axis: 'length', pad: { values: 0 }, ladder: [64, 5, 2] } });
    await expect(opening).rejects.toThrow('padded from 2 to 5, got 0.125 in place of 0.3125');
  });

  it('shows at the length of the warm-up', async () => {
    const opening = openOnly(plainMeanModel(), {
      ragged: { axis: 'length', pad: { values: 0 } },
      warmup: { length: 3 },
    });
    await expect(opening).rejects.toThrow('padded from 3 to 6');
  });

  it('shows when the mask is padded with what counts', async () => {
    const opening = openOnly(maskedMeanModel(), { ragged: { ...MASKED, pad: { values: 0, mask: 1 } } });
    await expect(opening).rejects.toThrow("output 'mean': expected the same answer with 'length' padded");
  });

  it('shows when an answer becomes none', async () => {
    const opening = openOnly(maskedMeanModel(), { ragged: { ...MASKED, pad: { values: 'NaN', mask: 0 } } });
    await expect(opening).rejects.toThrow('got NaN in place of');
  });

  it('may start where every run is padded to the same rung', async () => {
    const ragged = { axis: 'length', pad: { values: 0 }, ladder: [8] };
    expect((await openOnly(plainMeanModel(), { ragged })).warnings).toEqual([]);
  });

  it('may start where it was not looked at', async () => {
    const ragged = { axis: 'length', pad: { values: 0 } };
    expect((await openOnly(plainMeanModel(), { ragged, warmup: false })).warnings).toEqual([]);
  });

  it('shows at any length, beyond what a function takes as arguments', async () => {
    const ragged = { name: 'length', inputs: [{ axis: 1, pad: 0 }], outputs: [undefined], ladder: [150_000, 300_000] };
    const values = modelOf(
      { inputs: [spec('values', 'FP32', 'batch', 'length')], outputs: [spec('length', 'FP32', 'batch')] },
      { ragged },
    );
    const model: Model = {
      ...values,
      async run([given]) {
        const length = Float32Array.of((given as Tensor).data.length);
        return { outputs: [{ name: 'length', datatype: 'FP32', shape: [1], data: length }], runMs: 1 };
      },
    };
    await expect(checkPadding(model, ragged, {})).rejects.toThrow('got 300000 in place of 150000');
  });

  it('is not overlooked where it leaves out what equals the padding', async () => {
    const ragged = { name: 'length', inputs: [{ axis: 1, pad: 1n }], outputs: [undefined], ladder: [] };
    const tokens = modelOf(
      { inputs: [spec('tokens', 'INT64', 'batch', 'length')], outputs: [spec('share', 'FP32', 'batch')] },
      { ragged },
    );
    const model: Model = {
      ...tokens,
      async run([given]) {
        const ids = [...((given as Tensor).data as BigInt64Array)];
        const share = ids.filter((id) => id !== 1n).length / ids.length;
        return { outputs: [{ name: 'share', datatype: 'FP32', shape: [1], data: Float32Array.of(share) }], runMs: 1 };
      },
    };
    await expect(checkPadding(model, ragged, {})).rejects.toThrow('got 0.5 in place of 1');
  });
});
