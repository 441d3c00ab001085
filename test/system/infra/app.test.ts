import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { REPOSITORY, runScript } from '../../helpers/command.ts';

const outdir = mkdtempSync(join(tmpdir(), 'batchscore-app-'));
afterAll(() => rmSync(outdir, { recursive: true }));

const { context } = JSON.parse(readFileSync(join(REPOSITORY, 'cdk.json'), 'utf8'));
const EXAMPLES = globSync('examples/*.ts', { cwd: REPOSITORY });

/** Runs an app as `cdk synth` does, into a folder of its own. */
async function synth(app: string, name = basename(app, '.ts')) {
  const folder = join(outdir, name);
  const env = { CDK_OUTDIR: folder, CDK_CONTEXT_JSON: JSON.stringify(context) };
  const { code, stdout, stderr } = await runScript(app, [], { env });
  return { code, stdout, stderr, read: (pattern: string) => templateIn(folder, pattern) };
}

function templateIn(folder: string, pattern: string) {
  const [file = ''] = globSync(pattern, { cwd: folder });
  return JSON.parse(readFileSync(join(folder, file), 'utf8'));
}

describe('infra/app.ts', () => {
  it('deploys a stack whose queues and buckets have the IDs that they have always had', async () => {
    const { code, stdout, stderr, read } = await synth('infra/app.ts');
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '', stderr: '' });
    const { Resources, Outputs } = read('Batchscore.template.json');
    const holdsData = ([, { Type }]: [string, { Type: string }]) =>
      ['AWS::SQS::Queue', 'AWS::S3::Bucket'].includes(Type);
    const kept = Object.entries<{ Type: string }>(Resources).filter(holdsData);
    expect(kept.map(([id]) => id)).toEqual([
      'ScoringDeadLettersAE55733A',
      'ScoringRequestsFACD77EA',
      'ScoringResults097AE98E',
      'ScoringPayloadBucket78D2D2E0',
    ]);
    expect(Object.keys(Outputs).toSorted()).toEqual([
      'deadLetterQueueUrl',
      'payloadBucket',
      'region',
      'requestQueueUrl',
      'resultQueueUrl',
    ]);
    const [image] = Object.values<{ source: Record<string, string> }>(read('Batchscore.assets.json').dockerImages);
    expect(image?.source).toMatchObject({ dockerBuildTarget: 'lambda', platform: 'linux/arm64' });
  });

  it('takes each change that its comments name, and says of a wrong one what is wrong', async () => {
    const text = readFileSync(join(REPOSITORY, 'infra/app.ts'), 'utf8');
    const changes = [...text.matchAll(/^ {2}\/\/ (\w+: .*,)$/gm)].map(([, change = '']) => change);
    expect(changes.length).toBeGreaterThan(5);
    const imports = `import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { Duration, RemovalPolicy, Size } from 'aws-cdk-lib/core';
import { ecsCompute, lambdaCompute } from './index.ts';\n`;
    const edited = join(REPOSITORY, 'cdk.out', `edited-${process.pid}.ts`);
    mkdirSync(dirname(edited), { recursive: true });
    const edit = async (props: readonly string[]) => {
      const more = text.replace("models: 'models',", `models: 'models',\n${props.join('\n')}`);
      writeFileSync(edited, (imports + more).replaceAll("'./index.ts'", "'../infra/index.ts'"));
      return synth(edited, 'edited');
    };
    try {
      const once = changes.filter((change) => !change.includes('ecsCompute'));
      const { code, stdout, stderr, read } = await edit(once);
      expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '', stderr: '' });
      const types = Object.values<{ Type: string }>(read('Batchscore.template.json').Resources).map(({ Type }) => Type);
      expect(types).toEqual(expect.arrayContaining(['AWS::DynamoDB::Table', 'AWS::KMS::Key']));
      const wrong = await edit(['batchSize: 20_000,']);
      expect(wrong.code).toBe(1);
      expect(wrong.stderr).toContain(
        'ValidationError: Batchscore/Scoring: batchSize: expected a whole number from 1 to 10000, got 20000; choose one in that range\n',
      );
    } finally {
      rmSync(edited);
    }
  });
});

describe('examples', () => {
  it('are apps of 15 to 30 lines', () => {
    expect(EXAMPLES.map((file) => basename(file, '.ts')).toSorted()).toEqual([
      'canary',
      'ecs',
      'ecs-gpu',
      'existing-queue',
      'fifo',
      'gpu-function',
      'jobs',
      'shards',
      'stages',
    ]);
    const lines = EXAMPLES.map((file) => readFileSync(join(REPOSITORY, file), 'utf8').split('\n').length - 1);
    expect(Math.min(...lines)).toBeGreaterThanOrEqual(15);
    expect(Math.max(...lines)).toBeLessThanOrEqual(30);
  });

  it('make templates that pass validation', async () => {
    const all = join(outdir, 'all.mjs');
    // One process: to load the CDK takes longer than each of them.
    const lines = EXAMPLES.map((example) => {
      const folder = JSON.stringify(join(outdir, basename(example, '.ts')));
      return `process.env.CDK_OUTDIR = ${folder}; await import(${JSON.stringify(join(REPOSITORY, example))});`;
    });
    writeFileSync(all, lines.join('\n'));
    const { code, stdout } = await synth(all);
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
    for (const example of EXAMPLES) {
      const { Outputs } = templateIn(join(outdir, basename(example, '.ts')), '*.template.json');
      expect(Object.keys(Outputs)).toEqual(expect.arrayContaining(['requestQueueUrl', 'payloadBucket', 'region']));
    }
  });
});
