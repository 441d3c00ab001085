import { execFile } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { REPOSITORY } from './helpers/command.ts';

const run = promisify(execFile);

describe('the packed package', () => {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-package-'));
  const installed = join(folder, 'node_modules', 'batchscore');

  beforeAll(async () => {
    await mkdir(installed, { recursive: true });
    const packed = await run('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: REPOSITORY });
    const tarball = packed.stdout.trim().split('\n').at(-1) ?? '';
    await run('tar', ['xzf', join(folder, tarball), '-C', installed, '--strip-components=1']);
    await linkDependencies(join(folder, 'node_modules'));
    await writeFile(join(folder, 'package.json'), '{"type": "module"}');
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('holds what was compiled, and neither tests nor models nor sources', async () => {
    const entries = await readdir(installed, { recursive: true });
    expect(entries).toEqual(expect.arrayContaining(['dist/client/index.js', 'dist/client/index.d.ts', 'cli/bin.js']));
    expect(entries.filter((name) => /\.ts$/.test(name) && !/\.d\.ts$/.test(name))).toEqual([]);
    expect(entries.filter((name) => /^(test|models|infra|bench)\b/.test(name))).toEqual([]);
  });

  it('gives a consumer the client with its types', async () => {
    await writeFile(
      join(folder, 'consumer.ts'),
      `import { Batchscore, type OutputTensors, ScoringError } from 'batchscore';
       const client = new Batchscore({ requestQueueUrl: 'https://sqs.eu-central-1.amazonaws.com/1/requests', region: 'eu-central-1' });
       const scores: (data: Float32Array) => Promise<OutputTensors> = (data) => client.score({ image: { data, shape: [1, 64] } });
       // @ts-expect-error a message ID is a string
       const ids: Promise<number[]> = client.submit([]);
       console.log(typeof scores, typeof ids, ScoringError.name);
       await client.close();`,
    );
    await typecheck(folder, 'consumer.ts');
    const { stdout } = await run(process.execPath, ['consumer.ts'], { cwd: folder });
    expect(stdout).toBe('function object ScoringError\n');
  });

  it('gives a CDK app the construct with its types, and an image of its own files', async () => {
    await writeFile(
      join(folder, 'app.ts'),
      `import { App, Stack } from 'aws-cdk-lib';
       import { BatchScoring, lambdaCompute, type ResultStore } from 'batchscore/infra';
       // @ts-expect-error a store is named by its kind
       const wrong: ResultStore = 'topic';
       const app = new App({ outdir: 'cdk.out' });
       const scoring = new BatchScoring(new Stack(app, 'Shop'), 'Scoring', {
         models: '${join(REPOSITORY, 'models')}',
         compute: lambdaCompute({ architecture: 'x86_64' }),
       });
       console.log(wrong, Object.keys(scoring.clientOptions).join());
       app.synth();`,
    );
    await typecheck(folder, 'app.ts');
    const { stdout } = await run(process.execPath, ['app.ts'], { cwd: folder });
    expect(stdout).toBe('topic requestQueueUrl,deadLetterQueueUrl,resultQueueUrl,payloadBucket,region\n');
    const staged = (await readdir(join(folder, 'cdk.out'))).find((name) => name.startsWith('asset.')) ?? '';
    expect(await readdir(join(folder, 'cdk.out', staged))).toEqual(
      expect.arrayContaining(['Dockerfile', 'handler.js', 'models', 'node_modules', 'sessionWorker.js']),
    );
  });

  it('has a command that scores a file', async () => {
    await writeFile(join(folder, 'in.jsonl'), `{"instances":[[${new Array(64).fill(0)}]]}\n`);
    const args = ['score', join(REPOSITORY, 'models', 'digits'), 'in.jsonl'];
    const { stdout } = await run(process.execPath, [join(installed, 'cli', 'bin.js'), ...args], { cwd: folder });
    expect(JSON.parse(stdout)).toMatchObject({ message_id: '1', model_name: 'digits', predictions: [{}] });
  });
});

async function typecheck(folder: string, file: string): Promise<void> {
  const strict = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--types',
    'node',
  ];
  const types = ['--typeRoots', join(REPOSITORY, 'node_modules', '@types'), '--lib', 'esnext'];
  const tsc = join(REPOSITORY, 'node_modules', 'typescript', 'bin', 'tsc');
  await run(process.execPath, [tsc, ...strict, ...types, file], { cwd: folder });
}

/** The repository's dependencies stand in for an installation. */
async function linkDependencies(target: string): Promise<void> {
  const source = join(REPOSITORY, 'node_modules');
  for (const name of await readdir(source)) {
    if (name.startsWith('.') || name === 'batchscore') continue;
    await symlink(join(source, name), join(target, name));
  }
}
