import { describe, expect, it } from '@jest/globals';
import type { JobStart } from '../../../lambda/jobs/jobTypes.ts';
import { jobId, type SubmitDependencies, submitEvent } from '../../../lambda/jobs/submitJob.ts';
import { memoryStorage } from '../../helpers/jobs.ts';

function setUp(files: Record<string, string> = {}) {
  const storage = memoryStorage();
  for (const [key, text] of Object.entries(files)) storage.objects.set(key, Buffer.from(text));
  const started = new Map<string, JobStart>();
  const warnings: string[] = [];
  const deps: SubmitDependencies = {
    storage,
    bucket: 'b',
    inputPrefix: 'jobs/in/',
    outputPrefix: 'jobs/out/',
    concurrency: 200,
    warn: (message) => void warnings.push(message),
    executions: {
      async start(name, input) {
        const isNew = !started.has(name);
        started.set(name, input);
        return isNew;
      },
    },
  };
  return { deps, started, warnings };
}

/** As S3 writes it: the key as in a query, the ETag without quotes. */
function eventOf(key: string, { bucket = 'b', size = 5, eTag = 'abc' } = {}) {
  return { Records: [{ eventSource: 'aws:s3', s3: { bucket: { name: bucket }, object: { key, size, eTag } } }] };
}

describe('an S3 event', () => {
  it('starts one job for one version of an object, however often it comes', async () => {
    const { deps, started } = setUp();
    const event = eventOf('jobs/in/a+b%C3%BC.jsonl');
    const answers = [];
    for (let times = 0; times < 10; times++) answers.push(...(await submitEvent(event, deps)));
    expect(answers.map(({ isNew }) => isNew)).toEqual([true, ...Array(9).fill(false)]);
    const job = jobId({ bucket: 'b', key: 'jobs/in/a bü.jsonl', etag: '"abc"' }, {});
    expect([...started]).toEqual([
      [
        job,
        {
          job,
          run: 1,
          bucket: 'b',
          key: 'jobs/in/a bü.jsonl',
          etag: '"abc"',
          bytes: 5,
          folder: `jobs/out/${job}/`,
          concurrency: 200,
          spec: {},
        },
      ],
    ]);
    await submitEvent(eventOf('jobs/in/a+b%C3%BC.jsonl', { eTag: 'def' }), deps);
    expect(started.size).toBe(2);
  });

  it.each([
    ['under the output prefix', eventOf('jobs/out/x/data/part-000000-0000-000000000.jsonl')],
    ['beside the input prefix', eventOf('jobs/input/a.jsonl')],
    ['in another bucket', eventOf('jobs/in/a.jsonl', { bucket: 'c' })],
    ['that is empty', eventOf('jobs/in/a.jsonl', { size: 0 })],
    ['that is a folder of the console', eventOf('jobs/in/folder/')],
    ['that holds settings', eventOf('jobs/in/_job.json')],
    ['that is hidden', eventOf('jobs/in/.a.jsonl')],
    ['in a folder that is to be submitted', eventOf('jobs/in/_mine/a.jsonl')],
    ['in a folder below one', eventOf('jobs/in/a/_mine/b/a.jsonl')],
  ])('starts no job for an object %s', async (_, event) => {
    const { deps, started } = setUp();
    expect(await submitEvent(event, deps)).toEqual([]);
    expect(started.size).toBe(0);
  });

  it('takes the settings of the nearest folder, and no more calls at a time than the deployment has', async () => {
    const { deps, started } = setUp({
      'jobs/in/_job.json': '{"model":"digits"}',
      'jobs/in/csv/_job.json':
        '{"model":"digits","version":"1","inputs":{"image":["p0..p3"]},"keep":["id"],"concurrency":5000}',
    });
    await submitEvent(eventOf('jobs/in/csv/deep/a.csv'), deps);
    await submitEvent(eventOf('jobs/in/a.jsonl'), deps);
    expect([...started.values()].map(({ spec, concurrency }) => [spec, concurrency])).toEqual([
      [{ model: 'digits', version: '1', inputs: { image: ['p0', 'p1', 'p2', 'p3'] }, keep: ['id'] }, 200],
      [{ model: 'digits' }, 200],
    ]);
  });

  it('starts nothing with settings that are wrong, and says where they are', async () => {
    const { deps, started, warnings } = setUp({ 'jobs/in/_job.json': '{"modle":"digits"}' });
    await expect(submitEvent(eventOf('jobs/in/a.jsonl'), deps)).rejects.toThrow(/modle/);
    expect(started.size).toBe(0);
    expect(warnings).toEqual([expect.stringContaining('jobs/in/_job.json')]);
  });
});

describe('the name of a job', () => {
  const input = { bucket: 'b', key: 'k', etag: '"abc"' };

  it('is that of its object and of what is asked for', () => {
    const specs = [
      {},
      { model: 'a' },
      { model: 'a', version: '1' },
      { keep: ['x'] },
      { inputs: { x: ['p'] } },
      { missing: 'nan' },
      { separator: ';' },
    ];
    const names = specs.map((spec) => jobId(input, spec));
    expect(new Set(names).size).toBe(specs.length);
    for (const name of names) expect(name).toMatch(/^[0-9a-f]{32}$/);
    expect(jobId({ ...input, etag: 'abc' }, {})).toBe(jobId(input, {}));
    const inputs = { x: ['p'], y: ['q'] };
    expect(jobId(input, { inputs: { y: ['q'], x: ['p'] } })).toBe(jobId(input, { inputs }));
  });
});
