import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { parquetReadObjects } from 'hyparquet';
import { UsageError } from '../../../../cli/arguments.ts';
import { fetchObjects, job } from '../../../../cli/job.ts';
import { createJobStorage } from '../../../../lambda/aws/jobStorage.ts';
import { useS3Server } from '../../../helpers/awsServers.ts';
import { jsonLines, runScript, startInTerminal } from '../../../helpers/command.ts';
import { useFolder } from '../../../helpers/folders.ts';
import { type JobsServer, startJobsServer } from '../../../helpers/jobs.ts';
import { createManualClock } from '../../../helpers/manualClock.ts';

const server = useS3Server();
const ROWS = 60;
const FILE = `x,name\n${Array.from({ length: ROWS }, (_, x) => (x === 7 ? 'oops,a\n' : `${x},n${x}\n`)).join('')}`;

describe('batchscore job', () => {
  const inFolder = useFolder();
  let bucket: string;
  let jobs: JobsServer;
  beforeEach(async () => {
    bucket = await server.bucket();
    await server.put(bucket, 'jobs/in/_mine/a.csv', FILE);
    jobs = await startJobsServer(createJobStorage({ s3: server.client(), bucket }));
    const stack = {
      endpoint: server.endpoint(),
      s3Endpoint: server.endpoint(),
      sfnEndpoint: jobs.endpoint,
      region: 'us-east-1',
      jobStateMachine: jobs.stateMachineArn,
      jobBucket: bucket,
      jobOutputPrefix: 'jobs/out/',
    };
    writeFileSync(inFolder('stack.json'), JSON.stringify(stack));
  });
  afterEach(() => {
    jobs.stop();
  });

  const run = (...args: string[]) =>
    runScript('cli/batchscore.ts', ['job', ...args, '--stack', inFolder('stack.json')]);

  it('submits a file, waits, says what failed with exit code 3, and fetches all as one file', async () => {
    const uri = `s3://${bucket}/jobs/in/_mine/a.csv`;
    const { code, stdout } = await run('submit', uri, '--keep', 'name', '--inputs', 'x=x', '--wait');
    const [id = ''] = stdout.split(' ');
    expect(code).toBe(3);
    expect(stdout).toMatch(
      /^[0-9a-f]{32} is submitted; results go to s3:.*\n.* is done: 60 rows in .*, INVALID_DATA 1\nINVALID_DATA, first in the row with message_id \d+: column 'x': .*"oops".*\n$/,
    );
    const out = inFolder('out.jsonl');
    const fetched = await run('fetch', id, '--out', out, '--json');
    expect([fetched.code, JSON.parse(fetched.stdout)]).toMatchObject([3, { state: 'done', rows: ROWS, out }]);
    const rows = jsonLines(readFileSync(out, 'utf8'));
    expect(rows.map(({ kept }) => kept.name)).toEqual(
      Array.from({ length: ROWS }, (_, x) => (x === 7 ? 'a' : `n${x}`)),
    );
    expect(rows.map(({ code: failed }) => failed)).toEqual(
      Array.from({ length: ROWS }, (_, x) => (x === 7 ? 'INVALID_DATA' : undefined)),
    );
    const status = await run('status', id);
    expect([status.code, status.stdout]).toEqual([3, expect.stringContaining('is done: 60 rows')]);
    const sheet = await run('fetch', id, '--out', inFolder('out.xlsx'));
    expect([sheet.code, sheet.stderr]).toEqual([
      2,
      expect.stringMatching(/--out: expected a name ending in \.jsonl or /),
    ]);
    const table = await run('fetch', id, '--out', inFolder('out.parquet'));
    expect([table.code, table.stderr]).toEqual([
      2,
      expect.stringMatching(/--out: expected a file for jsonl, .*; for another format submit with --results parquet/),
    ]);
  });

  it('scores many files, and fetches Parquet as objects under the path of each file', async () => {
    await server.put(bucket, 'jobs/in/_mine/b/c.csv', 'x,name\n1,n\n');
    const columns = ['--keep', 'name', '--results', 'parquet'];
    const { code, stdout } = await run('submit', `s3://${bucket}/jobs/in/_mine/`, ...columns, '--wait');
    const [id = ''] = stdout.split(' ');
    expect([code, stdout]).toEqual([3, expect.stringContaining('is done: 61 rows of 2 files in ')]);
    const out = inFolder('results/');
    expect((await run('fetch', id, '--out', `${out}/`)).code).toBe(3);
    const found = [];
    const names = readdirSync(out, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.parquet'));
    for (const name of names.toSorted()) {
      found.push(...(await parquetReadObjects({ file: new Uint8Array(readFileSync(join(out, name))).buffer })));
    }
    expect(found.length).toBe(61);
    expect(names.some((name) => name.startsWith('b/c.csv/part-'))).toBe(true);
    expect([...found.slice(6, 9), found[60]]).toEqual([
      { message_id: expect.stringMatching(/^a\.csv#\d+$/), name: 'n6', y: 13, code: null, error: null },
      { message_id: expect.any(String), name: 'a', y: null, code: 'INVALID_DATA', error: expect.any(String) },
      { message_id: expect.any(String), name: 'n8', y: 17, code: null, error: null },
      { message_id: 'b/c.csv#7', name: 'n', y: 3, code: null, error: null },
    ]);
    const asFile = await run('fetch', id, '--out', inFolder('out.parquet'));
    expect([asFile.code, asFile.stderr]).toEqual([2, expect.stringMatching(/--out: expected a folder, such as /)]);
  });

  it.each(['../outside', 'a/../../outside', '..'])(
    'writes nothing outside of the folder for the path %s',
    async (path) => {
      const objects = async function* () {
        yield { path, format: 'jsonl' as const, bytes: Buffer.from('{}\n') };
      };
      const fetched = fetchObjects(objects(), inFolder('inside'), new AbortController().signal);
      await expect(fetched).rejects.toThrow(
        `${path}: expected a path in ${inFolder('inside')}, got one that leads out of it`,
      );
      expect(readdirSync(inFolder())).toEqual(['stack.json']);
    },
  );

  it('stops waiting at Ctrl-C, and says that the job goes on', async () => {
    const s3 = server.client();
    const storage = createJobStorage({ s3, bucket });
    const running = await startJobsServer(storage, { waits: true });
    const stack = { ...JSON.parse(readFileSync(inFolder('stack.json'), 'utf8')), sfnEndpoint: running.endpoint };
    const stackFile = inFolder('running.json');
    writeFileSync(stackFile, JSON.stringify(stack));
    const args = [
      'job',
      'submit',
      `s3://${bucket}/jobs/in/_mine/a.csv`,
      '--inputs',
      'x=x',
      '--wait',
      '--stack',
      stackFile,
    ];
    const terminal = startInTerminal('cli/batchscore.ts', args);
    await terminal.shows(/is submitted; results go to/);
    terminal.press('\x03');
    expect(await terminal.ended()).toBe(130);
    expect(terminal.output()).toMatch(/stopped waiting; the job goes on\. batchscore job cancel [0-9a-f]{32} ends it/);
    expect(running.started).toHaveLength(1);
    running.stop();
  });

  it('says how far it is every ten seconds where there is no terminal, and nothing else', async () => {
    const running = await startJobsServer(createJobStorage({ s3: server.client(), bucket }), { waits: true });
    const stackFile = inFolder('running.json');
    const stack = JSON.parse(readFileSync(inFolder('stack.json'), 'utf8'));
    writeFileSync(stackFile, JSON.stringify({ ...stack, sfnEndpoint: running.endpoint }));
    const clock = createManualClock();
    const said: [number, string][] = [];
    const stderr = new Writable({
      write(chunk, _, done) {
        said.push([clock.now(), String(chunk)]);
        if (said.length === 2) running.go();
        done();
      },
    });
    // Six seconds pass before each look at the job, and before the first.
    const now = (): number => {
      clock.advance(6_000);
      return clock.now();
    };
    const printed = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
    const args = ['submit', `s3://${bucket}/jobs/in/_mine/a.csv`, '--inputs', 'x=x', '--wait', '--stack', stackFile];
    const code = await job.run(args, { stderr }, { ...clock, now });
    const [submitted, ended] = printed.mock.calls.map(([text]) => String(text));
    printed.mockRestore();
    running.stop();

    const [id = ''] = submitted?.split(' ') ?? [];
    const line = `${id} is running: not planned yet\n`;
    expect({ code, said }).toEqual({
      code: 3,
      said: [18_000, 30_000].map((at) => [at, line]),
    });
    expect(ended).toMatch(/ is done: 60 rows in /);
  });

  it('exits with 1 and the reason where a job has failed', async () => {
    const { code, stdout } = await run('submit', `s3://${bucket}/jobs/in/_mine/a.csv`, '--inputs', 'y=x', '--wait');
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /has failed, not planned yet: INVALID_JOB: inputs: expected inputs of the model \(x\), got "y"; correct that and submit it again, or batchscore job resume \w+ tries it as it was\n$/,
    );
    // Whoever submits the same again is told once how it stands.
    const again = await run('submit', `s3://${bucket}/jobs/in/_mine/a.csv`, '--inputs', 'y=x', '--wait');
    expect(again.stdout.match(/has failed/g)).toHaveLength(1);
    expect(again.stdout).toMatch(/was submitted before;.* --again scores the file anew\n/);
    const unwaited = await run('submit', `s3://${bucket}/jobs/in/_mine/a.csv`, '--inputs', 'y=x');
    expect([unwaited.code, again.code]).toEqual([1, 1]);
    const [id = ''] = stdout.split(' ');
    const fetched = await run('fetch', id, '--out', inFolder('results.csv'));
    expect([fetched.code, fetched.stderr]).toEqual([1, expect.stringMatching(/has failed.*INVALID_JOB.*correct that/)]);
  });

  it.each([
    [['start', 'x'], /expected an action, submit, status, /],
    [['submit'], /expected s3:\/\/BUCKET\/KEY, got nothing/],
    [['submit', 's3://b/k', '--inputs', 'x'], /--inputs: expected INPUT=COLUMNS/],
    [['submit', 's3://b/k', '--inputs', 'x=p9..p0'], /--inputs: columns: expected a range/],
    [['submit', 's3://b/k', '--format', 'xml'], /--format: expected one of jsonl, csv, parquet, got 'xml'/],
    [['submit', 's3://b/k', '--out', 's3://c/k'], /--out: expected a folder in the bucket of jobs/],
    [['submit', 's3://b/k', '--results', 'xml'], /--results: expected one of jsonl, csv, parquet, got 'xml'/],
    [['fetch', 'x'], /expected --out FILE, or --out FOLDER\/, got none/],
  ])('refuses %j as wrong usage', async (args, message) => {
    const refused = job.run([...args, '--stack', inFolder('stack.json')]);
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.toBeInstanceOf(UsageError);
  });

  it('refuses to fetch into a folder, and what is no job', async () => {
    const stack = ['--stack', inFolder('stack.json')];
    await expect(job.run(['fetch', 'x', '--out', inFolder(), ...stack])).rejects.toThrow(
      `${inFolder()}: expected a file that can be written, got: a folder; name another file`,
    );
    await expect(job.run(['wait', 'x', ...stack])).rejects.toThrow(/expected one that was submitted here, got 'x'/);
  });
});
