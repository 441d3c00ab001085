import { symlinkSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { branchWithWeightsIn, identityModel, modelWithWeightsIn } from '../../helpers/onnxModels.ts';
import { modelsDirectory, openModels, putFile } from '../../helpers/openModels.ts';

const MODEL = identityModel();
const FILE = 'lazy/1/model.onnx';

/** Two models and no default: nothing is loaded at the start, so what stops it is the check of the files. */
async function repositoryAround(contents: Uint8Array | string): Promise<{ directory: string; path: string }> {
  const directory = await modelsDirectory({ 'other/1/model.onnx': MODEL, [FILE]: contents });
  return { directory, path: join(directory, FILE) };
}

describe('a broken model file stops the start, though no request has named its model', () => {
  it('when it is missing', async () => {
    const { directory, path } = await repositoryAround(MODEL);
    await rm(path);

    await expect(openModels({}, { directory })).rejects.toThrow(
      `${path}: expected an ONNX model, got no file that can be opened; put model.onnx there`,
    );
  });

  it.each([
    ['text', '# a read me that was renamed to model.onnx\n'],
    ['zeros', new Uint8Array(100)],
    ['a model with zeros behind it', Uint8Array.from([...MODEL, 0, 0])],
    ['protobuf without a graph', Uint8Array.of(0x08, 0x08, 0x12, 0x01, 0x61)],
  ])('when it is %s', async (_, contents) => {
    const { directory, path } = await repositoryAround(contents);

    await expect(openModels({}, { directory })).rejects.toThrow(`${path}: expected an ONNX model, got a file that is`);
  });

  it('when Git LFS has not fetched it', async () => {
    const { directory, path } = await repositoryAround(
      'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 69761\n',
    );

    await expect(openModels({}, { directory })).rejects.toThrow(
      `${path}: expected an ONNX model, got a file that is a pointer of Git LFS to it; run: git lfs pull`,
    );
  });

  it('when it was cut short, at whatever byte', async () => {
    const { directory, path } = await repositoryAround(MODEL);
    const passed: number[] = [];

    for (let bytes = 1; bytes < MODEL.length; bytes++) {
      await putFile(path, MODEL.subarray(0, bytes));
      const message = await messageOfOpening(directory);
      if (!message?.startsWith(`${path}: expected`)) passed.push(bytes);
    }

    expect(passed).toEqual([]);
  });
});

describe('weights in another file', () => {
  const WEIGHTS = new Uint8Array(new Float32Array([1, 2, 3]).buffer);
  const inFolder = (model: Uint8Array, files: Parameters<typeof modelsDirectory>[0] = {}) =>
    modelsDirectory({ 'm/1/model.onnx': model, ...files });

  it.each([
    ['of the graph', modelWithWeightsIn('model.onnx.data')],
    ['of a branch', branchWithWeightsIn('model.onnx.data')],
  ])('%s are used where they lie beside the model, and missed where they do not', async (_, model) => {
    const complete = await inFolder(model, { 'm/1/model.onnx.data': WEIGHTS });
    await expect(openModels({}, { directory: complete })).resolves.toBeDefined();

    const directory = await inFolder(model);
    await expect(openModels({}, { directory })).rejects.toThrow(
      `${directory}/m/1/model.onnx: expected its weights in the file 'model.onnx.data' beside it, got none; put it there, ` +
        'or export the model as one file',
    );
  });

  it('are missed where their name is none that a file can have', async () => {
    const directory = await inFolder(modelWithWeightsIn('w\0.bin'));
    await expect(openModels({}, { directory })).rejects.toThrow('expected its weights in the file');
  });

  it('of a model that is damaged are refused in a sentence, at whatever byte', async () => {
    const { directory, path } = await repositoryAround(MODEL);
    const model = modelWithWeightsIn('weights.bin');
    const bugs: string[] = [];

    for (let at = 0; at < model.length; at++) {
      // Eight bytes of a number that goes on.
      await putFile(path, Uint8Array.from(model).fill(0xff, at, at + 8));
      const message = await messageOfOpening(directory);
      if (message !== undefined && !message.startsWith(`${path}: expected`)) bugs.push(`${at}: ${message}`);
    }

    expect(bugs).toEqual([]);
  });

  it('are refused where they lie outside of the folder, as ONNX Runtime has it', async () => {
    const directory = await inFolder(modelWithWeightsIn('../w.bin'), { 'm/w.bin': WEIGHTS });

    await expect(openModels({}, { directory })).rejects.toThrow(
      `${directory}/m/1/model.onnx: expected its weights in files beside it, got '../w.bin', which ONNX Runtime does not`,
    );

    const linked = await inFolder(modelWithWeightsIn('w.bin'), { 'm/w.bin': WEIGHTS });
    symlinkSync('../w.bin', `${linked}/m/1/w.bin`);
    await expect(openModels({}, { directory: linked })).rejects.toThrow("got 'w.bin', a link out of the folder");
  });
});

async function messageOfOpening(directory: string): Promise<string | undefined> {
  return openModels({}, { directory }).then(
    () => undefined,
    (error: Error) => error.message,
  );
}
