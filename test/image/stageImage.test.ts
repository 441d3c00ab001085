import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { chmod, cp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { FileSystem } from 'aws-cdk-lib/core';
import type { ImageStage } from '../../infra/image/imageStages.ts';
import { type ImageOptions, stageImage } from '../../infra/image/stageImage.ts';
import { REPOSITORY } from '../helpers/command.ts';
import { copySources, inOwnProcess, linkPackages, stagingCode } from './staging.ts';

const run = promisify(execFile);

const scratch = mkdtempSync(join(tmpdir(), 'batchscore-staging-'));
const staged: string[] = [];
afterEach(() => {
  for (const folder of staged.splice(0)) rmSync(folder, { recursive: true });
});
afterAll(() => rmSync(scratch, { recursive: true }));

function stageFor(options: Partial<ImageOptions> = {}): string {
  const modelsDirectory = join(REPOSITORY, 'models');
  const folder = stageImage({ modelsDirectory, architecture: 'x86_64', stage: 'lambda', ...options });
  staged.push(folder);
  return folder;
}

/** A folder with these files, each holding its own name. */
async function folderWith(...paths: readonly string[]): Promise<string> {
  const folder = mkdtempSync(join(scratch, 'models-'));
  for (const path of paths) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), path);
  }
  return folder;
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
}

const MODULE = join(REPOSITORY, 'infra', 'image', 'stageImage.ts');
const STAGE = stagingCode();

