import { describe, expect, it } from '@jest/globals';
import { endlessModel } from '../../../helpers/onnxModels.ts';
import { openOnly, tensor } from '../../../helpers/openModels.ts';

describe('a run that asks ONNX Runtime for more memory than there is', () => {
  it('is told from other failures, and the next run goes on', async () => {
    const { model } = await openOnly(endlessModel(), { warmup: false });
    const one = () => model.run([tensor('x', 'FP32', [1, 1], Float32Array.of(1))]);
    const outOfMemory = {
      name: 'OutOfMemoryError',
      message: expect.stringContaining('the run needed more memory than there is: '),
    };
    await expect(one()).rejects.toMatchObject(outOfMemory);
    await expect(one()).rejects.toMatchObject(outOfMemory);
  });
});
