import { describe, expect, it } from '@jest/globals';
import type { Announcement } from '../../../lambda/aws/announce.ts';
import { createControlHandler, type EndedExecution } from '../../../lambda/jobs/finishJob.ts';
import { failureKey, planKey, readParts } from '../../../lambda/jobs/jobObjects.ts';
import type { JobStart } from '../../../lambda/jobs/jobTypes.ts';
import type { PlanAnswer } from '../../../lambda/jobs/planJob.ts';
import {
  createScoreHandler,
  type JobEvent,
  type ScoreEvent,
  type ScoreHandlerDependencies,
} from '../../../lambda/jobs/scorePart.ts';
import { FOLDER, LIMITS, type MemoryStorage, memoryStorage, rowsOf, startOf } from '../../helpers/jobs.ts';
import { lineModel, repositoryOf, scoreModels } from '../../helpers/scoring.ts';

const CALL = { getRemainingTimeInMillis: () => 900_000 };
const CONTENT = Buffer.from('{"instances":[[1]]}\n{"model_version":"2","instances":[[1]]}\n{"instances":[[3]]}\n');
const KEY = 'in/a.jsonl';

function setUp(storage: MemoryStorage, other: Partial<ScoreHandlerDependencies> = {}) {
  storage.objects.set(KEY, CONTENT);
  const models = repositoryOf(lineModel(), lineModel({ version: '2' }));
  const score = createScoreHandler({
    storage: () => storage,
    scorer: { score: scoreModels(models, LIMITS), find: async (name, version) => models.find(name, version) },
    partBytes: 50,
    pieceBytes: 25,
    maxLineBytes: 1_000,
    observer: {},
    ...other,
  });
  const submit = { executions: { start: async () => true }, inputPrefix: 'in/', outputPrefix: 'out/' };
  const executions = new Map<string, EndedExecution>();
  const told: Announcement[] = [];
  const events = {
    describe: async (arn: string) => executions.get(arn) ?? {},
    announce: async (announcements: readonly Announcement[]) => void told.push(...announcements),
  };
  const control = createControlHandler({
    ...{ storage, bucket: 'bucket', concurrency: 1, warn: () => {} },
    ...submit,
    ...events,
  });
  /** Over JSON, as Step Functions hands it over. */
  const call = async <A>(event: unknown): Promise<A> =>
    JSON.parse(JSON.stringify(await score(JSON.parse(JSON.stringify(event)) as JobEvent, CALL)));
  return { call, control, executions, told };
}

function start(storage: MemoryStorage): JobStart {
  return startOf({ storage, models: repositoryOf(lineModel()), key: KEY, content: CONTENT, spec: { version: '1' } });
}