describe('the folder of an image', () => {
  it('holds the handler, those of jobs and their worker, the models, their runtime and the Dockerfile, and nothing else', () => {
    const folder = stageFor();

    const [others, packages] = [false, true].map((wanted) =>
      filesIn(folder).filter((file) => file.startsWith('node_modules/') === wanted),
    );
    // A profile is measured by whoever likes to.
    expect(others?.filter((file) => !file.endsWith('/profile.json'))).toEqual([
      'Dockerfile',
      'handler.js',
      'jobControl.js',
      'jobScore.js',
      'models/digits/1/model.onnx',
      'models/digits/samples.jsonl',
      'models/tickets/1/model.onnx',
      'models/tickets/config.json',
      'models/tickets/labels.json',
      'models/tickets/phrases.json',
      'models/tickets/samples.jsonl',
      'models/tickets/tokenizer-cases.jsonl',
      'models/tickets/tokenizer.ts',
      'models/tickets/transform.ts',
      'package.json',
      'sessionWorker.js',
    ]);
    expect(new Set(packages?.map((file) => file.split('/')[1]))).toEqual(
      new Set(['onnxruntime-common', 'onnxruntime-node']),
    );
    expect(packages?.filter((file) => /\.(d\.ts|map|md)$|\/(test|src|docs)\//.test(file))).toEqual([]);
  });

  it('holds the worker in place of the handler where it is for one, with its health check', () => {
    const code = (stage: ImageStage) => filesIn(stageFor({ stage })).filter((file) => /^[^/]+\.js$/.test(file));

    expect(code('lambda-gpu')).toEqual(['handler.js', 'jobControl.js', 'jobScore.js', 'sessionWorker.js']);
    expect(code('worker')).toEqual(['callThread.js', 'healthCheck.js', 'sessionWorker.js', 'worker.js']);
    expect(code('worker-gpu')).toEqual(code('worker'));
  });

  it('holds every file that its code starts as a thread', () => {
    for (const [stage, entry] of [
      ['lambda', 'handler.js'],
      ['lambda', 'jobScore.js'],
      ['worker', 'worker.js'],
    ] as const) {
      const folder = stageFor({ stage });
      const code = readFileSync(join(folder, entry), 'utf8');

      const threads = [...code.matchAll(/new URL\(`\.\/(\w+)\.\$/g)].map(([, name]) => `${name}.js`);

      expect(threads).toContain('sessionWorker.js');
      expect(filesIn(folder)).toEqual(expect.arrayContaining(threads));
    }
  });

  it.each([
    ['x86_64', 'x64'],
    ['arm64', 'arm64'],
  ] as const)("holds ONNX Runtime's binary for %s alone", (architecture, folder) => {
    const binaries = filesIn(join(stageFor({ architecture }), 'node_modules', 'onnxruntime-node', 'bin'));

    expect(binaries).toEqual(
      ['libonnxruntime.so.1', 'onnxruntime_binding.node'].map((file) => `napi-v6/linux/${folder}/${file}`),
    );
  });

  it('holds the packages that are installed, byte for byte', () => {
    const folder = join(stageFor(), 'node_modules');

    for (const file of filesIn(folder)) {
      expect([
        file,
        readFileSync(join(folder, file)).equals(readFileSync(join(REPOSITORY, 'node_modules', file))),
      ]).toEqual([file, true]);
    }
  });

  it('is the same wherever it is staged from, so that nothing is built or pushed anew', async () => {
    const elsewhere = join(scratch, 'elsewhere');
    await inOwnProcess(
      MODULE,
      `const { cpSync } = await import('node:fs'); cpSync(${STAGE}, ${JSON.stringify(elsewhere)}, { recursive: true });`,
      scratch,
    );

    expect(FileSystem.fingerprint(elsewhere)).toBe(FileSystem.fingerprint(stageFor()));
  });

  it('is another when a model is', async () => {
    const modelsDirectory = await folderWith('digits/1/model.onnx');
    const before = FileSystem.fingerprint(stageFor({ modelsDirectory }));

    await writeFile(join(modelsDirectory, 'digits/1/model.onnx'), 'trained again');

    expect(FileSystem.fingerprint(stageFor({ modelsDirectory }))).not.toBe(before);
  });

  it('goes when the process ends', async () => {
    const folder = await inOwnProcess(MODULE, `console.log(${STAGE});`, scratch);

    expect(folder).toContain('batchscore-image-');
    expect(existsSync(folder)).toBe(false);
  });

  it("can be read by a function's own user, whoever owned the sources", async () => {
    const modelsDirectory = await folderWith('digits/1/model.onnx');
    await chmod(join(modelsDirectory, 'digits/1/model.onnx'), 0o600);
    await chmod(join(modelsDirectory, 'digits'), 0o700);

    const folder = stageFor({ modelsDirectory });

    const modes = ['', 'models/digits', 'models/digits/1/model.onnx', 'handler.js'].map(
      (path) => statSync(join(folder, path)).mode & 0o777,
    );
    expect(modes).toEqual([0o755, 0o755, 0o644, 0o644]);
  });
});

describe('the code in it', () => {
  it.each<ImageStage>(['lambda', 'worker'])('is what Node can read, banner and all: %s', async (stage) => {
    const folder = stageFor({ stage });
    const files = readdirSync(folder).filter((file) => file.endsWith('.js'));
    expect(files.length).toBeGreaterThan(2);
    for (const file of files) await run(process.execPath, ['--check', join(folder, file)]);
  });
});

describe('the models in it', () => {
  it('come without what their training left, and with all that a transform or a version may need', async () => {
    const needed = [
      'a/1/.weights',
      'a/1/README.md',
      'a/1/model.onnx',
      'a/1/samples.jsonl',
      'a/2/model.onnx',
      'a/2/model.onnx.data',
      'a/config.json',
      'a/node_modules/tool/README.md',
      'a/node_modules/tool/index.js',
      'a/samples.jsonl',
      'a/tables/words.jsonl',
      'a/transform.mjs',
      'a/vocabulary.txt',
      'b.py/1/model.onnx',
      'shared.ts',
    ];
    const left = [
      '.gitignore',
      'README.md',
      '__pycache__/shared.pyc',
      'a/.venv/bin/python',
      'a/README.md',
      'a/__pycache__/train.pyc',
      'a/requirements-dev.txt',
      'a/requirements.txt',
      'a/held-out.jsonl',
      'a/train.py',
      'a/1/profile.html',
    ];

    const folder = stageFor({ modelsDirectory: await folderWith(...needed, ...left) });

    expect(filesIn(join(folder, 'models'))).toEqual(needed);
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

  it.each([
    ['an empty folder', []],
    ['a model without a version', ['digits/model.onnx']],
    ['a version without a model', ['digits/1/weights.bin']],
    ['a version that is no number', ['digits/first/model.onnx']],
  ])('must be there: %s', async (_, paths) => {
    const modelsDirectory = await folderWith(...paths);

    expect(() => stageFor({ modelsDirectory })).toThrow(
      `${modelsDirectory}: expected a model repository with <name>/<version>/model.onnx, such as digits/1/model.onnx, got none; add a model, or check the path`,
    );
  });

  it('must be there: no folder', () => {
    expect(() => stageFor({ modelsDirectory: '/nowhere' })).toThrow(
      '/nowhere: expected a folder of the model repository, got none that can be read; check the path',
    );
  });
});

describe('staging', () => {
  it('refuses a GPU beside an arm64 processor', () => {
    expect(() => stageFor({ architecture: 'arm64', stage: 'worker-gpu' })).toThrow(
      'architecture: expected x86_64 with a GPU, because CUDA is built for it, got arm64',
    );
  });

  it('says what to install where ONNX Runtime is missing', async () => {
    const root = await copySources(scratch, ['esbuild']);

    const module = join(root, 'infra', 'image', 'stageImage.ts');
    const said = await inOwnProcess(module, `try { ${STAGE} } catch (error) { console.log(error.message) }`, root);

    expect(said).toBe(
      'onnxruntime-node: expected the package to be installed, got none; run npm install onnxruntime-node --onnxruntime-node-install=skip, and not with --omit=optional',
    );
  });

  it('takes the compiled code where batchscore is installed as a package', async () => {
    const consumer = mkdtempSync(join(scratch, 'consumer-'));
    const installed = join(consumer, 'node_modules', 'batchscore');
    await compileInto(join(installed, 'dist'));
    await linkPackages(consumer, readdirSync(join(REPOSITORY, 'node_modules')));

    const module = join(installed, 'dist', 'infra', 'image', 'stageImage.js');
    const list = (code: string) =>
      `const { readdirSync } = await import('node:fs'); console.log(readdirSync(${code}).join(' '));`;
    const files = await inOwnProcess(module, list(STAGE), consumer);
    const ofWorker = await inOwnProcess(module, list(stagingCode({ stage: 'worker' })), consumer);

    expect(files).toBe(
      'Dockerfile handler.js jobControl.js jobScore.js models node_modules package.json sessionWorker.js',
    );
    expect(ofWorker).toBe(
      'Dockerfile callThread.js healthCheck.js models node_modules package.json sessionWorker.js worker.js',
    );
  });
});

/** As `npm run build` does for these files. */
async function compileInto(dist: string): Promise<void> {
  const config = {
    extends: join(REPOSITORY, 'tsconfig.json'),
    compilerOptions: {
      rootDir: REPOSITORY,
      outDir: dist,
      noEmit: false,
      types: ['node'],
      typeRoots: [join(REPOSITORY, 'node_modules', '@types')],
    },
    include: [],
    files: [
      'infra/image/stageImage.ts',
      'lambda/handler.ts',
      'lambda/jobScore.ts',
      'lambda/jobControl.ts',
      'lambda/worker.ts',
      'lambda/worker/healthCheck.ts',
      'lambda/adapters/sqs/threads/callThread.ts',
      'lambda/adapters/onnx/session/sessionWorker.ts',
    ].map((file) => join(REPOSITORY, file)),
  };
  await mkdir(dist, { recursive: true });
  await writeFile(join(dist, '..', 'package.json'), '{ "name": "batchscore", "type": "module" }');
  await writeFile(join(dist, '..', 'tsconfig.json'), JSON.stringify(config));
  await run(process.execPath, [join(REPOSITORY, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', join(dist, '..')]);
  for (const file of ['Dockerfile', 'cuda.txt', 'cufft.txt']) {
    await cp(join(REPOSITORY, 'infra', 'image', file), join(dist, 'infra', 'image', file));
  }
}
