import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { checkModelsFolder } from '../../infra/constructs/image/modelsFolder.ts';
import { REPOSITORY } from '../helpers/command.ts';

describe('the model folder', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-models-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const write = (file: string, content: string): void => {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), content);
  };
  const check = (defaultModel?: string) => () => checkModelsFolder(folder, defaultModel);

  it('of this repository is one', () => {
    expect(() => checkModelsFolder(join(REPOSITORY, 'models'), 'digits')).not.toThrow();
  });

  it('may hold several models, several versions and other files', () => {
    for (const file of ['a/1/model.onnx', 'a/12/model.onnx', 'b/2/model.onnx']) write(file, 'onnx');
    write('a/config.json', '{}');
    write('README.md', 'mine');
    write('.cache/x', 'hidden');
    write('a/draft/notes.txt', 'no version');
    expect(check('b')).not.toThrow();
  });

  it('is refused when it is missing', () => {
    expect(() => checkModelsFolder(join(folder, 'nope'), undefined)).toThrow(
      `models: ${folder}/nope: expected a folder of the model repository, got none that can be read; check the path`,
    );
  });

  it('is refused when it is empty', () => {
    expect(check()).toThrow(`in ${folder}, got no model folder, add a model`);
  });

  it('is refused when a model has no version', () => {
    write('digits/model.onnx', 'onnx');
    expect(check()).toThrow(`got ${folder}/digits with no version folder, add digits/1/model.onnx`);
  });

  it.each([
    ['missing', 'digits/1/notes.txt', 'no model'],
    ['empty', 'digits/1/model.onnx', ''],
    ['under another name', 'digits/1/digits.onnx', 'onnx'],
  ])('is refused when a version has its ONNX file %s', (_, file, content) => {
    write(file, content);
    expect(check()).toThrow(
      `models: expected an ONNX model at ${folder}/digits/1/model.onnx, got no file or an empty one, put the model there`,
    );
  });

  it('is refused when the default model is not in it', () => {
    write('digits/1/model.onnx', 'onnx');
    expect(check('digit')).toThrow(
      "defaultModel: expected one of the repository's models, digits, got 'digit', name one of them",
    );
  });
});
