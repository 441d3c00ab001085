import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { FileSystem } from 'aws-cdk-lib/core';
import type { ImageStage } from '../../../infra/image/stageImage.ts';
import { REPOSITORY } from '../../helpers/command.ts';
import { LICENSE_TEXT, licensesIn, packagesBundledIn } from '../../helpers/licenses.ts';
import { copySources, filesIn, folderWith, inOwnProcess, scratch, stageFor, stagingCode } from './staging.ts';

const run = promisify(execFile);

/** What several entries share, or only some starts need, in files that are named by their content. */
const SHARED_CODE = /^[\w-]+-[0-9A-Z]{8}\.js$/;

const MODULE = join(REPOSITORY, 'infra', 'image', 'stageImage.ts');
const STAGE = stagingCode();

/** A repository of a model with a tokenizer. */
async function textModels(): Promise<string> {
  const models = await folderWith('text/1/model.onnx', 'text/config.json', 'text/tokenizer.json');
  await writeFile(join(models, 'text/config.json'), '{"tokenizer": "tokenizer.json"}');
  return models;
}

describe('the folder of an image', () => {
  it('holds the handler, those of jobs and their worker, the models, their runtime and the Dockerfile, and nothing else', () => {
    const folder = stageFor();

    const [others, packages] = [false, true].map((wanted) =>
      filesIn(folder).filter((file) => file.startsWith('node_modules/') === wanted && !SHARED_CODE.test(file)),
    );
    // A profile is measured by whoever likes to.
    expect(others?.filter((file) => !file.endsWith('/profile.json'))).toEqual([
      'Dockerfile',
      'THIRD-PARTY-LICENSES',
      'handler.js',
      'jobControl.js',
      'jobScore.js',
      'models/digits/1/model.onnx',
      'models/digits/samples.jsonl',
      'models/tickets/1/model.onnx',
      'models/tickets/config.json',
      'models/tickets/samples.jsonl',
      'models/tickets/transform.mjs',
      'package.json',
      'scorerProcess.js',
      'sessionWorker.js',
    ]);
    expect(new Set(packages?.map((file) => file.split('/')[1]))).toEqual(
      new Set(['onnxruntime-common', 'onnxruntime-node']),
    );
    expect(packages?.filter((file) => /\.(d\.ts|map|md)$|\/(test|src|docs)\//.test(file))).toEqual([]);
  });

  it('holds the worker in place of the handler where it is for one, with its health check', () => {
    const code = (stage: ImageStage) =>
      filesIn(stageFor({ stage })).filter((file) => /^[^/]+\.js$/.test(file) && !SHARED_CODE.test(file));

    expect(code('lambda-gpu')).toEqual([
      'handler.js',
      'jobControl.js',
      'jobScore.js',
      'scorerProcess.js',
      'sessionWorker.js',
    ]);
    expect(code('worker')).toEqual(['healthCheck.js', 'scorerProcess.js', 'sessionWorker.js', 'worker.js']);
    expect(code('worker-gpu')).toEqual(code('worker'));
  });

  it('holds every file that its code starts as a thread', () => {
    for (const stage of ['lambda', 'worker'] as const) {
      const folder = stageFor({ stage });
      const files = filesIn(folder).filter((file) => /^[^/]+\.js$/.test(file));
      const code = files.map((file) => readFileSync(join(folder, file), 'utf8')).join('\n');

      const threads = [...code.matchAll(/new URL\(`\.\/(\w+)\.\$/g)].map(([, name]) => `${name}.js`);

      expect(threads).toEqual(expect.arrayContaining(['scorerProcess.js', 'sessionWorker.js']));
      expect(filesIn(folder)).toEqual(expect.arrayContaining(threads));
    }
  });

  it.each<ImageStage>(['lambda', 'worker'])(
    'holds the licence of each package in it, and builds it in: %s',
    (stage) => {
      const folder = stageFor({ stage });
      const packages = packagesBundledIn(folder);
      expect(packages.length).toBeGreaterThan(20);
      const licenses = licensesIn(folder);
      expect(Object.keys(licenses)).toEqual(packages);
      for (const [name, text] of Object.entries(licenses))
        expect([name, text]).toEqual([name, expect.stringMatching(LICENSE_TEXT)]);
      expect(Object.values(licenses).join()).not.toMatch(/<year>|<copyright holders?>|\[yyyy\]\[/);
      const [stageOfFile = ''] = readFileSync(join(folder, 'Dockerfile'), 'utf8')
        .split(new RegExp(` AS ${stage}\n`))
        .slice(1);
      expect(stageOfFile.split('\nFROM ')[0]).toMatch(/^COPY .*THIRD-PARTY-LICENSES/m);
    },
  );

  it('holds the licence of ONNX Runtime of this version, and those of what is linked into it', () => {
    const [runtime, common] = ['onnxruntime-node', 'onnxruntime-common'].map((name) =>
      join(stageFor(), 'node_modules', name),
    );
    const text = readFileSync(join(runtime ?? '', 'LICENSE'), 'utf8');
    expect(text).toContain(
      `ONNX Runtime ${JSON.parse(readFileSync(join(runtime ?? '', 'package.json'), 'utf8')).version}`,
    );
    for (const part of ['Copyright (c) Microsoft Corporation', 'protocolbuffers', 'Eigen', 'abseil'])
      expect(text).toContain(part);
    expect(readFileSync(join(common ?? '', 'LICENSE'), 'utf8')).toBe(text);
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

  it.each([
    ['x86_64', 'x64'],
    ['arm64', 'arm64'],
  ] as const)(
    'holds the tokenizers of %s alone, with their licence, if a model has a tokenizer',
    async (architecture, cpu) => {
      const models = await textModels();

      const folder = stageFor({ architecture, modelsDirectory: models });

      expect(filesIn(join(folder, 'node_modules', 'tokenizers'))).toEqual([
        'LICENSE',
        'index.js',
        'package.json',
        `tokenizers.linux-${cpu}-gnu.node`,
      ]);
      expect(filesIn(join(folder, 'models'))).toContain('text/tokenizer.json');
    },
  );

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

describe('staging', () => {
  it('says what to install where ONNX Runtime is missing', async () => {
    const root = await copySources(['esbuild', 'zod', 'aws-cdk-lib', 'constructs']);

    const module = join(root, 'infra', 'image', 'stageImage.ts');
    const said = await inOwnProcess(module, `try { ${STAGE} } catch (error) { console.log(error.message) }`, root);

    expect(said).toBe(
      'onnxruntime-node: expected the package to be installed, got none; run npm install onnxruntime-node --onnxruntime-node-install=skip, and not with --omit=optional',
    );
  });

  it('says what to install where a model has a tokenizer, and the package is missing', async () => {
    const root = await copySources(['esbuild', 'zod', 'aws-cdk-lib', 'constructs']);
    const check = `checkModelsFolder(${JSON.stringify(await textModels())})`;
    const code = `const { checkModelsFolder } = await import('./infra/image/modelsFolder.ts');
      try { ${check} } catch (error) { console.log(error.message) }`;

    const said = await inOwnProcess(join(root, 'infra', 'image', 'stageImage.ts'), code, root);

    expect(said).toMatch(
      /text\/config\.json: expected the package tokenizers, which "tokenizer" needs, got none; run npm install tokenizers,/,
    );
  });

  it('is left out of a template that is made without ONNX Runtime, and an error says so to the commands of the CDK', async () => {
    const root = await copySources(['esbuild', 'zod', 'aws-cdk-lib', 'constructs']);
    const script = `
      const { App, Stack } = await import('aws-cdk-lib');
      const { Template } = await import('aws-cdk-lib/assertions');
      const { BatchScoring } = await import('./infra/index.ts');
      const stack = new Stack(new App({ outdir: 'out' }), 'Shop');
      new BatchScoring(stack, 'Scoring', { models: ${JSON.stringify(join(REPOSITORY, 'models'))}, defaultModel: 'digits' });
      const resources = Template.fromStack(stack).findResources('AWS::Lambda::Function');
      const errors = stack.node.findAll().flatMap(({ node }) => node.metadata.filter(({ type }) => type === 'aws:cdk:error'));
      console.log(JSON.stringify([Object.keys(resources).length, errors.map(({ data }) => data)]));`;

    const said = await inOwnProcess(join(root, 'infra', 'image', 'stageImage.ts'), script, root);

    expect(JSON.parse(said)).toEqual([
      1,
      [expect.stringMatching(/^onnxruntime-node: expected the package to be installed, got none; run npm install/)],
    ]);
  });
});
