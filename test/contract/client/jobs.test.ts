import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import { DescribeExecutionCommand } from '@aws-sdk/client-sfn';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Batchscore, type BatchscoreOptions, type JobOptions, type JobStatus } from '../../../client/index.ts';
import { createJobStorage } from '../../../lambda/aws/jobStorage.ts';
import { useS3Server } from '../../helpers/awsServers.ts';
import { startJobsServer } from '../../helpers/jobs.ts';

const server = useS3Server();
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

const ROWS = 40;
const lineOf = (x: number): string => `${JSON.stringify({ id: `${x}`, instances: [[x]] })}\n`;
const FILE = Array.from({ length: ROWS }, (_, x) => lineOf(x)).join('');

async function setUp(options: { waits?: boolean } = {}, other: Partial<BatchscoreOptions> = {}) {
  const bucket = await server.bucket();
  const s3 = server.client();
  await server.put(bucket, 'jobs/in/_mine/a.jsonl', FILE);
  const jobs = await startJobsServer(createJobStorage({ s3, bucket }), options);
  const { sfn, stateMachineArn: jobStateMachine } = jobs;
  const client = new Batchscore({ jobStateMachine, jobBucket: bucket, s3, sfn, region: 'us-east-1', ...other });
  cleanups.push(() => client.close(), jobs.stop);
  return { bucket, client, jobs, uri: `s3://${bucket}/jobs/in/_mine/a.jsonl` };
}

const soon = { pollMs: 5 };

