import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, readdir, rm, watch } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DeleteBucketCommand, DeleteObjectCommand } from '@aws-sdk/client-s3';
import { describe, expect, it } from '@jest/globals';
import { stageImage } from '../../../../infra/image/stageImage.ts';
import { PART_BYTES } from '../../../../lambda/aws/fetchModels.ts';
import { digests, fetching, filesIn, someBytes, useS3Server } from '../../../helpers/awsServers.ts';
import { type Finished, REPOSITORY, runScript } from '../../../helpers/command.ts';
import { giveAnswer, neverAnswers, refusesXml, type Step } from '../../../helpers/frontServer.ts';
import { largeModel, lookupModel, modelWithWeightsIn } from '../../../helpers/onnxModels.ts';
import { afterThisTest, modelsDirectory, openModels, type RepositoryFiles } from '../../../helpers/openModels.ts';

const server = useS3Server();

const SMALL: RepositoryFiles = {
  'lookup/1/model.onnx': lookupModel(),
  'lookup/config.json': {},
  'lookup/train.py': 'x',
};
/** Three parts of one file. */
const LARGE: RepositoryFiles = {
  'lookup/1/model.onnx': modelWithWeightsIn('weights.bin'),
  'lookup/1/weights.bin': someBytes(2 * PART_BYTES + 99),
};

