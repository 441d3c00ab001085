import { HeadObjectCommand } from '@aws-sdk/client-s3';
import {
  DescribeExecutionCommand,
  ListExecutionsCommand,
  StartExecutionCommand,
  StopExecutionCommand,
} from '@aws-sdk/client-sfn';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { fileEvent } from '../../../../../cli/local/localJobs.ts';
import { jsonLines } from '../../../../helpers/command.ts';
import { fileOf, type JobStack, row, startJobStack } from '../../../../helpers/jobs.ts';

let stack: JobStack;
let larger: JobStack;
beforeAll(async () => {
  stack = await startJobStack();
  larger = await startJobStack(LARGER);
}, 60_000);
afterAll(async () => {
  await larger.stop();
  await stack.stop();
});

/** The job of a file, once it has ended. */
async function jobOf(key: string, { line } = stack) {
  const started = await line(new RegExp(`^job \\w+: ${key}$`));
  const id = started.slice('job '.length, started.indexOf(':'));
  return { id, folder: `jobs/out/${id}/`, end: await line(new RegExp(`^job ${id}: (?!${key})`)) };
}

/** Some hundred rows a piece: calls of several parts are within the rows of theirs at the same time. */
const LARGER = { BATCHSCORE_JOBS_PART_BYTES: '500000', BATCHSCORE_JOBS_PIECE_BYTES: '500000' };

/** Put last: once it is done, what was put before would have been told of. */
async function untilToldOfAll(name: string): Promise<void> {
  await stack.put(`jobs/in/${name}.jsonl`, fileOf([row(1)]));
  await jobOf(`jobs/in/${name}.jsonl`);
}

const executionArn = (id: string): string => `${stack.stateMachineArn.replace('stateMachine', 'execution')}:${id}`;

describe('a file that is put under the input prefix', () => {
  it('is scored, in order, one result for every row, and the manifest is there', async () => {
    const rows = Array.from({ length: 20 }, (_, turn) => (turn === 7 ? '{"no": "request"}' : row(turn)));
    await stack.put('jobs/in/rows.jsonl', fileOf(rows));
    const { folder, end } = await jobOf('jobs/in/rows.jsonl');
    expect(end).toContain(': done, ');
    const objects = await stack.keysUnder(`${folder}data/`);
    expect(objects.length).toBeGreaterThan(5);
    const results = (await Promise.all(objects.map((key) => stack.get(key)))).join('').trimEnd().split('\n');
    expect(results.map((line) => JSON.parse(line).id)).toEqual(
      rows.map((_, turn) => (turn === 7 ? undefined : `row-${turn}`)),
    );
    expect(JSON.parse(await stack.get(`${folder}manifest.json`))).toMatchObject({ rows: 20, failedParts: [] });
  });

  it('is one job, however often S3 tells of it', async () => {
    const body = fileOf([row(3), row(4)]);
    await Promise.all(Array.from({ length: 10 }, () => stack.put('jobs/in/ten.jsonl', body)));
    await jobOf('jobs/in/ten.jsonl');
    await untilToldOfAll('after-ten');
    expect(stack.said.filter((line) => line.endsWith('jobs/in/ten.jsonl'))).toHaveLength(1);
  });

  it('may have spaces and signs in its name, as S3 writes them', async () => {
    const key = 'jobs/in/a b+c/ü&1.jsonl';
    await stack.put(key, fileOf([row(6)]));
    const { Records } = await fileEvent(stack.s3, 'batchscore-jobs', key);
    expect(Records[0]?.s3.object.key).toBe('jobs/in/a+b%2Bc/%C3%BC%261.jsonl');
    const line = await stack.line(/ü&1\.jsonl$/);
    expect(line).toMatch(/^job \w+: jobs\/in\/a b\+c\/ü&1\.jsonl$/);
  });
});

