import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { checkModelsFolder } from '../../../infra/image/modelsFolder.ts';
import { REPOSITORY } from '../../helpers/command.ts';
import { identityModel, lowerCaseModel, modelWithWeightsIn } from '../../helpers/onnxModels.ts';

const MODEL = identityModel();
const LFS = 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 69761\n';

describe('the model folder', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-models-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const write = (file: string, content: string | Uint8Array): void => {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), content);
  };
  const check =
    (defaultModel?: string, devices = 0) =>
    () =>
      checkModelsFolder(folder, defaultModel, devices);

  it('of this repository is one', () => {
    expect(() => checkModelsFolder(join(REPOSITORY, 'models'), 'digits', 0)).not.toThrow();
  });

  it('may hold several models, several versions and other files', () => {
    for (const file of ['a/1/model.onnx', 'a/12/model.onnx', 'b/2/model.onnx']) write(file, MODEL);
    write('a/config.json', '{}');
    write('README.md', 'mine');
    write('.cache/x', 'hidden');
    write('.cache/1/x', 'hidden');
    write('__pycache__/train.cpython-312.pyc', 'of a script beside the models');
    write('a/draft/notes.txt', 'no version');
    expect(check('b')).not.toThrow();
  });

  it('is refused when it is missing, or empty', () => {
    expect(() => checkModelsFolder(join(folder, 'nope'), undefined, 0)).toThrow(
      `models: ${folder}/nope: expected a folder of the model repository, got none that can be read; check the path`,
    );
    expect(check()).toThrow(`in ${folder}, got no model folder; add a model`);
  });

  it.each([
    [{ devices: [1] }, 2, undefined],
    [{ providers: [{ name: 'cuda', deviceId: 0 }] }, 1, undefined],
    [
      { devices: [0, 1] },
      0,
      'expected no devices, because this compute has none, got 0, 1; remove them, or take lambdaGpuCompute() or ecsGpuCompute()',
    ],
    [
      { devices: [0, 1] },
      1,
      'expected devices 0 to 0, as many as a host has, got 0, 1; name those; gpuCount of ecsGpuCompute() gives a host more',
    ],
    [{ providers: [{ name: 'cuda', deviceId: 2 }] }, 2, 'expected devices 0 to 1, as many as a host has, got 2; name'],
  ])('may name devices that a host has, and no others: %j of %d', (config, devices, message) => {
    write('digits/1/model.onnx', MODEL);
    write('digits/config.json', JSON.stringify(config));
    if (message === undefined) expect(check(undefined, devices)).not.toThrow();
    else expect(check(undefined, devices)).toThrow(`models: ${folder}/digits/config.json: ${message}`);
  });

  it.each([
    ['en_US.UTF-8', true],
    ['C.utf8', true],
    ['POSIX', true],
    ['en_us.UTF-8', false],
    ['c', false],
    ['en_US', false],
  ])('may have text models with a locale of the images, in their letters: %s', (locale, isThere) => {
    write('words/1/model.onnx', lowerCaseModel(locale));
    if (isThere) expect(check()).not.toThrow();
    else expect(check()).toThrow(`got '${locale}'; set locale="C.UTF-8" in the graph`);
  });

  it('is refused when it is the folder of a model, or not where the process looks', () => {
    write('digits/1/model.onnx', MODEL);
    expect(() => checkModelsFolder(join(folder, 'digits'), undefined, 0)).toThrow(
      `got the folder of one model, ${folder}/digits; give its parent, ${folder}`,
    );
    expect(() => checkModelsFolder('no-such-folder', undefined, 0)).toThrow(
      `models: ${resolve('no-such-folder')}: expected`,
    );
  });

  it('is refused when a model has no version', () => {
    write('digits/model.onnx', 'onnx');
    expect(check()).toThrow(`got ${folder}/digits with no version folder; add digits/1/model.onnx`);
  });

  it.each([
    ['under another name', 'digits.onnx', MODEL, 'got no file that can be opened; put model.onnx there'],
    ['empty', 'model.onnx', '', 'got an empty file; export the model again'],
    [
      'text',
      'model.onnx',
      'a model',
      'got a file that is not ONNX; export the model again, for example with torch.onnx',
    ],
    ['not fetched', 'model.onnx', LFS, 'got a file that is a pointer of Git LFS to it; run: git lfs pull'],
  ])('is refused when a version has its ONNX file %s', (_, file, content, got) => {
    write('digits/2/model.onnx', MODEL);
    write(`digits/1/${file}`, content);
    expect(check()).toThrow(new Error(`models: ${folder}/digits/1/model.onnx: expected an ONNX model, ${got}`));
  });

  it('is refused when the weights of a model, which lie beside it, are not there', () => {
    write('digits/1/model.onnx', modelWithWeightsIn('model.onnx.data'));
    expect(check()).toThrow(
      new Error(
        `models: ${folder}/digits/1/model.onnx: expected its weights in the file 'model.onnx.data' beside it, got none; ` +
          'put it there, or export the model as one file',
      ),
    );
    write('digits/1/model.onnx.data', new Uint8Array(12));
    expect(check()).not.toThrow();
  });

  it('is refused when a model was cut short', () => {
    write('digits/1/model.onnx', MODEL.subarray(0, -1));
    expect(check()).toThrow(/digits\/1\/model\.onnx: expected at least \d+ bytes, got \d+; the file was cut short/);
  });

  it.each([
    ['{', 'expected JSON, got something else; fix it or delete the file'],
    ['{"maxBatchRow": 1}', 'got "maxBatchRow"; did you mean maxBatchRows, a whole number from 1 to 65536?'],
  ])('is refused when a host would refuse its config.json: %s', (content, sentence) => {
    write('digits/1/model.onnx', MODEL);
    write('digits/config.json', content);
    expect(check()).toThrow(`models: ${folder}/digits/config.json: `);
    expect(check()).toThrow(sentence);
  });

  it('is refused when the transform of a model is not there', () => {
    write('digits/1/model.onnx', MODEL);
    write('digits/config.json', '{"transform": "transform.ts"}');
    expect(check()).toThrow(
      `models: ${folder}/digits/transform.ts: expected the module that config.json names, got none; add it`,
    );
    write('digits/transform.ts', 'export const decode = (body: unknown) => body;');
    expect(check()).not.toThrow();
  });

  it('is refused for everything that is wrong in it at once', () => {
    write('a/1/model.onnx', 'a model');
    write('b/2/model.onnx', MODEL);
    write('b/config.json', '[]');
    expect(check()).toThrow(/^models: .*a\/1\/model\.onnx: .*; models: .*b\/config\.json: .*$/);
  });

  it('is refused when the default model is not in it', () => {
    write('digits/1/model.onnx', MODEL);
    expect(check('digit')).toThrow(
      "defaultModel: expected one of the repository's models, digits, got 'digit'; name one of them",
    );
  });
});