describe('the functions of jobs', () => {
  it('plan, score and finish a job, in the version that it asks for where a row asks for none', async () => {
    const storage = memoryStorage();
    const { call, control } = setUp(storage);
    const plan = await call<PlanAnswer>({ action: 'plan', start: start(storage) });
    expect(plan).toEqual({ planKey: planKey(FOLDER, 1), parts: 2, pieces: 4 });
    for (const part of await readParts(storage, plan.planKey)) {
      const event = { action: 'score', bucket: 'bucket', folder: FOLDER, part };
      expect(await call<ScoreEvent>(event)).toEqual(event);
    }
    const answer = await control({ action: 'finish', start: start(storage) });
    expect(answer).toEqual({
      job: 'job',
      rows: 3,
      errors: {},
      reasons: {},
      failedParts: 0,
      manifest: `${FOLDER}manifest.json`,
    });
    expect((await rowsOf(storage)).map((row) => row.model_version)).toEqual(['1', '2', '1']);
  });

  it('refuse to finish a job that lacks a report, and write no manifest', async () => {
    const storage = memoryStorage();
    const { call, control } = setUp(storage);
    const { planKey: key } = await call<PlanAnswer>({ action: 'plan', start: start(storage) });
    const [part] = await readParts(storage, key);
    await call({ action: 'score', bucket: 'bucket', folder: FOLDER, part });
    const finish = control({ action: 'finish', start: start(storage) });
    await expect(finish).rejects.toMatchObject({
      name: 'PIECES_MISSING',
      message: expect.stringContaining('reports/000001-0000.json; resume the job'),
    });
    expect(storage.objects.has(`${FOLDER}manifest.json`)).toBe(false);
  });

  it.each([
    ['gone', (storage: MemoryStorage, key: string) => void storage.objects.delete(key)],
    ['cut short', (storage: MemoryStorage, key: string) => void storage.objects.set(key, Buffer.from('{}\n'))],
  ])('refuse to finish a job with an object of results that is %s', async (_, harm) => {
    const storage = memoryStorage();
    const { call, control } = setUp(storage);
    const plan = await call<PlanAnswer>({ action: 'plan', start: start(storage) });
    for (const part of await readParts(storage, plan.planKey)) {
      await call({ action: 'score', bucket: 'bucket', folder: FOLDER, part });
    }
    harm(storage, `${FOLDER}data/part-000001-0000-000000000.jsonl`);
    const finish = control({ action: 'finish', start: start(storage) });
    await expect(finish).rejects.toMatchObject({
      name: 'RESULTS_MISSING',
      message: expect.stringMatching(/ of reports\/000001-0000\.json, .*--again/),
    });
    expect(storage.objects.has(`${FOLDER}manifest.json`)).toBe(false);
  });

  it('tell others of every end of a job, by what Step Functions knows of it', async () => {
    const storage = memoryStorage();
    const { call, control, executions, told } = setUp(storage);
    const input = JSON.stringify(start(storage));
    const tellOf = async (execution: EndedExecution, ended = execution.status ?? '') => {
      executions.set('arn', { input, ...execution });
      await control({ detail: { executionArn: 'arn', status: ended } });
    };
    const places = { event: 'job-ended', job: 'job', input: 's3://bucket/in/a.jsonl', output: `s3://bucket/${FOLDER}` };
    await tellOf({ status: 'TIMED_OUT' });
    await call({ action: 'plan', start: start(storage) });
    const output = { job: 'job', rows: 3, errors: { INVALID_DATA: 1 }, reasons: {}, failedParts: 1, manifest: 'm' };
    // What Step Functions describes may be older than what it has told: Lambda makes the call again.
    for (const behind of [{}, { status: 'RUNNING' }, { status: 'SUCCEEDED' }]) {
      await expect(tellOf(behind, 'SUCCEEDED')).rejects.toThrow(/expected .* of an execution that has ended, got/);
    }
    await tellOf({ status: 'SUCCEEDED', output: JSON.stringify(output) });
    await expect(tellOf({ status: 'RUNNING' }, 'FAILED')).rejects.toThrow(/got RUNNING/);
    await tellOf({ status: 'FAILED', error: 'INPUT_CHANGED', cause: 'another lies there' });
    await tellOf({ status: 'ABORTED' });
    const known = { ...places, model: 'line', version: '1' };
    expect(JSON.parse(JSON.stringify(told))).toEqual([
      { ...places, version: '1', state: 'failed', code: 'TIMED_OUT' },
      { ...known, state: 'done', rows: 3, errors: { INVALID_DATA: 1 }, failedParts: 1 },
      { ...known, state: 'failed', code: 'INPUT_CHANGED', message: 'another lies there' },
      { ...known, state: 'cancelled' },
    ]);
  });

  it('say why a job ended where Step Functions does not know it', async () => {
    const storage = memoryStorage();
    const { call, control } = setUp(storage);
    const planned = start(storage);
    storage.objects.set(KEY, Buffer.from('another'));
    await expect(call({ action: 'plan', start: planned })).rejects.toMatchObject({ name: 'INPUT_CHANGED' });
    const map = { Error: 'States.ExceedToleratedFailureThreshold', Cause: 'a child failed' };
    const explained = await control({ action: 'explain', start: { ...planned, error: map } });
    expect(explained).toMatchObject({ code: 'INPUT_CHANGED' });
    storage.objects.delete(failureKey(FOLDER));
    const thrown = { Error: 'Error', Cause: '{"errorMessage":"the model is broken","errorType":"Error"}' };
    const other = await control({ action: 'explain', start: { ...planned, error: thrown } });
    expect(other).toEqual({ code: 'Error', message: 'the model is broken' });
  });

  it.each([
    ['in/a.txt', {}, /in\/a\.txt: expected a key that ends in \.jsonl, /],
    [KEY, { model: 'other' }, /expected one of line, got "other"/],
    [KEY, { keep: ['id'] }, /expected keep only with CSV, Parquet and plain objects/],
  ])('refuse %s with %j before anything is scored', async (key, spec, message) => {
    const storage = memoryStorage();
    const { call } = setUp(storage);
    storage.objects.set(key, CONTENT);
    const planned = call({ action: 'plan', start: { ...start(storage), key, spec } });
    await expect(planned).rejects.toMatchObject({ name: 'INVALID_JOB', message: expect.stringMatching(message) });
    expect(storage.puts).toEqual([failureKey(FOLDER)]);
  });
});
