import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { type OnnxModelRepository, openModelAlone } from '../../../lambda/onnx/repository.ts';
import { identityModel, unloadableModel } from '../../helpers/onnxModels.ts';
import {
  afterThisTest,
  found,
  modelsDirectory,
  openModels,
  putFile,
  type RepositoryFiles,
} from '../../helpers/openModels.ts';

const MODEL = identityModel();
const GOOD_AND_BAD = { 'good/1/model.onnx': MODEL, 'bad/1/model.onnx': unloadableModel() };
const A_AND_B = { 'a/1/model.onnx': MODEL, 'b/1/model.onnx': MODEL };

describe('the model repository', () => {
  it('lists every model by name, the highest version of each first', async () => {
    const { directory, repository } = await openModels({
      'digits/9/model.onnx': MODEL,
      'digits/10/model.onnx': MODEL,
      'abc/1/model.onnx': MODEL,
    });

    const digits = join(directory, 'digits');
    expect(repository.models).toEqual([
      { name: 'abc', version: '1', path: join(directory, 'abc/1/model.onnx'), folder: join(directory, 'abc') },
      { name: 'digits', version: '10', path: join(digits, '10/model.onnx'), folder: digits },
      { name: 'digits', version: '9', path: join(digits, '9/model.onnx'), folder: digits },
    ]);
  });

  it('passes over files beside the models, hidden folders, and folders that are no version', async () => {
    const { repository } = await openModels({
      'README.md': 'models',
      '.cache/1/model.onnx': 'not a model',
      'digits/README.md': 'digits',
      'digits/training/data.csv': '1,2',
      'digits/0/model.onnx': 'not a model',
      'digits/01/model.onnx': 'not a model',
      'digits/v2/model.onnx': 'not a model',
      'digits/3/model.onnx': MODEL,
    });

    expect(repository.models).toMatchObject([{ name: 'digits', version: '3' }]);
  });

  it('refuses a folder that is not there, naming it', async () => {
    const directory = join(await modelsDirectory({}), 'nowhere');

    await expect(openModels({}, { directory })).rejects.toThrow(
      `${directory}: expected a folder of the model repository, got none that can be read; check the path`,
    );
  });

  it('refuses a model without a version folder, naming it', async () => {
    const directory = await modelsDirectory({ 'digits/model.onnx': MODEL });

    await expect(openModels({}, { directory })).rejects.toThrow(
      `${join(directory, 'digits')}: expected a version folder such as 1/`,
    );
  });

  it('serves the others and says what is wrong with each broken model, if that is asked for', async () => {
    const { repository, warnings, directory } = await openModels(
      {
        ...GOOD_AND_BAD,
        'empty/notes.txt': 'no version',
        'strange/1/model.onnx': MODEL,
        'strange/config.json': { unknown: 1 },
        'truncated/1/model.onnx': MODEL.subarray(0, 20),
      },
      { leavesOutBroken: true, preload: true },
    );
    await found(repository.find('good', undefined));
    expect(warnings.map((warning) => /^not served: \S+?(bad|empty|strange|truncated)/.exec(warning)?.[1])).toEqual([
      'empty',
      'strange',
      'truncated',
      'bad',
    ]);
    expect(await repository.find('empty', undefined)).toMatchObject({ code: 'UNKNOWN_MODEL' });
    // Asked again, it is neither loaded nor told again.
    expect(await repository.find('bad', undefined)).toMatchObject({
      code: 'UNKNOWN_MODEL',
      message: 'model_name: expected one of good, got "bad"; name one of them',
    });
    expect(repository.models.map(({ name }) => name)).toEqual(['good']);
    expect(warnings).toHaveLength(4);
    await rm(join(directory, 'good'), { recursive: true });
    await expect(openModels({}, { directory, leavesOutBroken: true, preload: true })).rejects.toThrow(
      'a model that can be served',
    );
  });
});