describe('a file that is put and then submitted', () => {
  const uriOf = (key: string): string => `s3://batchscore-jobs/${key}`;
  const CSV = `id,${Array.from({ length: 64 }, (_, pixel) => `p${pixel}`).join(',')}\n${[1, 2, 3]
    .map((id) => `${id},${Array.from({ length: 64 }, (_, pixel) => (pixel * id) % 17).join(',')}\n`)
    .join('')}`;
  const COLUMNS = { inputs: { image: Array.from({ length: 64 }, (_, pixel) => `p${pixel}`) }, keep: ['id'] };
  const soon = { pollMs: 20 };

  it('is one job, whether the model that it has anyway is named or not; another model is asked for in so many words', async () => {
    const key = 'jobs/in/submitted.jsonl';
    await stack.put(key, fileOf([row(1), row(2)]));
    const { id: job } = await jobOf(key);
    for (const options of [{}, { model: 'digits' }, { model: 'digits', version: '1', format: 'jsonl' as const }]) {
      expect(await stack.client.jobs.submit(uriOf(key), options)).toMatchObject({ job, isNew: false });
    }
    await expect(stack.client.jobs.submit(uriOf(key), { model: 'tickets' })).rejects.toThrow(
      new RegExp(`starts a job by itself .*${job}.*--again`),
    );
    const other = await stack.client.jobs.submit(uriOf(key), { model: 'tickets', again: true });
    expect(other).toMatchObject({ isNew: true });
    await stack.client.jobs.wait(other.job, soon);
    expect(JSON.parse(await stack.get(`${other.folder}job.json`))).toMatchObject({ model: 'tickets' });
  });

  it('has the settings of its folder either way', async () => {
    await stack.put('jobs/in/csv/_job.json', JSON.stringify({ inputs: { image: ['p0..p63'] }, keep: ['id'] }));
    const key = 'jobs/in/csv/rows.csv';
    await stack.put(key, CSV);
    const { id: job } = await jobOf(key);
    expect(await stack.client.jobs.submit(uriOf(key))).toMatchObject({ job, isNew: false });
    expect(await stack.client.jobs.submit(uriOf(key), COLUMNS)).toMatchObject({ job, isNew: false });
  });

  it('has the separator that its name tells, said or not', async () => {
    await stack.put('jobs/in/tsv/_job.json', JSON.stringify({ inputs: { image: ['p0..p63'] }, keep: ['id'] }));
    const key = 'jobs/in/tsv/rows.tsv';
    await stack.put(key, CSV.replaceAll(',', '\t'));
    const { id: job } = await jobOf(key);
    for (const options of [COLUMNS, { model: 'digits' }, { model: 'digits', separator: '\t' }]) {
      expect(await stack.client.jobs.submit(uriOf(key), options)).toMatchObject({ job, isNew: false });
    }
  });

  it('is scored as it is asked for where the job that it started could not be planned', async () => {
    const key = 'jobs/in/bare.csv';
    await stack.put(key, CSV);
    expect((await jobOf(key)).end).toContain('INVALID_JOB');
    const { job, isNew } = await stack.client.jobs.submit(uriOf(key), COLUMNS);
    expect(isNew).toBe(true);
    expect(await stack.client.jobs.wait(job, soon)).toMatchObject({ state: 'done', rows: 3, errors: {} });
  });

  it('is scored again, in a folder of its own, where that is asked for', async () => {
    const key = 'jobs/in/again.jsonl';
    await stack.put(key, fileOf([row(1), row(2)]));
    const first = await jobOf(key);
    const again = await stack.client.jobs.submit(uriOf(key), { again: true });
    const third = await stack.client.jobs.submit(uriOf(key), { again: true });
    expect(new Set([first.id, again.job, third.job]).size).toBe(3);
    for (const { job, folder, isNew } of [again, third]) {
      expect([isNew, folder]).toEqual([true, `jobs/out/${job}/`]);
      expect(await stack.client.jobs.wait(job, soon)).toMatchObject({ state: 'done', rows: 2 });
      const dataOf = async (where: string) => Promise.all((await stack.keysUnder(`${where}data/`)).map(stack.get));
      expect(await dataOf(folder)).toEqual(await dataOf(first.folder));
    }
    expect(await stack.client.jobs.resume(again.job)).toMatchObject({ job: again.job, folder: again.folder });
  });
});

describe('two jobs of one model at once, of many parts', () => {
  it('have one result for each row, its own, whatever shares its runs', async () => {
    const rows = Array.from({ length: 10_000 }, (_, turn) => row(turn));
    const files = { 'jobs/in/first.jsonl': rows, 'jobs/in/second.jsonl': rows.toReversed() };
    await Promise.all(Object.entries(files).map(([key, lines]) => larger.put(key, fileOf(lines))));
    const scores: Map<string, string>[] = [];
    for (const [key, lines] of Object.entries(files)) {
      const { folder, end } = await jobOf(key, larger);
      expect(end).toContain(`"rows":${lines.length}`);
      const objects = await larger.keysUnder(`${folder}data/`);
      const text = (await Promise.all(objects.map(larger.get))).join('');
      const results = jsonLines(text);
      let place = 0;
      const expected = lines.map((line) => {
        const own = [String(place), JSON.parse(line).id];
        place += Buffer.byteLength(line) + 1;
        return own;
      });
      expect(results.map(({ message_id, id }) => [message_id, id])).toEqual(expected);
      scores.push(new Map(results.map(({ id, outputs }) => [id, rounded(outputs)])));
    }
    // Rows repeat after 17.
    expect(new Set(scores[0]?.values()).size).toBe(17);
    expect(scores[0]).toEqual(scores[1]);
  }, 60_000);
});

