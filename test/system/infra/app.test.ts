import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { REPOSITORY, runScript } from '../../helpers/command.ts';

const outdir = mkdtempSync(join(tmpdir(), 'batchscore-app-'));
afterAll(() => rmSync(outdir, { recursive: true }));

const { context: ofFile } = JSON.parse(readFileSync(join(REPOSITORY, 'cdk.json'), 'utf8'));

/** The app as `cdk synth -c …` runs it. */
function synth(context: Readonly<Record<string, unknown>>) {
  const env = { CDK_OUTDIR: outdir, CDK_CONTEXT_JSON: JSON.stringify({ ...ofFile, ...context }) };
  return runScript('infra/app.ts', [], { env });
}

describe('the app', () => {
  it('makes a template and an image asset, and says nothing', async () => {
    expect(await synth({ compute: 'lambda', results: 'queue,table', encryption: 'kms' })).toEqual({
      code: 0,
      stdout: '',
      stderr: '',
    });
    const { Resources, Outputs } = JSON.parse(readFileSync(join(outdir, 'Batchscore.template.json'), 'utf8'));
    const types = Object.values<{ Type: string }>(Resources).map(({ Type }) => Type);
    expect(types).toEqual(
      expect.arrayContaining(['AWS::Lambda::Function', 'AWS::DynamoDB::Table', 'AWS::KMS::Key', 'AWS::SQS::Queue']),
    );
    expect(Object.keys(Outputs)).toEqual(expect.arrayContaining(['requestQueueUrl', 'resultTable', 'region']));
    const { dockerImages } = JSON.parse(readFileSync(join(outdir, 'Batchscore.assets.json'), 'utf8'));
    const [image] = Object.values<{ source: Record<string, string> }>(dockerImages);
    expect(image?.source).toMatchObject({ dockerBuildTarget: 'lambda', platform: 'linux/arm64' });
  });

  it('makes the image of a worker with CUDA, without models where they are in S3', async () => {
    const uri = `s3://ml-models/${'0'.repeat(64)}`;
    const context = { compute: 'ecs-gpu', capacity: 'asg', encryption: 'kms', minimumTasks: '1', models: uri };
    expect(await synth(context)).toEqual({ code: 0, stdout: '', stderr: '' });
    const { dockerImages } = JSON.parse(readFileSync(join(outdir, 'Batchscore.assets.json'), 'utf8'));
    const [image] = Object.values<{ source: Record<string, string> }>(dockerImages);
    expect(image?.source).toMatchObject({ dockerBuildTarget: 'worker-gpu', platform: 'linux/amd64' });
    expect(readdirSync(join(outdir, image?.source.directory ?? '', 'models'))).toEqual([]);
    expect(readFileSync(join(outdir, 'Batchscore.template.json'), 'utf8')).toContain(uri);
  });

  it('refuses with one sentence and no stack trace', async () => {
    const { code, stdout, stderr } = await synth({ models: 'nowhere' });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^.*expected a folder of the model repository.*\n$/);
  });
});
