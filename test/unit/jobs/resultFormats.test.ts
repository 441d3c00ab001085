import { describe, expect, it } from '@jest/globals';
import { parquetReadObjects } from 'hyparquet';
import type { Format } from '../../../lambda/jobs/jobFiles.ts';
import { FOLDER, type JobOptions, jobOf, type MemoryStorage, manifestIn, planOf, playJob } from '../../helpers/jobs.ts';

const ROWS = 300;
const CSV = `x,name\n${Array.from({ length: ROWS }, (_, x) => (x === 77 ? 'oops,"a,""b"\n' : `${x},n${x}\n`)).join('')}`;
const KEPT = Array.from({ length: ROWS }, (_, x) => (x === 77 ? 'a,"b' : `n${x}`));

/** Scores a file, and returns its job. */
async function score(results: Format | undefined, options: Partial<Omit<JobOptions, 'storage'>> = {}) {
  const job = jobOf('in/a.csv', CSV, {
    partBytes: 1_500,
    pieceBytes: 500,
    spec: { keep: ['name'], results },
    ...options,
  });
  await playJob(job);
  return job;
}

function objectsOf({ objects }: MemoryStorage): readonly Buffer[] {
  const keys = [...objects.keys()].filter((key) => key.startsWith(`${FOLDER}data/`)).toSorted();
  return keys.map((key) => objects.get(key) as Buffer);
}

async function parquetRows(storage: MemoryStorage): Promise<Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = [];
  for (const bytes of objectsOf(storage)) {
    rows.push(...(await parquetReadObjects({ file: new Uint8Array(bytes).buffer as ArrayBuffer })));
  }
  return rows;
}

describe('results of a job', () => {
  it('are tables of CSV, each with its header, in the order of the input', async () => {
    const { storage } = await score('csv');
    const texts = objectsOf(storage).map(String);
    expect(texts.length).toBeGreaterThan(2);
    expect(new Set(texts.map((text) => text.split('\n')[0]))).toEqual(new Set(['message_id,name,y,code,error']));
    const lines = texts.flatMap((text) => text.trimEnd().split('\n').slice(1));
    expect(lines.length).toBe(ROWS);
    expect(lines[5]).toMatch(/^\d+,n5,11,,$/);
    expect(lines[77]).toMatch(/^\d+,"a,""b",,INVALID_DATA,"column 'x': expected/);
    expect(manifestIn(storage)).toMatchObject({ rows: ROWS, data: { format: 'csv', objects: texts.length } });
  });

  it.each([
    ['in one call for each part', undefined],
    ['in calls that end in the middle of a piece', 20],
  ])('are Parquet, %s', async (_, steps) => {
    let asked = 0;
    const time = () => {
      asked = 0;
      return {
        remainingMs: () => (steps === undefined ? Number.POSITIVE_INFINITY : 305 + steps - asked++),
        signal: new AbortController().signal,
      };
    };
    const { storage } = await score('parquet', { time });
    const rows = await parquetRows(storage);
    expect(rows.map(({ name }) => name)).toEqual(KEPT);
    expect(rows.map(({ y }) => y)).toEqual(Array.from({ length: ROWS }, (_, x) => (x === 77 ? null : 2 * x + 1)));
    expect(rows[77]).toMatchObject({ code: 'INVALID_DATA', error: expect.stringContaining("column 'x'") });
    expect(manifestIn(storage)).toMatchObject({
      rows: ROWS,
      errors: { INVALID_DATA: 1 },
      reasons: { INVALID_DATA: { message_id: rows[77]?.message_id, error: rows[77]?.error } },
    });
  });

  it('are lines of JSON otherwise', async () => {
    const { storage } = await score(undefined);
    expect(JSON.parse(String(objectsOf(storage)[0]).split('\n')[0] ?? '')).toMatchObject({ kept: { name: 'n0' } });
    expect(manifestIn(storage).data.format).toBe('jsonl');
  });

  it('are no table if the rows are requests', async () => {
    const job = jobOf('in/a.jsonl', '{"instances":[[1]]}\n', { spec: { results: 'csv' } });
    await expect(planOf(job)).rejects.toMatchObject({
      name: 'INVALID_JOB',
      message: 'results: expected jsonl, because the rows of in/a.jsonl are requests, which have no columns, got csv',
    });
  });

  it('have the first errors in metadata that S3 takes, whatever the errors say', async () => {
    const cell = `"${'é'.repeat(40)}\u{1F600}${'x'.repeat(5_000)}"`;
    const job = jobOf('in/a.csv', `x,name\n${cell},1\nline\n`, {
      pieceBytes: 20_000,
      partBytes: 20_000,
      spec: { results: 'csv' },
    });
    const { storage } = job;
    await playJob(job);
    const keys = [...storage.objects.keys()].filter((key) => key.startsWith(`${FOLDER}data/`));
    for (const key of keys) {
      const about = (await storage.look(key))?.about ?? '';
      expect(about).toMatch(/^[\x20-\x7e]+$/);
      expect(about.length + 'about'.length).toBeLessThanOrEqual(2048);
    }
    expect(manifestIn(storage).reasons?.INVALID_DATA?.error).toContain('é');
  });
});