describe('a client of Step Functions', () => {
  it('is told what became of a job', async () => {
    await stack.put('jobs/in/told.jsonl', fileOf([row(9)]));
    const { id } = await jobOf('jobs/in/told.jsonl');
    const told = await stack.sfn.send(new DescribeExecutionCommand({ executionArn: executionArn(id) }));
    expect(told).toMatchObject({ name: id, status: 'SUCCEEDED', stateMachineArn: stack.stateMachineArn });
    expect(JSON.parse(told.output ?? '')).toMatchObject({ rows: 1 });
    expect(told.stopDate?.getTime()).toBeGreaterThanOrEqual(told.startDate?.getTime() ?? Number.POSITIVE_INFINITY);
    const again = { stateMachineArn: stack.stateMachineArn, name: id, input: told.input };
    await expect(stack.sfn.send(new StartExecutionCommand(again))).rejects.toThrow(
      expect.objectContaining({ name: 'ExecutionAlreadyExists' }),
    );
  });

  it('starts jobs, and stops them: what was not scored is left', async () => {
    const { stateMachineArn, sfn } = stack;
    const rows = fileOf(Array.from({ length: 3000 }, (_, turn) => row(turn)));
    await stack.put('files/many.jsonl', rows);
    const object = { bucket: 'batchscore-jobs', key: 'files/many.jsonl', etag: await etagOf('files/many.jsonl') };
    const start = { ...object, bytes: Buffer.byteLength(rows), job: 'many', run: 1, folder: 'jobs/out/many/' };
    const input = JSON.stringify({ ...start, concurrency: 1, spec: {} });
    const started = await sfn.send(new StartExecutionCommand({ stateMachineArn, name: 'many', input }));
    const twice = await sfn.send(new StartExecutionCommand({ stateMachineArn, name: 'many', input }));
    expect(twice.executionArn).toBe(started.executionArn);
    const other = new StartExecutionCommand({ stateMachineArn, name: 'many', input: '{}' });
    await expect(sfn.send(other)).rejects.toThrow(expect.objectContaining({ name: 'ExecutionAlreadyExists' }));

    while ((await stack.keysUnder('jobs/out/many/reports/')).length === 0);
    await sfn.send(new StopExecutionCommand({ executionArn: started.executionArn }));
    await stack.line(/^job many: cancelled$/);
    const { status } = await sfn.send(new DescribeExecutionCommand({ executionArn: started.executionArn }));
    expect(status).toBe('ABORTED');
    // A call that was at work ends with its part, of three pieces; then nothing is scored any more.
    await untilToldOfAll('after-many');
    const left = await stack.keysUnder('jobs/out/many/');
    expect(left).not.toContain('jobs/out/many/manifest.json');
    await untilToldOfAll('long-after-many');
    expect(await stack.keysUnder('jobs/out/many/')).toEqual(left);
  });

  it.each([
    ['ExecutionDoesNotExist', new DescribeExecutionCommand({ executionArn: 'arn:none' })],
    ['StateMachineDoesNotExist', new StartExecutionCommand({ stateMachineArn: 'arn:none', name: 'a', input: '{}' })],
    ['UnknownOperationException', new ListExecutionsCommand({ stateMachineArn: 'arn:none' })],
  ])('is refused as on AWS: %s', async (name, command) => {
    await expect(stack.sfn.send(command as DescribeExecutionCommand)).rejects.toThrow(
      expect.objectContaining({ name }),
    );
  });
});

/** The data of all outputs, to four decimals. */
function rounded(outputs: readonly { readonly data: readonly number[] }[]): string {
  return outputs.map(({ data }) => data.map((value) => value.toFixed(4))).join('; ');
}

async function etagOf(key: string): Promise<string> {
  return (await stack.s3.send(new HeadObjectCommand({ Bucket: 'batchscore-jobs', Key: key }))).ETag ?? '';
}
