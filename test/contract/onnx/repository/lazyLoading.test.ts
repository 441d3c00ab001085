import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { identityModel, unloadableModel } from '../../../helpers/onnxModels.ts';
import { found, openModels, putFile } from '../../../helpers/openModels.ts';

describe('a model that cannot be loaded when a request names it', () => {
  it('is unavailable for that request, and the operator is told which file and why', async () => {
    const { directory, repository, warnings } = await openModels({
      'good/1/model.onnx': identityModel(),
      'bad/1/model.onnx': unloadableModel(),
    });

    const failure = await repository.find('bad', undefined);

    const message = expect.stringContaining(`${join(directory, 'bad/1/model.onnx')}: cannot be loaded: `);
    expect(failure).toMatchObject({ failed: true, code: 'MODEL_UNAVAILABLE', message });
    expect(warnings).toEqual([message]);
  });

  it('is tried again by the next request', async () => {
    const { directory, repository } = await openModels({
      'good/1/model.onnx': identityModel(),
      'bad/1/model.onnx': unloadableModel(),
    });
    await repository.find('bad', undefined);
    await putFile(join(directory, 'bad/1/model.onnx'), identityModel());

    expect(await found(repository.find('bad', undefined))).toMatchObject({ name: 'bad', version: '1' });
  });
});
