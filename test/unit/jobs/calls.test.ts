import { describe, expect, it } from '@jest/globals';
import { RunWithdrawnError } from '../../../lambda/core/model.ts';
import type { TimeLimit } from '../../../lambda/core/record.ts';
import { planKey, readParts } from '../../../lambda/jobs/jobObjects.ts';
import { requestRows } from '../../../lambda/jobs/rows.ts';
import type { ScoreEvent } from '../../../lambda/jobs/scorePart.ts';
import { createRowScoring } from '../../../lambda/jobs/scoreRows.ts';
import {
  callScore,
  FOLDER,
  type JobOptions,
  jobOf,
  LIMITS,
  type MemoryStorage,
  manifestIn,
  planOf,
  rowsOf,
  runJob,
} from '../../helpers/jobs.ts';
import { lineModel, repositoryOf, scoreModels } from '../../helpers/scoring.ts';

const MODELS = repositoryOf(lineModel());
const KEY = 'in/rows.jsonl';

function rowsFile(count: number): Buffer {
  const lines = Array.from({ length: count }, (_, x) => JSON.stringify({ id: `${x}`, instances: [[x]] }));
  return Buffer.from(`${lines.join('\n')}\n`);
}

function jobOfRows(count: number, options: Partial<Omit<JobOptions, 'storage'>> = {}) {
  return jobOf(KEY, rowsFile(count), { partBytes: 4_000, pieceBytes: 1_000, ...options });
}

/** The call that a part of a planned job begins with. */
async function firstCallOf(storage: MemoryStorage, index = 0): Promise<ScoreEvent> {
  const part = (await readParts(storage, planKey(FOLDER, 1)))[index];
  if (part === undefined) throw new Error(`expected a part ${index}`);
  return { action: 'score', bucket: 'bucket', folder: FOLDER, part };
}

const scoresOf = (rows: readonly Record<string, unknown>[]) => rows.map(({ id, predictions }) => [id, predictions]);
const expectedScores = (count: number) => Array.from({ length: count }, (_, x) => [`${x}`, [[2 * x + 1]]]);

/** A call with so much time left at first; each time it is asked a millisecond has gone, so that no clock is waited for. */
function callOf(totalMs: number): TimeLimit {
  let asked = 0;
  return { remainingMs: () => totalMs - asked++, signal: new AbortController().signal };
}

describe('the calls of a job', () => {
  it('write one row for every row, in order, and the manifest last', async () => {
    const job = jobOfRows(2_000);
    expect(scoresOf(await runJob(job))).toEqual(expectedScores(2_000));
    expect(manifestIn(job.storage)).toMatchObject({
      rows: 2_000,
      errors: {},
      failedParts: [],
      model: 'line',
      version: '1',
    });
    const { puts } = job.storage;
    expect(puts.at(-1)).toBe(`${FOLDER}manifest.json`);
    const pieces = puts.filter((key) => key.includes('/data/'));
    expect(pieces.length).toBeGreaterThan(10);
    for (const data of pieces) {
      const report = data.replace('/data/part-', '/reports/').replace(/-\d+\.jsonl$/, '.json');
      expect(puts.indexOf(report)).toBeGreaterThan(puts.indexOf(data));
    }
  });

  it('keep their answers apart, of one scoring and at the same time', async () => {
    const scoring = createRowScoring({ score: scoreModels(MODELS, LIMITS), observer: {} });
    const counts = [3_000, 700, 1, 2_000];
    const calls = counts.map((count, call) =>
      Array.from({ length: count }, (_, x) => JSON.stringify({ instances: [[1_000 * call + x]] })),
    );
    const scored = await Promise.all(calls.map((texts) => scoring.score(requestRows([...texts.keys()], texts))));
    for (const [call, { single }] of scored.entries()) {
      const results = single.map((result) => (result?.text === '' ? 'nothing' : JSON.parse(result?.text ?? '')));
      expect(results).toEqual(
        calls[call]?.map((_, x) =>
          expect.objectContaining({ message_id: `${x}`, predictions: [[2 * (1_000 * call + x) + 1]] }),
        ),
      );
    }
  });

  it('write the same objects when each of them is made twice', async () => {
    const job = jobOfRows(300);
    await runJob(job);
    const once = new Map(outputs(job.storage));
    for (const part of await readParts(job.storage, planKey(FOLDER, 1))) {
      await callScore({ action: 'score', bucket: 'bucket', folder: FOLDER, part }, job);
    }
    await planOf(job);
    expect(new Map(outputs(job.storage))).toEqual(once);
  });

  it('go on where the time of one is spent, within a piece too, whatever of it got lost', async () => {
    // The reserve is 300 ms: three or four steps of a thousand rows, or one of fewer, until it is reached.
    const job = jobOfRows(3_000, { partBytes: 1e6, pieceBytes: 1e6, time: () => callOf(305) });
    await planOf(job);
    let calls = 0;
    for (let event = await firstCallOf(job.storage); ; ) {
      await callScore(event, job);
      event = await callScore(event, job);
      calls += 1;
      if (event.next === undefined) break;
    }
    expect(calls).toBeGreaterThan(1);
    expect(scoresOf(await rowsOf(job.storage))).toEqual(expectedScores(3_000));
  });

  it.each([
    ['scored once a call has time for it', 2, undefined],
    ['answered with an error where two whole calls have none for it', Number.POSITIVE_INFINITY, 'DEADLINE'],
  ])('go on after a row that lacks time, which is %s', async (_, timesOut, code) => {
    let left = timesOut;
    const model = lineModel({
      before([x]) {
        if (x?.data.includes(1 as never) && left-- > 0) throw new RunWithdrawnError('its time is over');
      },
    });
    const row = rowsFile(1).length;
    const rows = await runJob(jobOfRows(3, { models: repositoryOf(model), partBytes: 3 * row, pieceBytes: row }));
    expect(rows.map((one) => [one.message_id, one.code])).toEqual([
      ['0', undefined],
      [`${row}`, code],
      [`${2 * row}`, undefined],
    ]);
  });

  it('end a job whose input is overwritten meanwhile, and mix no two versions', async () => {
    const job = jobOfRows(2_000);
    await planOf(job);
    await callScore(await firstCallOf(job.storage), job);
    const before = await rowsOf(job.storage);
    job.storage.objects.set(KEY, rowsFile(1_999));
    await expect(callScore(await firstCallOf(job.storage, 1), job)).rejects.toMatchObject({ name: 'INPUT_CHANGED' });
    expect(await rowsOf(job.storage)).toEqual(before);
  });

  it('end soon after the job is cancelled, and leave what is finished', async () => {
    let now = 0;
    const clock = performance.now;
    performance.now = () => now++ * 1_000;
    try {
      const job = jobOfRows(2_000, { partBytes: 1e6 });
      await planOf(job);
      await job.storage.put(`${FOLDER}cancelled`, '');
      const { next } = await callScore(await firstCallOf(job.storage), job);
      expect(next?.piece).toBeGreaterThan(0);
      expect(job.storage.objects.has(`${FOLDER}reports/000000-0000.json`)).toBe(true);
      expect(job.storage.objects.has(`${FOLDER}reports/000000-${String(next?.piece).padStart(3, '0')}.json`)).toBe(
        false,
      );
    } finally {
      performance.now = clock;
    }
  });
});

/** What a job leaves, but for times. */
function outputs({ objects }: MemoryStorage): [string, string][] {
  return [...objects]
    .filter(([key]) => key.startsWith(FOLDER) && !key.endsWith('manifest.json'))
    .map(([key, bytes]) => [key, bytes.toString().replace(/"ms":\d+/, '')]);
}