function environment(endpoint = server.endpoint()): Record<string, string> {
  return { AWS_ENDPOINT_URL_S3: endpoint, AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' };
}

function publish(args: readonly string[], endpoint?: string): Promise<Finished> {
  return runScript('cli/batchscore.ts', ['publish', ...args], { env: environment(endpoint) });
}

/** Keys, without what they all begin with. */
async function keysIn(bucket: string, uri: string): Promise<string[]> {
  const folder = uri.trim().replace(`s3://${bucket}/`, '');
  return (await server.keys(bucket)).map((key) => key.replace(`${folder}/`, ''));
}

describe('batchscore publish', () => {
  it('puts what an image would get under the digest of its content, and prints the URI', async () => {
    const bucket = await server.bucket();
    const folder = join(REPOSITORY, 'models');

    const { code, stdout, stderr } = await publish([folder, `s3://${bucket}/team/models/`]);

    expect(stdout).toMatch(new RegExp(`^s3://${bucket}/team/models/[0-9a-f]{64}\n$`));
    expect(stderr).toMatch(
      /^left out, because no host needs it: tickets\/phrases\.json, tickets\/tokenizer-cases\.jsonl; .*\n6 files, [\d.]+ KiB: 6 uploaded, 0 there before; set models to the URI in infra\/app\.ts, and deploy\n$/,
    );
    expect(code).toBe(0);
    const staged = stageImage({ modelsDirectory: folder, architecture: 'x86_64', stage: 'lambda' });
    afterThisTest(() => rm(staged, { recursive: true }));
    const inImage = await filesIn(join(staged, 'models'));
    expect(await keysIn(bucket, stdout)).toEqual([
      'manifest.json',
      ...Object.keys(inImage)
        .map((path) => `models/${path}`)
        .toSorted(),
    ]);
    const { fetch } = await fetching(server);
    expect(digests(await filesIn(await fetch(stdout.trim())))).toEqual(digests(inImage));
  });

  it('puts a large model with its weights apart, as an image has it', async () => {
    const bucket = await server.bucket();
    const folder = await modelsDirectory({ 'large/1/model.onnx': largeModel() });

    const { code, stdout, stderr } = await publish([folder, `s3://${bucket}`]);
    const { stdout: again } = await publish([folder, `s3://${bucket}`]);

    expect([code, again]).toEqual([0, stdout]);
    expect(stderr).toMatch(/^2 files, 16 MiB: 2 uploaded/);
    const staged = stageImage({ modelsDirectory: folder, architecture: 'x86_64', stage: 'lambda' });
    afterThisTest(() => rm(staged, { recursive: true }));
    const { fetch } = await fetching(server);
    const published = await fetch(stdout.trim());
    expect(digests(await filesIn(published))).toEqual(digests(await filesIn(join(staged, 'models'))));
    const { repository, log } = await openModels({}, { directory: published });
    expect(repository.models).toHaveLength(1);
    expect(log).toEqual([expect.stringContaining('rows are independent')]);
  });

  it('puts large files in parts, and nothing that is there already', async () => {
    const bucket = await server.bucket();
    const folder = await modelsDirectory(LARGE);
    const first = await publish([folder, `s3://${bucket}`, '--json']);
    const front = await server.front();

    const again = await publish([folder, `s3://${bucket}`, '--json'], front.endpoint);

    const summary = JSON.parse(first.stdout);
    expect(summary).toEqual({
      uri: expect.stringMatching(new RegExp(`^s3://${bucket}/[0-9a-f]{64}$`)),
      files: 2,
      bytes: expect.any(Number),
      uploaded: 2,
      ephemeralStorageMb: 512,
    });
    expect(JSON.parse(again.stdout)).toEqual({ ...summary, uploaded: 0 });
    expect(new Set(front.requests.map(({ method }) => method))).toEqual(new Set(['HEAD']));
    const { fetch } = await fetching(server);
    expect(digests(await filesIn(await fetch(summary.uri)))).toEqual(digests(await filesIn(folder)));
  });

  it('gives other content another URI beside the first, and equal content the same', async () => {
    const bucket = await server.bucket();
    const folder = await modelsDirectory(SMALL);
    const { stdout: before } = await publish([folder, `s3://${bucket}/m`]);
    await appendFile(join(folder, 'lookup/config.json'), '\n');

    const { stdout: after } = await publish([folder, `s3://${bucket}/m`]);
    const { stdout: elsewhere } = await publish([await modelsDirectory(SMALL), `s3://${bucket}/m`]);

    expect(after).not.toBe(before);
    expect(elsewhere).toBe(before);
    const { fetch } = await fetching(server);
    expect(Object.keys(await filesIn(await fetch(before.trim()))).toSorted()).toEqual([
      'lookup/1/model.onnx',
      'lookup/config.json',
    ]);
  });

  it('puts again what is there with other content, as long as it was put by somebody else', async () => {
    const bucket = await server.bucket();
    const folder = await modelsDirectory(SMALL);
    const { stdout: uri } = await publish([folder, `s3://${bucket}/m`]);
    await server.put(bucket, `${uri.trim().replace(`s3://${bucket}/`, '')}/models/lookup/config.json`, '[]');

    const { stderr } = await publish([folder, `s3://${bucket}/m`]);

    expect(stderr).toContain('1 uploaded, 1 there before');
    const { fetch } = await fetching(server);
    await expect(fetch(uri.trim())).resolves.toEqual(expect.any(String));
  });

  it('writes the manifest last, and none when a file is not taken; a part that was taken is removed', async () => {
    const bucket = await server.bucket();
    const folder = await modelsDirectory(LARGE);
    const refusePart: Step = (exchange) =>
      exchange.path.includes('partNumber=3') ? refusesXml(403, 'AccessDenied')(exchange) : giveAnswer(exchange);
    const front = await server.front(...Array<Step>(20).fill(refusePart));

    const { code, stdout, stderr } = await publish([folder, `s3://${bucket}/m`], front.endpoint);

    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^batchscore: s3:\/\/.*\/models\/lookup\/1\/weights\.bin: expected the bucket to take it, got AccessDenied: AccessDenied it is; check the bucket and your permissions, then run the same command again\n$/,
    );
    expect((await server.keys(bucket)).filter((key) => !key.endsWith('model.onnx'))).toEqual([]);
    expect(front.requests.at(-1)).toMatchObject({ method: 'DELETE', path: expect.stringContaining('uploadId=') });
  });

  it('ends with Ctrl-C, leaves no parts behind, and goes on when it is run again', async () => {
    const bucket = await server.bucket();
    const folder = await modelsDirectory(LARGE);
    const reached = Promise.withResolvers<void>();
    const holdPart: Step = async (exchange) => {
      if (!exchange.path.includes('partNumber=2')) return giveAnswer(exchange);
      reached.resolve();
      await neverAnswers(exchange);
    };
    const front = await server.front(...Array<Step>(20).fill(holdPart));
    const script = fileURLToPath(new URL('../../../../cli/batchscore.ts', import.meta.url));
    const child = spawn(process.execPath, [script, 'publish', folder, `s3://${bucket}/m`], {
      env: { ...process.env, ...environment(front.endpoint) },
    });
    await reached.promise;
    child.kill('SIGINT');

    expect(await once(child, 'close')).toEqual([130, null]);
    // A part that was on its way may be read after the upload is removed.
    expect(front.requests).toContainEqual(
      expect.objectContaining({ method: 'DELETE', path: expect.stringContaining('uploadId=') }),
    );
    expect((await publish([folder, `s3://${bucket}/m`])).code).toBe(0);
    for (const Key of await server.keys(bucket))
      await server.client().send(new DeleteObjectCommand({ Bucket: bucket, Key }));
    // The server keeps a bucket that has unfinished uploads.
    await server.client().send(new DeleteBucketCommand({ Bucket: bucket }));
  });

  it('leaves no copy of a large model behind where it is ended while it makes one', async () => {
    const folder = await modelsDirectory({ 'one/1/model.onnx': largeModel(), 'two/1/model.onnx': largeModel() });
    const TMPDIR = await modelsDirectory({ 'kept/1/file': '' });
    const front = await server.front(...Array<Step>(20).fill(neverAnswers));
    const script = fileURLToPath(new URL('../../../../cli/batchscore.ts', import.meta.url));
    const changes = watch(TMPDIR);
    const child = spawn(process.execPath, [script, 'publish', folder, 's3://bucket/m'], {
      env: { ...process.env, ...environment(front.endpoint), TMPDIR },
    });
    for await (const _ of changes) break;
    child.kill('SIGINT');

    expect(await once(child, 'close')).toEqual([130, null]);
    expect(await readdir(TMPDIR)).toEqual(['kept']);
  });

  it.each([
    ['no place', ['models', 'bucket/models'], 2, /expected s3:\/\/BUCKET\/PREFIX, .* got 'bucket\/models'/],
    [
      'a place that holds a published one',
      ['models', `s3://bucket/${'0'.repeat(64)}`],
      2,
      /without a digest at its end/,
    ],
    [
      'no bucket',
      ['models', 's3://no-bucket/models'],
      1,
      /got NoSuchBucket: .*; check the bucket and your permissions/,
    ],
  ])('says in one sentence what is wrong: %s', async (_, args, code, message) => {
    const finished = await publish(args);

    expect(finished).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(message) });
    expect(finished.stderr).not.toContain('    at ');
  });

  it('refuses what a deployment would refuse, and puts nothing', async () => {
    const bucket = await server.bucket();

    const { stderr } = await publish([await modelsDirectory({ 'lookup/1/model.onnx': '' }), `s3://${bucket}/m`]);

    expect(stderr).toMatch(/^batchscore: models: .*model\.onnx: expected an ONNX model, got an empty file; /);
    expect(await server.keys(bucket)).toEqual([]);
  });
});
