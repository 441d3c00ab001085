import { existsSync, readFileSync } from 'node:fs';
import { rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { modelWithWeightsIn } from '../../helpers/onnxModels.ts';
import { filesIn, folderWith, stageFor } from './staging.ts';

describe('the models in it', () => {
  it('come with their settings, samples and profiles, and without what nobody reads', async () => {
    const needed = [
      'a/1/model.onnx',
      'a/1/profile.json',
      'a/2/model.onnx',
      'a/config.json',
      'a/samples.jsonl',
      'b.py/1/model.onnx',
    ];
    const hidden = ['.gitignore', 'README.md', '__pycache__/shared.pyc', 'a/.venv/bin/python', 'a/README.md'];
    const silent = [
      'a/__pycache__/train.pyc',
      'a/requirements.txt',
      'a/held-out.jsonl',
      'a/train.py',
      'a/1/profile.html',
    ];
    const told = ['a/1/optimizer.bin', 'a/1/samples.jsonl', 'a/node_modules/tool/index.js', 'a/old.onnx', 'train.csv'];
    const modelsDirectory = await folderWith(...needed, ...hidden, ...silent, ...told);
    await writeFile(join(modelsDirectory, 'a/config.json'), '{}');
    const said: string[] = [];

    const folder = stageFor({ modelsDirectory, inform: (message) => void said.push(message) });

    expect(filesIn(join(folder, 'models'))).toEqual(needed);
    expect(said).toEqual([
      'left out, because no host needs it: a/1/optimizer.bin, a/1/samples.jsonl, a/node_modules/, a/old.onnx, train.csv; ' +
        'what a transform reads is taken if its code names the file',
    ]);
  });

  it('come with the weights that they keep in other files', async () => {
    const modelsDirectory = await folderWith('a/1/model.onnx', 'a/1/w.bin', 'a/1/parts/w.bin', 'a/1/other.bin');
    await writeFile(join(modelsDirectory, 'a/1/model.onnx'), modelWithWeightsIn('parts/w.bin'));

    const folder = stageFor({ modelsDirectory });

    expect(filesIn(join(folder, 'models'))).toEqual(['a/1/model.onnx', 'a/1/parts/w.bin']);
  });

  it('are there whatever the names of their folders, which may look like what training left', async () => {
    const models = ['a.md', 'a.py', 'held-out.digits', 'requirements.txt'];
    const needed = models.map((name) => `${name}/1/model.onnx`);

    const folder = stageFor({ modelsDirectory: await folderWith(...needed) });

    expect(filesIn(join(folder, 'models'))).toEqual(needed);
  });

  it('are left out where they lie elsewhere, and their folder is there, which the Dockerfile copies', () => {
    const folder = join(stageFor({ modelsDirectory: undefined }), 'models');

    expect([existsSync(folder), filesIn(folder)]).toEqual([true, []]);
  });

  it('are there where the repository only links to them', async () => {
    const elsewhere = await folderWith('weights.onnx');
    const modelsDirectory = await folderWith('digits/1/note.txt');
    await symlink(join(elsewhere, 'weights.onnx'), join(modelsDirectory, 'digits/1/model.onnx'));

    const folder = stageFor({ modelsDirectory });

    expect(readFileSync(join(folder, 'models/digits/1/model.onnx'), 'utf8')).toBe('weights.onnx');
  });

  it('may be links, but not one that leads nowhere, or back', async () => {
    const modelsDirectory = await folderWith('digits/1/model.onnx');
    await symlink(modelsDirectory, join(modelsDirectory, 'digits/again'));
    expect(() => stageFor({ modelsDirectory })).toThrow(
      `${modelsDirectory}/digits/again: expected files, got a link to a folder that it is in; remove it`,
    );
    await rm(join(modelsDirectory, 'digits/again'));
    await symlink('/nowhere', join(modelsDirectory, 'digits/gone'));
    expect(() => stageFor({ modelsDirectory })).toThrow(
      `${modelsDirectory}/digits/gone: expected a file, got a link to nothing; correct or remove it`,
    );
  });
});