describe('client.jobs', () => {
  it('submits, waits, and gives the results in the order of the input', async () => {
    const { client, uri, bucket } = await setUp();
    const { job, isNew, folder } = await client.jobs.submit(uri);
    expect([isNew, folder]).toEqual([true, `jobs/out/${job}/`]);
    const seen: JobStatus[] = [];
    const status = await client.jobs.wait(job, { ...soon, onStatus: (one) => void seen.push(one) });
    expect(status).toMatchObject({
      job,
      state: 'done',
      rows: ROWS,
      errors: {},
      failedParts: [],
      input: uri,
      output: `s3://${bucket}/${folder}`,
    });
    expect(status.pieces?.done).toBe(status.pieces?.all);
    expect(seen.at(-1)).toEqual(status);
    const text = Buffer.concat(await Array.fromAsync(client.jobs.results(job))).toString();
    const ids = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).id);
    expect(ids).toEqual(Array.from({ length: ROWS }, (_, x) => `${x}`));
  });

  it('throws behind the last result where some are gone', async () => {
    const { client, uri, bucket } = await setUp();
    const { job, folder } = await client.jobs.submit(uri);
    await client.jobs.wait(job, soon);
    const [first = ''] = (await server.keys(bucket)).filter((key) => key.startsWith(`${folder}data/`));
    await server.client().send(new DeleteObjectCommand({ Bucket: bucket, Key: first }));
    await expect(Array.fromAsync(client.jobs.results(job))).rejects.toThrow(
      new RegExp(`job ${job}: expected \\d+ objects of \\d+ bytes, got \\d+ of \\d+; .*--again`),
    );
  });

  it('takes the same version, asked for in the same way, for the same job, and any other for another', async () => {
    const { client, uri, jobs, bucket } = await setUp();
    const first = await client.jobs.submit(uri);
    await client.jobs.wait(first.job, soon);
    for (let times = 0; times < 3; times++) {
      expect(await client.jobs.submit(uri)).toEqual({ ...first, isNew: false });
    }
    expect(await client.jobs.submit(uri, { outputPrefix: 'jobs/out/else/' })).toEqual({ ...first, isNew: false });
    expect((await client.jobs.submit(uri, { version: '1' })).job).not.toBe(first.job);
    await server.put(bucket, 'jobs/in/_mine/a.jsonl', lineOf(1));
    expect((await client.jobs.submit(uri)).isNew).toBe(true);
    expect(jobs.started.length).toBe(3);
  });

  it('gives tables of CSV as one, and Parquet as objects', async () => {
    const { client, bucket } = await setUp();
    const csv = `x,name\n${Array.from({ length: ROWS }, (_, x) => `${x},n${x}\n`).join('')}`;
    const uri = `s3://${bucket}/jobs/in/_mine/a.csv`;
    await server.put(bucket, 'jobs/in/_mine/a.csv', csv);
    const finished = async (results: 'csv' | 'parquet') => {
      const { job } = await client.jobs.submit(uri, { keep: ['name'], results });
      expect(await client.jobs.wait(job, soon)).toMatchObject({ state: 'done', rows: ROWS, results });
      return job;
    };
    const text = Buffer.concat(await Array.fromAsync(client.jobs.results(await finished('csv')))).toString();
    const lines = text.trimEnd().split('\n');
    expect(lines.map((line) => line.split(',')[1])).toEqual([
      'name',
      ...Array.from({ length: ROWS }, (_, x) => `n${x}`),
    ]);
    const job = await finished('parquet');
    await expect(client.jobs.results(job).next()).rejects.toThrow(/expected results that can be joined, got Parquet/);
    const objects = await Array.fromAsync(client.jobs.objects(job));
    expect(objects.length).toBeGreaterThan(1);
    for (const { path, format, bytes } of objects) {
      expect([path, format, Buffer.from(bytes.subarray(0, 4)).toString()]).toEqual([
        expect.stringMatching(/^part-\d+-\d+-\d+\.parquet$/),
        'parquet',
        'PAR1',
      ]);
    }
  });

  it('submits a prefix, a glob and a manifest as one job each, and the same files as the same job', async () => {
    const { client, bucket, jobs } = await setUp();
    for (const x of [1, 2, 3]) await server.put(bucket, `jobs/in/_days/${x}/a.jsonl`, lineOf(x));
    await server.put(bucket, 'jobs/in/_days/some.manifest', '1/a.jsonl\n3/a.jsonl\n');
    const idsOf = async (name: string) => {
      const uri = `s3://${bucket}/jobs/in/${name}`;
      const { job } = await client.jobs.submit(uri);
      const status = await client.jobs.wait(job, soon);
      expect(await client.jobs.submit(uri)).toMatchObject({ job, isNew: false });
      const text = Buffer.concat(await Array.fromAsync(client.jobs.results(job))).toString();
      const ids = text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).message_id);
      expect(status).toMatchObject({ state: 'done', input: uri, files: ids.length, rows: ids.length });
      return ids;
    };
    expect(await idsOf('_days/*/a.jsonl')).toEqual(['1/a.jsonl#0', '2/a.jsonl#0', '3/a.jsonl#0']);
    expect(await idsOf('_days/some.manifest')).toEqual(['1/a.jsonl#0', '3/a.jsonl#0']);
    await server.put(bucket, 'jobs/in/_days/some.manifest', '');
    await server.put(bucket, 'jobs/in/_days/_SUCCESS', 'x');
    const more = `s3://${bucket}/jobs/in/_days/[1/`;
    await expect(client.jobs.submit(more)).rejects.toThrow(/expected files that are not empty/);
    expect(await idsOf('_days/**/a.jsonl')).toEqual(['1/a.jsonl#0', '2/a.jsonl#0', '3/a.jsonl#0']);
    await server.put(bucket, 'jobs/in/_days/2/a.jsonl', lineOf(4));
    expect((await client.jobs.submit(`s3://${bucket}/jobs/in/_days/*/a.jsonl`)).isNew).toBe(true);
    expect(jobs.started.length).toBe(4);
  });

  it('refuses files that start jobs by themselves, unless they are to be scored again', async () => {
    const { client, bucket } = await setUp();
    await server.put(bucket, 'jobs/in/days/a.jsonl', lineOf(1));
    const uri = `s3://${bucket}/jobs/in/days/`;
    await expect(client.jobs.submit(uri)).rejects.toThrow(
      /expected files in a folder whose name begins with _ .*, got jobs\/in\/days\/a\.jsonl, which starts a job by itself/,
    );
    const { job } = await client.jobs.submit(uri, { again: true });
    expect(await client.jobs.wait(job, soon)).toMatchObject({ state: 'done', rows: 1, files: 1 });
  });

  it('has no more calls at a time than the deployment', async () => {
    const { client, uri, jobs } = await setUp({}, { jobConcurrency: 7 });
    for (const [asked, got] of [
      [{}, 7],
      [{ version: '1', concurrency: 3 }, 3],
      [{ keep: ['x'], concurrency: 3000 }, 7],
    ] as const) {
      const { job } = await client.jobs.submit(uri, asked);
      const executionArn = `${jobs.stateMachineArn.replace('stateMachine', 'execution')}:${job}`;
      const { input = '' } = await jobs.sfn.send(new DescribeExecutionCommand({ executionArn }));
      expect(JSON.parse(input).concurrency).toBe(got);
    }
  });

  it('cancels, and resumes what has no result', async () => {
    const { client, uri, jobs, bucket } = await setUp({ waits: true });
    const { job, folder } = await client.jobs.submit(uri);
    expect(await client.jobs.status(job)).toMatchObject({ state: 'running', pieces: undefined });
    await expect(client.jobs.resume(job)).rejects.toThrow(/expected one that has ended, it is running/);
    await client.jobs.cancel(job);
    // Calls that run look for it.
    expect(await server.keys(bucket)).toContain(`${folder}cancelled`);
    jobs.go();
    expect(await client.jobs.status(job)).toMatchObject({ state: 'cancelled', code: 'CANCELLED' });
    await client.jobs.resume(job);
    expect(await client.jobs.wait(job, soon)).toMatchObject({ state: 'done', rows: ROWS });
    expect(jobs.started).toEqual([job, `${job}-2`]);
    await expect(client.jobs.cancel(job)).rejects.toThrow(/expected one that is running, it has ended/);
  });

  it('says why a job has failed, as the job itself said it', async () => {
    const { client, uri, jobs, bucket } = await setUp({ waits: true });
    const { job } = await client.jobs.submit(uri);
    await server.put(bucket, 'jobs/in/_mine/a.jsonl', 'another\n');
    jobs.go();
    const status = await client.jobs.wait(job, soon);
    expect(status).toMatchObject({
      state: 'failed',
      code: 'INPUT_CHANGED',
      message: expect.stringContaining('jobs/in/_mine/a.jsonl'),
    });
    await expect(client.jobs.results(job).next()).rejects.toThrow(/expected it to be done, it has no manifest/);
  });

  it('ends waiting when it is told to', async () => {
    const { client, uri } = await setUp({ waits: true });
    const { job } = await client.jobs.submit(uri);
    const stopping = new AbortController();
    const waiting = client.jobs.wait(job, {
      pollMs: 1e6,
      signal: stopping.signal,
      onStatus: () => stopping.abort('enough'),
    });
    await expect(waiting).rejects.toBe('enough');
  });

  it.each([
    [
      's3://another/jobs/in/_mine/a.jsonl',
      {},
      /expected an object where jobs read, s3:\/\/bucket-\d+\/jobs\/in\/…, got/,
    ],
    ['elsewhere/a.jsonl', {}, /expected an object where jobs read, .*, got 's3:.*\/elsewhere\/a\.jsonl'; put it there/],
    [
      'jobs/in/_mine/a.jsonl',
      { keep: ['name0..name49999'] },
      /expected settings of at most 204800 bytes, got \d{6}; name fewer/,
    ],
    ['jobs/in/b.jsonl', {}, /to be there, it cannot be read/],
    ['jobs/in/_mine/a.jsonl', { outputPrefix: 'elsewhere/' }, /expected keys under s3:\/\/.*\/jobs\/out\//],
  ])('refuses %s with %j', async (key, options, message) => {
    const { client, bucket } = await setUp();
    const uri = key.startsWith('s3:') ? key : `s3://${bucket}/${key}`;
    await expect(client.jobs.submit(uri, options)).rejects.toThrow(message);
  });

  it.each<[JobOptions, RegExp]>([
    [{ concurrency: 0 }, /concurrency: expected a number of at least 1, got 0/],
    [{ concurrency: -3 }, /concurrency: expected a number of at least 1, got -3/],
    [{ concurrency: 1.5 }, /concurrency: expected a whole number, got 1\.5/],
    [{ concurrency: 10_001 }, /concurrency: expected a number of at most 10000, got 10001/],
    [{ missing: 'none' }, /missing: expected .* nan, a number, true or false, got "none"/],
    [{ separator: '"' }, /separator: expected one character, .*, got "\\""/],
    [{ separator: '\n' }, /separator: expected one character/],
    [{ keep: [] }, /keep: expected/],
    [{ keep: ['a', 'b', 'a'] }, /expected each column to keep once, got "a" twice/],
  ])('refuses the settings %j, as they are refused in _job.json', async (options, message) => {
    const { client, uri, bucket, jobs } = await setUp();
    await expect(client.jobs.submit(uri, options)).rejects.toThrow(message);
    await server.put(bucket, 'jobs/in/_mine/_job.json', JSON.stringify(options));
    await expect(client.jobs.submit(uri)).rejects.toThrow(message);
    expect(jobs.started).toEqual([]);
  });

  it('takes what is undefined for what is not given', async () => {
    const { client, uri, bucket } = await setUp();
    await server.put(bucket, 'jobs/in/_mine/_job.json', '{"version":"1"}');
    const { job } = await client.jobs.submit(uri);
    expect(await client.jobs.submit(uri, { version: undefined, concurrency: undefined })).toMatchObject({ job });
  });

  it('says of a job that is still running that it was submitted before', async () => {
    const { client, uri, jobs } = await setUp({ waits: true });
    const first = await client.jobs.submit(uri);
    expect(first.isNew).toBe(true);
    expect(await client.jobs.submit(uri)).toEqual({ ...first, isNew: false });
    expect(jobs.started).toEqual([first.job]);
  });

  it('says what is missing where it is not said where jobs are, and of jobs that there are not', async () => {
    const { client } = await setUp();
    await expect(client.jobs.status('none')).rejects.toThrow(/expected one that was submitted here, got 'none'/);
    const without = new Batchscore({ region: 'us-east-1' });
    cleanups.push(() => without.close());
    expect(() => without.jobs).toThrow(/expected jobStateMachine and jobBucket/);
  });
});
