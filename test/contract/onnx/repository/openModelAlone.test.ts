import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { type OnnxModelRepository, openModelAlone } from '../../../../lambda/onnx/repository.ts';
import { identityModel } from '../../../helpers/onnxModels.ts';
import { afterThisTest, found, modelsDirectory, type RepositoryFiles } from '../../../helpers/openModels.ts';

const MODEL = identityModel();

async function openAlone(files: RepositoryFiles, path: string): Promise<OnnxModelRepository> {
  const repository = await openModelAlone(join(await modelsDirectory(files), path), {
    maxBatchRows: 512,
    maxBatchElements: 4_194_304,
    providers: ['cpu'],
    allowProviderFallback: false,
    warn: () => {},
  });
  afterThisTest(() => repository.close());
  return repository;
}

const DIGITS = {
  'digits/config.json': { maxBatchRows: 7 },
  'digits/2/model.onnx': MODEL,
  'digits/10/model.onnx': MODEL,
};

describe('a model alone', () => {
  it('is the highest version of a model folder, under the name of the folder', async () => {
    const repository = await openAlone(DIGITS, 'digits');

    const model = { name: 'digits', version: '10', maxBatchRows: 7 };
    expect(await found(repository.find('digits', '10'))).toMatchObject(model);
  });

  it('in the file of a version has its name, its version and its settings from the folders', async () => {
    const repository = await openAlone(DIGITS, 'digits/2/model.onnx');

    const model = { name: 'digits', version: '2', maxBatchRows: 7 };
    expect(await found(repository.find('digits', '2'))).toMatchObject(model);
    expect(await repository.find('model', undefined)).toMatchObject({ code: 'UNKNOWN_MODEL' });
    expect(await repository.find('digits', '10')).toMatchObject({ code: 'UNKNOWN_VERSION' });
  });

  it.each([
    ['elsewhere/1/other.onnx', 'other'],
    ['elsewhere/latest/model.onnx', 'model'],
  ])('in any other file has the name of the file, and the settings beside it: %s', async (path, name) => {
    const settings = {
      [join(path, '../config.json')]: { maxBatchRows: 5 },
      'elsewhere/config.json': { maxBatchRows: 6 },
    };
    const repository = await openAlone({ ...settings, [path]: MODEL }, path);

    expect(await found(repository.find(name, '1'))).toMatchObject({ name, version: '1', maxBatchRows: 5 });
  });

  it('needs no name in a request', async () => {
    const repository = await openAlone(DIGITS, 'digits/2/model.onnx');

    expect(await found(repository.find(undefined, undefined))).toMatchObject({ name: 'digits', version: '2' });
  });
});
