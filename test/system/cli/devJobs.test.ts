import { readFileSync, writeFileSync } from 'node:fs';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { SFNClient } from '@aws-sdk/client-sfn';
import { afterEach, describe, expect, it } from '@jest/globals';
import { localBucketClient } from '../../../cli/local/localServices.ts';
import { Batchscore } from '../../../client/index.ts';
import { type RunningDev, runScript, startDev } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { fileOf, row } from '../../helpers/jobs.ts';

const clients: { destroy(): void }[] = [];
const inFolder = useFolder();
afterEach(() => {
  for (const client of clients.splice(0)) client.destroy();
});

/** So small that a few rows make several pieces. */
const SMALL = { BATCHSCORE_JOBS_PART_BYTES: '20000', BATCHSCORE_JOBS_PIECE_BYTES: '1000' };
const MANY = Array.from({ length: 600 }, (_, turn) => row(turn));

/** @returns what reads all objects of the job whose keys have `part` in them */
async function put({ stack }: RunningDev, name: string, rows: readonly string[]) {
  const s3 = localBucketClient(stack.s3Endpoint, stack.region);
  clients.push(s3);
  const Bucket = stack.jobBucket ?? '';
  await s3.send(new PutObjectCommand({ Bucket, Key: `jobs/in/${name}.jsonl`, Body: fileOf(rows) }));
  return async (part: string): Promise<string> => {
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: 'jobs/out/' }));
    let all = '';
    for (const { Key } of Contents.filter(({ Key: key }) => key?.includes(part))) {
      all += await (await s3.send(new GetObjectCommand({ Bucket, Key }))).Body?.transformToString();
    }
    return all;
  };
}

async function cancel({ stack }: RunningDev, job: string): Promise<void> {
  const { region, sfnEndpoint, jobStateMachine, jobBucket } = stack;
  const credentials = { accessKeyId: 'any', secretAccessKey: 'any' };
  const sfn = new SFNClient({ region, endpoint: sfnEndpoint ?? '', credentials });
  const s3 = localBucketClient(stack.s3Endpoint, region);
  clients.push(s3, sfn);
  await new Batchscore({ jobStateMachine, jobBucket, region, sfn, s3 }).jobs.cancel(job);
}

describe('npm run dev', () => {
  it('says where jobs are, scores a file that is put there, and ends on Ctrl-C within a job', async () => {
    const dev = await startDev([], { env: SMALL });
    expect(dev.stack).toMatchObject({
      jobBucket: 'batchscore-jobs',
      jobStateMachine: expect.stringMatching(/^arn:aws:states:us-east-1:/),
      jobInputPrefix: 'jobs/in/',
      jobOutputPrefix: 'jobs/out/',
      sfnEndpoint: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
    });
    const read = await put(dev, 'rows', [row(1), 'no row', row(2)]);
    await dev.says(/^job \w+: done, /);
    await dev.says(/^event: \{"event":"job-ended",.*"state":"done",.*"model":"digits",.*"rows":\d+/);
    const results = (await read('data/')).trimEnd().split('\n');
    expect(results.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ id: 'row-1', outputs: expect.any(Array) }),
      expect.objectContaining({ code: 'INVALID_JSON' }),
      expect.objectContaining({ id: 'row-2', outputs: expect.any(Array) }),
    ]);
    expect(JSON.parse(await read('manifest.json'))).toMatchObject({ rows: 3, errors: { INVALID_JSON: 1 } });
    await put(dev, 'many', MANY);
    await dev.says(/^job \w+: jobs\/in\/many\.jsonl$/);
    expect(await dev.interrupt()).toBe(0);
  });

  it('takes the commands: a job is cancelled, resumed and fetched, with a result for every row, in order', async () => {
    const dev = await startDev([], { env: SMALL });
    const stackFile = inFolder('stack.json');
    writeFileSync(stackFile, dev.firstLine);
    const job = (...args: string[]) => runScript('cli/batchscore.ts', ['job', ...args, '--stack', stackFile]);
    await put(dev, 'many', MANY);
    const said = await dev.says(/^job \w+: jobs\/in\/many\.jsonl$/);
    // At once, from here: a command would take longer to start than a fast machine takes for the job.
    const [, id = ''] = /^job (\w+):/.exec(said) ?? [];
    await cancel(dev, id);
    await dev.says(new RegExp(`^job ${id}: cancelled$`));
    const status = await job('status', id);
    expect([status.code, status.stdout]).toEqual([
      1,
      expect.stringMatching(
        / was cancelled, .*: CANCELLED: somebody cancelled the job; batchscore job resume .* goes on\n$/,
      ),
    ]);

    // What was put is a job already: to submit it is to be told which.
    const { stdout } = await job('submit', 's3://batchscore-jobs/jobs/in/many.jsonl', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ job: id, isNew: false });
    const again = await job('submit', 's3://batchscore-jobs/jobs/in/many.jsonl');
    expect(again.stdout).toMatch(new RegExp(`was cancelled.*; batchscore job resume ${id} goes on; --again `));
    expect(await job('resume', id)).toMatchObject({ code: 0 });
    await dev.says(new RegExp(`^job ${id}-2: done, `));
    const out = inFolder('out.jsonl');
    expect(await job('fetch', id, '--out', out)).toMatchObject({ code: 0, stderr: '' });
    const results = readFileSync(out, 'utf8').trimEnd().split('\n');
    expect(results.map((line) => JSON.parse(line).id)).toEqual(MANY.map((_, turn) => `row-${turn}`));
    expect(await dev.interrupt()).toBe(0);
    expect(await job('submit', 's3://batchscore-jobs/jobs/in/many.jsonl')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/nothing listens there \(.*\); is npm run dev running\?/),
    });
  });

  it('says what goes on with a job that runs, and with one whose input is another by now', async () => {
    const dev = await startDev([], { env: SMALL });
    const stackFile = inFolder('stack.json');
    writeFileSync(stackFile, dev.firstLine);
    const job = (...args: string[]) => runScript('cli/batchscore.ts', ['job', ...args, '--stack', stackFile]);
    await put(
      dev,
      'many',
      Array.from({ length: 6_000 }, (_, turn) => row(turn)),
    );
    const [, id = ''] = /^job (\w+):/.exec(await dev.says(/^job \w+: jobs\/in\/many\.jsonl$/)) ?? [];
    expect(await job('fetch', id, '--out', inFolder('out.jsonl'))).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        new RegExp(`is running: .*; batchscore job wait ${id} waits for its end, and then it can be fetched\n$`),
      ),
    });
    await cancel(dev, id);
    await dev.says(new RegExp(`^job ${id}: cancelled$`));
    await put(dev, 'many', MANY);
    expect(await job('resume', id)).toMatchObject({ code: 0 });
    await dev.says(new RegExp(`^job ${id}-2: INPUT_CHANGED: `));
    expect((await job('status', id)).stdout).toMatch(
      /; batchscore job submit s3:\/\/batchscore-jobs\/jobs\/in\/many\.jsonl scores it as it is now\n$/,
    );
    expect(await dev.interrupt()).toBe(0);
  });
});
