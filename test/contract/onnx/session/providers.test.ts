import { describe, expect, it } from '@jest/globals';
import { identityModel } from '../../../helpers/onnxModels.ts';
import { counting, openOnly } from '../../../helpers/openModels.ts';

const MODEL = identityModel();

/** The package comes without the libraries of CUDA and TensorRT: neither is available where nobody installs them. */
describe('an execution provider that is not available', () => {
  it('stops the start, naming the model file, the provider and the libraries it needs', async () => {
    const opening = openOnly(MODEL, {}, { providers: ['cuda', 'cpu'] });

    await expect(opening).rejects.toThrow(
      /model\.onnx: execution provider 'cuda' is not available \(.+\); .*libonnxruntime_providers_shared\.so and libonnxruntime_providers_cuda\.so/,
    );
  });

  it('is passed over with one warning where that is allowed: the next one runs the model', async () => {
    const { model, warnings } = await openOnly(MODEL, {}, { providers: ['cuda', 'cpu'], allowProviderFallback: true });

    expect(warnings).toEqual([
      expect.stringMatching(/model\.onnx: execution provider 'cuda' is not available .*; falling back to cpu as conf/),
    ]);
    expect((await model.run([counting('x', 2, 3)])).outputs[0]?.data).toEqual(Float32Array.of(1, 2, 3, 4, 5, 6));
  });

  it('is passed over as often as it takes', async () => {
    const providers = ['tensorrt', 'cuda', 'cpu'];
    const { warnings } = await openOnly(MODEL, {}, { providers, allowProviderFallback: true });

    expect(warnings).toEqual([
      expect.stringMatching(/'tensorrt' is not available .*; falling back to cuda, cpu/),
      expect.stringMatching(/'cuda' is not available .*; falling back to cpu/),
    ]);
  });

  it('stops the start when there is no next one to fall back to', async () => {
    const opening = openOnly(MODEL, {}, { providers: ['cuda'], allowProviderFallback: true });

    await expect(opening).rejects.toThrow(/'cuda' is not available/);
  });
});

describe('an execution provider that ONNX Runtime does not know', () => {
  it.each([[true], [false]])('is refused, naming it and the known ones (fallback allowed: %s)', async (allowed) => {
    const opening = openOnly(MODEL, {}, { providers: ['gpu', 'cpu'], allowProviderFallback: allowed });

    await expect(opening).rejects.toThrow(/model\.onnx: .*expected execution providers among .*cuda.*, got gpu$/);
  });

  it('is refused behind a known one too', async () => {
    await expect(openOnly(MODEL, {}, { providers: ['cpu', 'gpu', 'tpu'] })).rejects.toThrow(/got gpu, tpu$/);
  });
});
