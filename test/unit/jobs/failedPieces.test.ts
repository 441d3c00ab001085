import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../lambda/core/model.ts';
import { planKey, readParts } from '../../../lambda/jobs/jobObjects.ts';
import {
  callScore,
  FOLDER,
  jobOf,
  type MemoryStorage,
  manifestIn,
  ProcessEnded,
  planOf,
  runJob,
} from '../../helpers/jobs.ts';
import { lineModel, repositoryOf } from '../../helpers/scoring.ts';

const ROWS = 400;
const LINES = Array.from({ length: ROWS }, (_, x) => JSON.stringify({ id: `${x}`, instances: [[x]] }));
const CONTENT = `${LINES.join('\n')}\n`;

/** A job one of whose rows ends the process: from then on the call writes nothing, and ends. */
function deadlyJob(deadly: number) {
  const seen = new Set<number>();
  let isDead = false;
  let isMended = false;
  const model: Model = lineModel({
    before: ([input]) => {
      const values = input === undefined ? [] : Array.from(input.data, Number);
      for (const value of values) seen.add(value);
      if (values.includes(deadly) && !isMended) isDead = true;
    },
  });
  const sizes = { partBytes: 4_000, pieceBytes: 1_000 };
  const job = jobOf('in/rows.jsonl', CONTENT, { models: repositoryOf(model), ...sizes });
  const { storage } = job;
  const end = (): void => {
    if (!isDead) return;
    isDead = false;
    throw new ProcessEnded();
  };
  const alive: MemoryStorage = {
    ...storage,
    async put(key, body) {
      end();
      await storage.put(key, body);
    },
    async putNew(key, body, about) {
      end();
      return storage.putNew(key, body, about);
    },
  };
  const mend = (): void => {
    isMended = true;
  };
  return { ...job, storage: alive, seen, mend };
}

describe('a piece that ends the process', () => {
  it('is named in the manifest, and all others are there', async () => {
    const job = deadlyJob(217);
    const ids = (await runJob(job)).map(({ id }) => Number(id));
    const { failedParts, rows } = manifestIn(job.storage);
    expect(failedParts).toEqual([expect.objectContaining({ code: 'Runtime.ExitError', error: 'the process ended' })]);
    expect(ids).not.toContain(217);
    expect(rows).toBe(ids.length);
    expect(ids.length).toBeGreaterThan(ROWS - 40);
    expect(ids).toEqual(ids.toSorted((a, b) => a - b));
  });

  it('is all that is scored when the job is resumed', async () => {
    const job = deadlyJob(217);
    const before = (await runJob(job)).map(({ id }) => Number(id));
    job.seen.clear();
    job.mend();
    const rows = await runJob({ ...job, run: 2 });
    expect([...job.seen].filter((x) => before.includes(x))).toEqual([]);
    expect(rows.map(({ id }) => Number(id))).toEqual(Array.from({ length: ROWS }, (_, x) => x));
    expect(manifestIn(job.storage)).toMatchObject({ rows: ROWS, errors: {}, failedParts: [] });
  });

  it('takes no blame for the next one: that is read once this one has its report', async () => {
    const job = jobOf('in/rows.jsonl', CONTENT, { partBytes: 4_000, pieceBytes: 1_000 });
    await planOf(job);
    const [part] = await readParts(job.storage, planKey(FOLDER, 1));
    if (part === undefined) throw new Error('expected a part');
    const happened: string[] = [];
    const storage: MemoryStorage = {
      ...job.storage,
      readRange(input, span) {
        happened.push(`read ${Math.ceil(span.start / 1_000)}`);
        return job.storage.readRange(input, span);
      },
      async put(key, body) {
        await job.storage.put(key, body);
        happened.push(key.replace(`${FOLDER}reports/000000-000`, ''));
      },
    };
    const next = { piece: 1, isSuspect: true } as const;
    await callScore({ action: 'score', bucket: 'bucket', folder: FOLDER, part, next }, { ...job, storage });

    expect(happened.slice(0, 3)).toEqual(['read 1', '1.json', 'read 2']);
  });

  it('has a second chance in a job that is started anew, of which Step Functions has forgotten the name', async () => {
    const job = deadlyJob(217);
    await runJob(job);
    await planOf({ ...job, run: 2 });
    await job.storage.put(`${FOLDER}cancelled`, '');
    await planOf(job);
    const left = [...job.storage.objects.keys()].filter((key) => /cancelled|failed|manifest|resume/.test(key));
    expect(left).toEqual([]);
    job.mend();
    expect(await runJob(job)).toHaveLength(ROWS);
    expect(manifestIn(job.storage)).toMatchObject({ rows: ROWS, failedParts: [] });
  });
});
