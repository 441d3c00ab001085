import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { localBucketClient } from '../../cli/local/buckets.ts';
import { type RunningDev, runScript, startDev } from '../helpers/command.ts';
import { fileOf, row } from './local/jobs/setup.ts';

const clients: S3Client[] = [];
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'batchscore-dev-jobs-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
  for (const client of clients.splice(0)) client.destroy();
});

async function put({ stack }: RunningDev, rows: readonly string[]): Promise<(prefix: string) => Promise<string>> {
  const s3 = localBucketClient(stack.s3Endpoint, stack.region);
  clients.push(s3);
  const Bucket = stack.jobBucket ?? '';
  await s3.send(new PutObjectCommand({ Bucket, Key: 'jobs/in/rows.jsonl', Body: fileOf(rows) }));
  return async (end) => {
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: 'jobs/out/' }));
    const Key = Contents.find(({ Key: key }) => key?.endsWith(end))?.Key;
    const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
    return (await Body?.transformToString()) ?? '';
  };
}

describe('npm run dev', () => {
  it('says where jobs are, and scores a file that is put there', async () => {
    const dev = await startDev();
    expect(dev.stack).toMatchObject({
      jobBucket: 'batchscore-jobs',
      jobStateMachine: expect.stringMatching(/^arn:aws:states:us-east-1:/),
      jobInputPrefix: 'jobs/in/',
      jobOutputPrefix: 'jobs/out/',
      sfnEndpoint: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
    });
    const read = await put(dev, [row(1), 'no row', row(2)]);
    await dev.says(/^job \w+: done, /);
    const results = (await read('data/part-000000-0000-000000000.jsonl')).trimEnd().split('\n');
    expect(results.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ id: 'row-1', outputs: expect.any(Array) }),
      expect.objectContaining({ code: 'INVALID_JSON' }),
      expect.objectContaining({ id: 'row-2', outputs: expect.any(Array) }),
    ]);
    expect(JSON.parse(await read('manifest.json'))).toMatchObject({ rows: 3, errors: { INVALID_JSON: 1 } });
    expect(await dev.interrupt()).toBe(0);
  });

  it('takes the commands: a job is cancelled, resumed and fetched, with a result for every row, in order', async () => {
    const env = { BATCHSCORE_JOBS_PART_BYTES: '20000', BATCHSCORE_JOBS_PIECE_BYTES: '1000' };
    const dev = await startDev([], { env });
    const stackFile = join(folder, 'stack.json');
    writeFileSync(stackFile, dev.firstLine);
    const job = (...args: string[]) => runScript('cli/batchscore.ts', ['job', ...args, '--stack', stackFile]);
    const rows = Array.from({ length: 3000 }, (_, turn) => row(turn));
    await put(dev, rows);
    await dev.says(/^job \w+: jobs\/in\/rows\.jsonl$/);

    // What was put is a job already: to submit it is to be told which.
    const { stdout } = await job('submit', 's3://batchscore-jobs/jobs/in/rows.jsonl', '--json');
    const { job: id, isNew } = JSON.parse(stdout);
    expect(isNew).toBe(false);
    expect(await job('cancel', id)).toMatchObject({ code: 0 });
    await dev.says(new RegExp(`^job ${id}: cancelled$`));
    expect(await job('status', id)).toMatchObject({ code: 1 });

    expect(await job('resume', id)).toMatchObject({ code: 0 });
    await dev.says(new RegExp(`^job ${id}-2: done, `));
    const out = join(folder, 'out.jsonl');
    expect(await job('fetch', id, '--out', out)).toMatchObject({ code: 0, stderr: '' });
    const results = readFileSync(out, 'utf8').trimEnd().split('\n');
    expect(results.map((line) => JSON.parse(line).id)).toEqual(rows.map((_, turn) => `row-${turn}`));
    expect(await dev.interrupt()).toBe(0);
  });

  it('ends on Ctrl-C within a job', async () => {
    const env = { BATCHSCORE_JOBS_PART_BYTES: '20000', BATCHSCORE_JOBS_PIECE_BYTES: '1000' };
    const dev = await startDev([], { env });
    await put(
      dev,
      Array.from({ length: 5000 }, (_, turn) => row(turn)),
    );
    await dev.says(/^job \w+: jobs\/in\/rows\.jsonl$/);
    expect(await dev.interrupt()).toBe(0);
  });

  it('refuses sizes of jobs that are none', async () => {
    const env = { BATCHSCORE_JOBS_PIECE_BYTES: 'many' };
    const { code, stderr } = await runScript('cli/dev.ts', ['--port', '0'], { env });
    expect(code).toBe(1);
    expect(stderr).toContain('configuration: BATCHSCORE_JOBS_PIECE_BYTES: ');
  });
});