describe('the default model', () => {
  it('is the configured one among several', async () => {
    const { repository } = await openModels(
      { 'a/1/model.onnx': MODEL, 'b/2/model.onnx': MODEL },
      { defaultModel: 'b' },
    );

    expect(await found(repository.find(undefined, undefined))).toMatchObject({ name: 'b', version: '2' });
  });

  it('must be in the repository: the start stops and names what is there', async () => {
    const directory = await modelsDirectory(A_AND_B);

    await expect(openModels({}, { directory, defaultModel: 'c' })).rejects.toThrow(
      `default model: expected one of a, b in ${directory}, got 'c'`,
    );
  });
});

describe('a request for a model that is not there', () => {
  it('is told the names when it is the name that is unknown', async () => {
    const { repository } = await openModels(A_AND_B);

    expect(await repository.find('c', undefined)).toMatchObject({
      code: 'UNKNOWN_MODEL',
      message: 'model_name: expected one of a, b, got "c"; name one of them',
    });
  });

  it('is told the versions of its model alone when it is the version that is unknown', async () => {
    const { repository } = await openModels({
      'a/9/model.onnx': MODEL,
      'a/10/model.onnx': MODEL,
      'b/3/model.onnx': MODEL,
    });

    expect(await repository.find('a', '3')).toMatchObject({
      code: 'UNKNOWN_VERSION',
      message: `model_version: expected "10", "9" of model 'a', got "3"; name one of them`,
    });
  });
});

describe('loading', () => {
  it('leaves other models, and other versions of the default one, for the first request that names them', async () => {
    const { repository, warnings } = await openModels(
      { 'a/1/model.onnx': unloadableModel(), 'a/2/model.onnx': MODEL, 'b/1/model.onnx': unloadableModel() },
      { defaultModel: 'a' },
    );

    expect(warnings).toEqual([]);
    expect(await repository.find('b', undefined)).toMatchObject({ code: 'MODEL_UNAVAILABLE' });
    expect(await repository.find('a', '1')).toMatchObject({ code: 'MODEL_UNAVAILABLE' });
  });

  it('loads a model once, however many requests name it at the same time', async () => {
    const { repository } = await openModels(A_AND_B);

    const [first, second] = await Promise.all([
      found(repository.find('a', undefined)),
      found(repository.find('a', '1')),
    ]);

    expect(second).toBe(first);
    expect(await repository.find('a', undefined)).toBe(first);
  });
});

describe('a model that cannot be loaded when a request names it', () => {
  it('is unavailable for that request, and the operator is told which file and why', async () => {
    const { directory, repository, warnings } = await openModels(GOOD_AND_BAD);

    const failure = await repository.find('bad', undefined);

    const message = expect.stringContaining(`${join(directory, 'bad/1/model.onnx')}: cannot be loaded: `);
    expect(failure).toMatchObject({ failed: true, code: 'MODEL_UNAVAILABLE', message });
    expect(warnings).toEqual([message]);
  });

  it('is tried again by the next request', async () => {
    const { directory, repository } = await openModels(GOOD_AND_BAD);
    await repository.find('bad', undefined);
    await putFile(join(directory, 'bad/1/model.onnx'), identityModel());

    expect(await found(repository.find('bad', undefined))).toMatchObject({ name: 'bad', version: '1' });
  });
});

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

const TWO_VERSIONS = {
  'digits/config.json': { maxBatchRows: 7 },
  'digits/2/model.onnx': MODEL,
  'digits/10/model.onnx': MODEL,
};

describe('a model alone', () => {
  it('is the highest version of a model folder, under the name of the folder', async () => {
    const repository = await openAlone(TWO_VERSIONS, 'digits');

    const model = { name: 'digits', version: '10', maxBatchRows: 7 };
    expect(await found(repository.find('digits', '10'))).toMatchObject(model);
  });

  it('in the file of a version has its name, its version and its settings from the folders', async () => {
    const repository = await openAlone(TWO_VERSIONS, 'digits/2/model.onnx');

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
});
