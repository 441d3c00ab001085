import { describe, expect, it } from '@jest/globals';
import { identityModel } from '../../../helpers/onnxModels.ts';
import { openOnly } from '../../../helpers/openModels.ts';

const MODEL = identityModel();

describe('providers in config.json', () => {
  it('take the place of the deployment’s', async () => {
    const { model } = await openOnly(MODEL, { providers: ['cpu'] }, { providers: ['no-such-provider'] });

    expect(model.name).toBe('model');
  });

  it('may be objects, with the number of a card', async () => {
    const providers = [{ name: 'cuda', deviceId: 3 }, { name: 'cpu' }];
    const { warnings } = await openOnly(MODEL, { providers }, { allowProviderFallback: true });

    expect(warnings).toEqual([expect.stringMatching(/'cuda' is not available .*; falling back to cpu as configured/)]);
  });

  it.each([
    [{ name: 'cuda', cudnn_conv_algo_search: 'HEURISTIC' }, "deviceId alone of 'cuda', got cudnn_conv_algo_search"],
    [{ name: 'tensorrt', trt_fp16_enable: true }, "deviceId alone of 'tensorrt', got trt_fp16_enable"],
    [{ name: 'cpu', deviceId: 0 }, "no option of 'cpu', got deviceId"],
  ])('are refused with options that ONNX Runtime for Node would ignore: %j', async (provider, expected) => {
    const opening = openOnly(MODEL, { providers: [provider, 'cpu'] }, { allowProviderFallback: true });

    await expect(opening).rejects.toThrow(
      `config.json: not a valid model configuration: providers.0: expected ${expected}, which ONNX Runtime for Node would ignore; remove it`,
    );
  });

  it.each([[-1], [0.5], ['1'], [null]])('are refused with %j for a card', async (deviceId) => {
    const opening = openOnly(MODEL, { providers: [{ name: 'cuda', deviceId }] });

    await expect(opening).rejects.toThrow('providers.0.deviceId');
  });
});
