import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { hungryModel, putModel } from '../contract/cli/models.ts';
import {
  ask,
  docPage,
  type Finished,
  freePort,
  jsonLines,
  LOWEST,
  LOWEST_MAJOR,
  MANIFEST,
  outcomeOf,
  pretendingToBe,
  REPOSITORY,
  runScript,
  startDev,
  TOO_LOW,
} from '../helpers/command.ts';
import { LICENSE_TEXT, licensesIn, packagesBundledIn } from '../helpers/licenses.ts';
import { blocksOf } from './recipes/blocks.ts';

const run = promisify(execFile);

describe('the packed package', () => {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-package-'));
  const installed = join(folder, 'node_modules', 'batchscore');
  const bare = mkdtempSync(join(tmpdir(), 'batchscore-bare-'));
  const installedBare = join(bare, 'node_modules', 'batchscore');

  beforeAll(async () => {
    await mkdir(installed, { recursive: true });
    const packed = await run('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: REPOSITORY });
    const tarball = packed.stdout.trim().split('\n').at(-1) ?? '';
    await run('tar', ['xzf', join(folder, tarball), '-C', installed, '--strip-components=1']);
    await linkPackages(await packagesOfRepository(), join(folder, 'node_modules'));
    await writeFile(join(folder, 'package.json'), '{"type": "module"}');
    await cp(installed, installedBare, { recursive: true });
    await linkPackages(Object.keys(MANIFEST.dependencies), join(bare, 'node_modules'));
  }, 240_000);
  afterAll(async () => {
    for (const made of [folder, bare]) await rm(made, { recursive: true });
  });

  it('holds what was compiled, and neither tests nor models nor sources', async () => {
    const entries = await readdir(installed, { recursive: true });
    expect(entries).toEqual(
      expect.arrayContaining([
        'dist/client/index.js',
        'dist/client/index.d.ts',
        'dist/infra/image/cuda.txt',
        'dist/infra/hosts/worker/worker.js',
        'dist/infra/hosts/worker/healthCheck.js',
        'dist/infra/hosts/worker/sessionWorker.js',
        'cli/bin.js',
      ]),
    );
    expect(entries.filter((name) => /\.ts$/.test(name) && !/\.d\.ts$/.test(name))).toEqual([]);
    expect(entries.filter((name) => /^(test|models|infra|bench)\b/.test(name))).toEqual([]);
  });

  it('holds the licence of each package whose code is bundled', async () => {
    for (const part of ['infra/hosts/lambda', 'infra/hosts/worker', 'infra/image']) {
      const folder = join(installed, 'dist', part);
      const packages = packagesBundledIn(folder);
      expect(packages).not.toEqual([]);
      const licenses = licensesIn(folder);
      expect([part, Object.keys(licenses)]).toEqual([part, packages]);
      for (const [name, text] of Object.entries(licenses))
        expect([name, text]).toEqual([name, expect.stringMatching(LICENSE_TEXT)]);
    }
    expect(await readdir(join(installed, 'dist/infra/image'))).toContain('onnxruntime-license.txt');
  });

  it('declares nothing that an older library of types does not know', async () => {
    const declarations = (await readdir(installed, { recursive: true })).filter((name) => name.endsWith('.d.ts'));
    const texts = await Promise.all(declarations.map((name) => readFile(join(installed, name), 'utf8')));
    expect(texts.length).toBeGreaterThan(50);
    // Those of Node that are installed here bring it along; those of Node 22 do not.
    const newer = /(?<!\{\s*readonly |`)\bFloat16Array/;
    expect(declarations.filter((_, index) => newer.test(texts[index] ?? ''))).toEqual([]);
  });

  it('loads at most forty files for the client', async () => {
    const url = pathToFileURL(join(installed, 'dist', 'client', 'index.js')).href;
    await writeFile(
      join(folder, 'loaded.mjs'),
      `import { registerHooks } from 'node:module';
       const own = new Set();
       registerHooks({ load: (url, context, next) => { if (url.includes('/batchscore/dist/')) own.add(url); return next(url, context); } });
       await import('${url}');
       console.log(own.size);`,
    );
    const { stdout } = await run(process.execPath, ['loaded.mjs'], { cwd: folder });
    expect(Number(stdout)).toBeGreaterThan(20);
    expect(Number(stdout)).toBeLessThanOrEqual(40);
  });

  it('gives a consumer the client with its types', async () => {
    await writeFile(
      join(folder, 'consumer.ts'),
      `import { Batchscore, type OutputTensors, type ScoreRequest, ScoringError, SubmitError } from 'batchscore';
       const queue = (name: string) => \`https://sqs.eu-central-1.amazonaws.com/1/\${name}.fifo\`;
       const unclaimed: string[] = [];
       const client = new Batchscore({
         requestQueueUrl: queue('requests'),
         resultQueueUrl: queue('results'),
         region: 'eu-central-1',
         onUnclaimed: ({ messageId }) => void unclaimed.push(messageId),
       });
       const scores: (data: Float32Array) => Promise<OutputTensors> = (data) => client.score({ image: { data, shape: [1, 64] } });
       const requests: ScoreRequest[] = [{ body: { instances: [[1]] }, group: 'g' }];
       for (const name of ['a', 'b']) requests.push({ id: name, inputs: { x: { data: [[1, 2]], datatype: 'FP32' } } });
       // @ts-expect-error the model belongs into the body
       requests.push({ body: {}, model: 'digits' });
       // @ts-expect-error numbers need a datatype
       requests.push({ inputs: { x: { data: [[1, 2]] } } });
       const signal = AbortSignal.abort(new Error('enough'));
       // @ts-expect-error a message ID is a string
       const ids: Promise<number[]> = client.submit(requests, { signal });
       const error: unknown = await ids.catch((reason: unknown) => reason);
       if (!(error instanceof SubmitError)) throw error;
       console.log(typeof scores, error.accepted.length, error.message.split(';')[0], ScoringError.name);
       await client.close();`,
    );
    await typecheck(folder, 'consumer.ts', ['--exactOptionalPropertyTypes', '--skipLibCheck', 'false']);
    const { stdout } = await run(process.execPath, ['consumer.ts'], { cwd: folder });
    expect(stdout).toBe('function 0 aborted: enough ScoringError\n');
  });

  it('gives a transform its types, and the transforms of the repository compile beside it', async () => {
    await writeFile(
      join(folder, 'transform.ts'),
      `import type { BatchHook, Transform, TransformBody, TransformContext, TransformInput, TransformOutputs } from 'batchscore';
       export const decodeBatch: BatchHook<TransformBody, readonly TransformInput[]> = (bodies, { signal }: TransformContext) =>
         bodies.map(({ x }) => {
           if (signal.aborted) return new Error('too late');
           return [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [Number(x)] }];
         });
       export const encode = ({ y }: TransformOutputs): unknown => y?.data[0];
       export const both: Transform = { decodeBatch, encode };
       // @ts-expect-error an input has a datatype
       export const wrong: TransformInput = { name: 'x', shape: [1], data: [1] };`,
    );
    await typecheck(folder, 'transform.ts', ['--exactOptionalPropertyTypes', '--skipLibCheck', 'false']);
    const own = [
      '--lib',
      'esnext',
      '--resolveJsonModule',
      '--allowImportingTsExtensions',
      '--noUncheckedIndexedAccess',
    ];
    for (const example of ['models/tickets', 'examples/features']) {
      await cp(join(REPOSITORY, example), join(folder, example), { recursive: true });
      await typecheck(folder, join(example, 'transform.ts'), own);
    }
  });

  it('gives a function behind the result queue its handler with its types', async () => {
    await writeFile(
      join(folder, 'behind.ts'),
      `import { S3 } from '@aws-sdk/client-s3';
       import type { SQSHandler } from 'aws-lambda';
       import { consumeResults, type SingleResult } from 'batchscore/consumer';
       const seen: SingleResult[] = [];
       const s3 = new S3({ region: 'eu-central-1' });
       export const handler = consumeResults((result) => seen.push(result), { s3, payloadBucket: 'payloads' });
       const typed: (...given: Parameters<SQSHandler>) => unknown = handler;
       const attributes = { ApproximateReceiveCount: '1', SentTimestamp: '1' };
       const messageAttributes = { messageId: { stringValue: 'm-1' } };
       const record = { messageId: 'r-1', receiptHandle: 'h', body: '{"predictions":[1]}', attributes, messageAttributes, eventSourceARN: 'arn' };
       console.log(typeof typed, JSON.stringify(await handler({ Records: [record] })), JSON.stringify(seen));`,
    );
    await typecheck(folder, 'behind.ts');
    const { stdout } = await run(process.execPath, ['behind.ts'], { cwd: folder });
    expect(stdout).toBe('function {"batchItemFailures":[]} [{"messageId":"m-1","predictions":[1]}]\n');
  });

  it('gives a CDK app the construct with its types, and an image of its own files', async () => {
    await writeFile(
      join(folder, 'app.ts'),
      `import { App, Duration, Stack } from 'aws-cdk-lib';
       import { Architecture } from 'aws-cdk-lib/aws-lambda';
       import { BatchScoring, type ComputeForm, type FunctionCompute, lambdaCompute, type ResultStore } from 'batchscore/infra';
       // @ts-expect-error a store is named by its kind
       const wrong: ResultStore = 'topic';
       const onX86 = lambdaCompute({ architecture: Architecture.X86_64, timeout: Duration.seconds(30) });
       const form: ComputeForm<FunctionCompute> = onX86;
       const app = new App({ outdir: 'cdk.out' });
       const scoring = new BatchScoring(new Stack(app, 'Shop'), 'Scoring', {
         models: '${join(REPOSITORY, 'models')}',
         compute: form,
       });
       console.log(wrong, Object.keys(scoring.clientOptions).join(), scoring.compute.function.node.path);
       app.synth();`,
    );
    await typecheck(folder, 'app.ts');
    const { stdout } = await run(process.execPath, ['app.ts'], { cwd: folder });
    expect(stdout).toBe(
      'topic requestQueueUrl,deadLetterQueueUrl,resultQueueUrl,payloadBucket,region Shop/Scoring/Compute-lambda/Function\n',
    );
    const staged = (await readdir(join(folder, 'cdk.out'))).find((name) => name.startsWith('asset.')) ?? '';
    expect(await readdir(join(folder, 'cdk.out', staged))).toEqual(
      expect.arrayContaining(['Dockerfile', 'handler.js', 'models', 'node_modules', 'sessionWorker.js']),
    );
  });

  it('gives an app that `cdk init` made the construct, as docs/construct.md has it, in CommonJS', async () => {
    const shop = join(folder, 'shop');
    await mkdir(shop);
    const command = (script: string, ...args: readonly string[]) =>
      run(process.execPath, [join(REPOSITORY, 'node_modules', script), ...args], { cwd: shop });
    await command('aws-cdk/bin/cdk', 'init', 'app', '--language', 'typescript', '--generate-only');
    for (const { name, text } of blocksOf(docPage('construct.md')).filter(({ name }) => name !== '')) {
      await writeFile(join(shop, name), text);
    }
    // What stands in for the packages that the template has and the repository has not: @types/jest, tsx and @swc/jest.
    await writeFile(join(shop, 'jest.d.ts'), 'declare function test(name: string, run: () => void): void;');
    await cp(join(REPOSITORY, 'models', 'digits'), join(shop, 'models', 'digits'), { recursive: true });
    const types = ['--types', 'node', '--typeRoots', join(REPOSITORY, 'node_modules', '@types')];
    await command('typescript/bin/tsc', '--noEmit', 'false', '--outDir', 'built', ...types);
    const config = JSON.stringify({ roots: ['<rootDir>/built/test'], transform: {}, testEnvironment: 'node' });
    const tested = await command('jest/bin/jest.js', '--config', config);
    await command('aws-cdk/bin/cdk', 'synth', '--quiet', '--app', `${process.execPath} built/bin/shop.js`);
    const staged = (await readdir(join(shop, 'cdk.out'))).find((name) => name.startsWith('asset.')) ?? '';

    expect(tested.stderr).toMatch(/1 passed, 1 total/);
    expect(await readdir(join(shop, 'cdk.out', staged))).toEqual(
      expect.arrayContaining(['Dockerfile', 'handler.js', 'models', 'sessionWorker.js']),
    );
  }, 240_000);

  it('has a command that scores a file', async () => {
    await writeFile(join(folder, 'in.jsonl'), `{"instances":[[${new Array(64).fill(0)}]]}\n`);
    const args = ['score', join(REPOSITORY, 'models', 'digits'), 'in.jsonl'];
    const { stdout } = await run(process.execPath, [join(installed, 'cli', 'bin.js'), ...args], { cwd: folder });
    expect(JSON.parse(stdout)).toMatchObject({ message_id: '1', model_name: 'digits', predictions: [{}] });
  });

  it('serves the models of the folder that it is run in, on the port that is asked for', async () => {
    const root = join(folder, 'shop-models');
    const [command, port] = [join(installed, 'cli', 'bin.js'), await freePort()];
    await putModel(join(root, 'models'), 'own', hungryModel());
    const dev = await startDev(['--port', `${port}`, '--batch-size', '1', '--window', '0'], {
      cwd: root,
      command: [command, 'dev'],
    });
    await dev.says(/^ready for own\/1; Ctrl-C stops$/);
    await writeFile(join(root, 'stack.json'), dev.firstLine);
    await writeFile(join(root, 'in.jsonl'), '{"id":"a","model_name":"own","instances":[{"x":[7],"room":[1]}]}\n');
    const batchscore = (...args: string[]) => runScript(command, [...args, '--stack', 'stack.json'], { cwd: root });

    expect(await batchscore('submit', 'in.jsonl')).toMatchObject({ code: 0, stderr: '' });
    expect(await batchscore('collect', 'in.jsonl.ids', '--out', 'out.jsonl')).toMatchObject({ code: 0, stderr: '' });
    const [result] = jsonLines(await readFile(join(root, 'out.jsonl'), 'utf8'));
    expect(result).toMatchObject({ id: 'a', model_name: 'own', predictions: [[7]] });
    expect(dev.stack.endpoint).toBe(`http://127.0.0.1:${port}`);
    // The page and what it consists of, which no compiler sees.
    const page = await ask(dev.stack.page ?? '', {});
    const parts = [...page.text.matchAll(/(?:href|src)="(\/[^"]+)"/g)].map(([, path = '']) => path);
    const answers = await Promise.all(parts.map((path) => ask(dev.stack.page ?? '', { path })));
    expect([parts.length, answers.map(({ status }) => status)]).toEqual([3, answers.map(() => 200)]);
    expect(await dev.interrupt()).toBe(0);
  });

  it('measures a model, in processes of compiled code', async () => {
    const model = join(REPOSITORY, 'models', 'digits');
    const args = ['profile', model, '--max-rows', '2', '--seconds', '1', '--no-write', '--json'];
    const { stdout } = await run(process.execPath, [join(installed, 'cli', 'bin.js'), ...args], { cwd: folder });
    expect(JSON.parse(stdout)).toMatchObject({ model: 'digits', versions: { batchscore: MANIFEST.version } });
  });

  describe.each(nodesOnPath())('with its dependencies alone, without ONNX Runtime, on Node %s', (version, node) => {
    const batchscore = (...args: readonly string[]): Promise<Finished> =>
      outcomeOf(run(node, [join(installedBare, 'cli', 'bin.js'), ...args], { cwd: bare }));

    if (majorOf(version) < LOWEST_MAJOR) {
      it('refuses a Node that is too old', async () => {
        expect(await batchscore('--help')).toEqual(tooOld(version));
      });
      return;
    }

    it('gives a consumer the client', async () => {
      const script = "import { Batchscore } from 'batchscore'; console.log(typeof Batchscore)";
      const { stdout } = await run(node, ['--input-type=module', '--eval', script], { cwd: bare });
      expect(stdout).toBe('function\n');
    });

    it.each(['submit', 'collect', 'score'])('has the command %s, which says how it is used', async (name) => {
      const { code, stdout, stderr } = await batchscore(name, '--help');
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toMatch(`Usage: batchscore ${name} `);
    });

    it('says in one sentence what `dev` lacks', async () => {
      const { code, stdout, stderr } = await batchscore('dev');
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(/^batchscore: dev: expected [^\n]*, got none; run npm install --save-dev fauxqs\n$/);
    });

    it('says in one sentence what `score` lacks', async () => {
      await writeFile(join(bare, 'in.jsonl'), '{}\n');
      const { code, stdout, stderr } = await batchscore('score', join(REPOSITORY, 'models', 'digits'), 'in.jsonl');
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(
        /^batchscore: expected the package onnxruntime-node, got none: [^\n]*; run npm install onnxruntime-node [^\n]*\n$/,
      );
    });
  });

  it('runs on the lowest Node that its manifest allows, and refuses an older one', async () => {
    const asNode = (version: string, ...args: readonly string[]): Promise<Finished> => {
      const command = [join(installed, 'cli', 'bin.js'), ...args];
      return outcomeOf(run(process.execPath, command, { cwd: folder, env: pretendingToBe(version) }));
    };
    const { stdout: help, ...done } = await asNode(LOWEST, '--help');
    const names = [...help.matchAll(/^ {2}(\w+) /gm)].map(([, name = '']) => name);
    const helps = await Promise.all(names.map((name) => asNode(LOWEST, name, '--help')));

    expect(done).toEqual({ code: 0, stderr: '' });
    expect(helps).toEqual(
      names.map((name) => ({ code: 0, stderr: '', stdout: expect.stringMatching(`Usage: batchscore ${name} `) })),
    );
    expect(names).toHaveLength(9);
    expect(await asNode(TOO_LOW, '--help')).toEqual(tooOld(TOO_LOW));
  });
});

function tooOld(version: string): Finished {
  const stderr = `batchscore: expected Node ${LOWEST_MAJOR} or newer, got ${version}; install a newer Node\n`;
  return { code: 1, stdout: '', stderr };
}

/** This Node, and every other one that this machine has on its path, by version. */
function nodesOnPath(): [version: string, path: string][] {
  const nodes = new Map([[process.versions.node, process.execPath]]);
  for (const directory of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(directory, 'node');
    if (!existsSync(path)) continue;
    const version = execFileSync(path, ['--version'], { encoding: 'utf8' }).trim().slice(1);
    if (!nodes.has(version)) nodes.set(version, path);
  }
  return [...nodes];
}

function majorOf(version: string): number {
  return Number(version.split('.')[0]);
}

/** Declarations of packages too, and for a program whose `lib` is older than this repository's. */
async function typecheck(folder: string, file: string, options: readonly string[] = []): Promise<void> {
  const strict = '--noEmit --strict --module nodenext --target es2022 --lib es2023 --types node'.split(' ');
  const types = ['--typeRoots', join(REPOSITORY, 'node_modules', '@types')];
  const tsc = join(REPOSITORY, 'node_modules', 'typescript', 'bin', 'tsc');
  await run(process.execPath, [tsc, ...strict, ...options, ...types, file], { cwd: folder });
}

/** The names of what the repository has installed. */
async function packagesOfRepository(): Promise<string[]> {
  const names = await readdir(join(REPOSITORY, 'node_modules'));
  return names.filter((name) => !name.startsWith('.') && name !== 'batchscore');
}

/** The repository's packages stand in for an installation. */
async function linkPackages(names: readonly string[], target: string): Promise<void> {
  for (const name of names) {
    await mkdir(dirname(join(target, name)), { recursive: true });
    await symlink(join(REPOSITORY, 'node_modules', name), join(target, name));
  }
}
