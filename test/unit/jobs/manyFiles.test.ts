import { gzipSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { planKey, readParts } from '../../../lambda/jobs/jobObjects.ts';
import type { Part } from '../../../lambda/jobs/jobTypes.ts';
import { etagOf, isListing, listFiles } from '../../../lambda/jobs/submitJob.ts';
import {
  callScore,
  FOLDER,
  type JobOptions,
  jobOf,
  type MemoryStorage,
  manifestIn,
  memoryStorage,
  ProcessEnded,
  planOf,
  runJob,
} from '../../helpers/jobs.ts';
import { lineModel, repositoryOf } from '../../helpers/scoring.ts';

type Files = Readonly<Record<string, string | Uint8Array>>;

/** A job of several files, in a bucket of its own in memory. @param key that ends in `/` or `.manifest`, or has a `*` */
async function jobOver(key: string, files: Files, options: Partial<Omit<JobOptions, 'storage'>> = {}) {
  const storage = memoryStorage();
  for (const [name, content] of Object.entries(files)) storage.objects.set(name, Buffer.from(content));
  const etag = isListing(key) ? etagOf(await listFiles(storage, { bucket: 'bucket', key })) : undefined;
  const job = jobOf(key, files[key] ?? '', { partBytes: 4_000, pieceBytes: 1_000, ...options, storage });
  return etag === undefined ? job : { ...job, etag };
}

const csv = (...values: readonly (number | string)[]): string =>
  `x,name\n${values.map((x) => `${x},n${x}\n`).join('')}`;
const line = (x: number): string => `${JSON.stringify({ id: `${x}`, instances: [[x]] })}\n`;

async function refusalOf(key: string, files: Files, options: Partial<JobOptions> = {}): Promise<string> {
  const { name, message } = await jobOver(key, files, options)
    .then(planOf)
    .then(
      () => ({ name: 'none', message: '' }),
      (error: Error) => error,
    );
  return `${name}: ${message}`;
}

describe('a job over many files', () => {
  it('takes those under a prefix, and writes the results of each under its own path', async () => {
    const job = await jobOver('in/_days/', {
      'in/_days/day=1/a.csv': csv(1, 2),
      'in/_days/day=2/b.csv': csv(3, 'oops'),
      'in/_days/day=2/c.csv': 'x,name\n',
      'in/_days/day=2/empty.csv': '',
      'in/_days/_SUCCESS': 'no rows',
      'in/_days/_job.json': '{}',
      'in/_days/.part.csv.crc': 'no rows',
      'in/_other/d.csv': csv(9),
    });
    const rows = await runJob({ ...job, spec: { inputs: { x: ['x'] }, keep: ['name'] } });
    expect(rows.map(({ message_id, kept, code }) => [message_id, kept, code])).toEqual([
      ['day=1/a.csv#7', { name: 'n1' }, undefined],
      ['day=1/a.csv#12', { name: 'n2' }, undefined],
      ['day=2/b.csv#7', { name: 'n3' }, undefined],
      ['day=2/b.csv#12', { name: 'noops' }, 'INVALID_DATA'],
    ]);
    const keys = [...job.storage.objects.keys()].filter((key) => key.startsWith(`${FOLDER}data/`));
    expect(keys.map((key) => key.slice(`${FOLDER}data/`.length).replace(/\d+-\d+-\d+/, 'N'))).toEqual([
      'day=1/a.csv/part-N.jsonl',
      'day=2/b.csv/part-N.jsonl',
    ]);
    expect(manifestIn(job.storage)).toMatchObject({
      files: 3,
      rows: 4,
      errors: { INVALID_DATA: 1 },
      reasons: { INVALID_DATA: { message_id: 'day=2/b.csv#12' } },
      input: { key: 'in/_days/' },
    });
  });

  it.each([
    ['in/*.jsonl', ['b.jsonl#0']],
    ['in/*/*.jsonl', ['x/a.jsonl#0', 'y/a.jsonl#0']],
    ['in/**/a.jsonl', ['x/a.jsonl#0', 'x/z/a.jsonl#0', 'y/a.jsonl#0']],
    ['in/x/**', ['a.jsonl#0', 'z/a.jsonl#0']],
    ['in/x*', []],
    ['in/(x|y)+/*.jsonl', []],
  ])('takes what matches %s', async (key, expected) => {
    const names = ['b.jsonl', 'x/a.jsonl', 'x/z/a.jsonl', 'y/a.jsonl'];
    const files = Object.fromEntries(names.map((name) => [`in/${name}`, line(1)]));
    if (expected.length === 0) {
      expect(await refusalOf(key, files)).toMatch(/^INPUT_NOT_FOUND: .*: expected files/);
      return;
    }
    const rows = await runJob(await jobOver(key, files));
    expect(rows.map(({ message_id }) => message_id)).toEqual(expected);
  });

  it.each([
    ['lines', 's3://bucket/in/m/a.jsonl\r\n\r\ns3://bucket/in/n/b.jsonl', ['m/a.jsonl#0', 'n/b.jsonl#0']],
    ['names beside it', 'm/a.jsonl\nn/b.jsonl\n', ['m/a.jsonl#0', 'n/b.jsonl#0']],
    ['files of one folder', 'm/a.jsonl\nm/c.jsonl\n', ['a.jsonl#0', 'c.jsonl#0']],
    ['one file', 'm/a.jsonl', ['a.jsonl#0']],
    ['SageMaker', '[{"prefix":"s3://bucket/in/"},"m/a.jsonl","m/c.jsonl"]', ['m/a.jsonl#0', 'm/c.jsonl#0']],
  ])('takes those of a manifest of %s', async (_, manifest, expected) => {
    const files = { 'in/m/a.jsonl': line(1), 'in/n/b.jsonl': line(2), 'in/m/c.jsonl': line(3) };
    const rows = await runJob(await jobOver('in/these.manifest', { ...files, 'in/these.manifest': manifest }));
    expect(rows.map(({ message_id }) => message_id)).toEqual(expected);
  });

  it('scores large, small, compressed and many files in few parts, each row once and in order', async () => {
    const sizes = { a: 700, b: 3, c: 120, d: 1 };
    const content = (rows: number): string => Array.from({ length: rows }, (_, x) => line(x)).join('');
    const small = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`in/s/${at}.jsonl`, line(at)]));
    const job = await jobOver('in/', {
      ...small,
      ...Object.fromEntries(Object.entries(sizes).map(([name, rows]) => [`in/l/${name}.jsonl`, content(rows)])),
      'in/l/z.jsonl.gz': gzipSync(content(5)),
    });
    const rows = await runJob({ ...job, partBytes: 10_000 });
    const idsOf = (file: string) =>
      rows.filter(({ message_id }) => String(message_id).startsWith(`${file}#`)).map(({ id }) => Number(id));
    for (const [name, count] of Object.entries({ ...sizes, z: 5 })) {
      const file = name === 'z' ? 'l/z.jsonl.gz' : `l/${name}.jsonl`;
      expect([file, idsOf(file)]).toEqual([file, Array.from({ length: count }, (_, x) => x)]);
    }
    expect(manifestIn(job.storage)).toMatchObject({ files: 505, rows: 500 + 700 + 3 + 120 + 1 + 5, errors: {} });
    const parts = await readParts(job.storage, planKey(FOLDER, 1));
    expect(parts.length).toBeLessThan(20);
  });

  it('reads and writes several small files at once, and no more bytes of them than a piece', async () => {
    const job = await jobOver(
      'in/',
      Object.fromEntries(Array.from({ length: 40 }, (_, x) => [`in/${x}.jsonl`, line(x)])),
    );
    const most = { reads: 0, puts: 0 };
    const counted = <A extends unknown[], T>(what: keyof typeof most, act: (...args: A) => Promise<T>) => {
      let now = 0;
      return async (...args: A): Promise<T> => {
        most[what] = Math.max(most[what], ++now);
        await new Promise(setImmediate);
        return act(...args).finally(() => now--);
      };
    };
    const storage: MemoryStorage = {
      ...job.storage,
      readRange: counted('reads', job.storage.readRange),
      putNew: counted('puts', job.storage.putNew),
    };
    await planOf(job);
    const [part] = (await readParts(job.storage, planKey(FOLDER, 1))) as [Part];
    const answer = await callScore({ action: 'score', bucket: 'bucket', folder: FOLDER, part }, { ...job, storage });
    expect(answer.next).toBeUndefined();
    const inAPiece = 1_000 / line(1).length;
    expect(most.reads).toBeGreaterThan(inAPiece / 2);
    expect(most.reads).toBeLessThanOrEqual(inAPiece + 1);
    expect(most.puts).toBeGreaterThan(1);
  });

  it('has at most 64 small files in a part', async () => {
    const files = Object.fromEntries(Array.from({ length: 130 }, (_, x) => [`in/${x}.jsonl`, line(x)]));
    const job = await jobOver('in/', files, { partBytes: 1_000_000 });
    await planOf(job);
    const parts = await readParts(job.storage, planKey(FOLDER, 1));
    expect(parts.map((part) => part.files.length)).toEqual([64, 64, 2]);
  });

  it('scores plain objects, and fails only the lines that are none', async () => {
    const files = { 'in/a.jsonl': '{"x":1}\n', 'in/b.jsonl': '{"x":2}\n{"y":3}\n', 'in/c.jsonl': '\n' };
    const rows = await runJob(await jobOver('in/', files));
    expect(rows.map(({ message_id, code }) => [message_id, code])).toEqual([
      ['a.jsonl#0', undefined],
      ['b.jsonl#0', undefined],
      ['b.jsonl#8', 'MISSING_INPUT'],
    ]);
  });

  it('scores files of Parquet', async () => {
    const file = (...data: number[]) =>
      new Uint8Array(parquetWriteBuffer({ columnData: [{ name: 'x', data, type: 'FLOAT' }] }));
    const job = await jobOver('in/', { 'in/a.parquet': file(1, 2), 'in/b/c.parquet': file(3) });
    const rows = await runJob(job);
    expect(rows.map(({ message_id }) => message_id)).toEqual(['a.parquet#0', 'a.parquet#1', 'b/c.parquet#0']);
  });

  it('gives up a file that ends the process, names it, and scores it when resumed', async () => {
    let isDeadly = true;
    let isDead = false;
    const model = lineModel({
      before: ([input]) => {
        if (isDeadly && input !== undefined && Array.from(input.data, Number).includes(2)) isDead = true;
      },
    });
    const files = { 'in/a.jsonl': line(1), 'in/b.jsonl': line(2), 'in/c.jsonl': line(3) };
    const job = await jobOver('in/', files, { models: repositoryOf(model) });
    const live = async <T>(act: () => Promise<T>): Promise<T> => {
      if (!isDead) return act();
      isDead = false;
      throw new ProcessEnded();
    };
    const storage: MemoryStorage = {
      ...job.storage,
      put: (...args) => live(() => job.storage.put(...args)),
      putNew: (...args) => live(() => job.storage.putNew(...args)),
    };
    expect((await runJob({ ...job, storage })).map(({ id }) => id)).toEqual(['1', '3']);
    expect(manifestIn(job.storage)).toMatchObject({ rows: 2, failedParts: [{ path: 'b.jsonl', piece: 1 }] });
    isDeadly = false;
    expect((await runJob({ ...job, storage, run: 2 })).map(({ id }) => id)).toEqual(['1', '2', '3']);
    expect(manifestIn(job.storage)).toMatchObject({ rows: 3, failedParts: [] });
  });

  it('is refused if the files are no longer those that were submitted', async () => {
    const job = await jobOver('in/', { 'in/a.jsonl': line(1) });
    job.storage.objects.set('in/b.jsonl', Buffer.from(line(2)));
    await expect(planOf(job)).rejects.toMatchObject({ name: 'INPUT_CHANGED', message: expect.stringMatching(/^in\//) });
  });

  it('reads no more names of a prefix with a million keys than a job may have', async () => {
    let listed = 0;
    const endless = {
      async *list(prefix: string) {
        for (; listed < 1e6; listed++) yield { key: `${prefix}${listed}.csv`, etag: '"e"', bytes: 1 };
      },
    };
    await expect(listFiles(endless, { bucket: 'bucket', key: 'in/' })).rejects.toThrow(
      'in/: expected at most 100000 files in a job, got more; submit several jobs, or join the files',
    );
    expect(listed).toBeLessThan(100_010);
  });

  const A = { 'in/a.csv': csv(1) };
  it.each<[string, string, Files, string | RegExp]>([
    ['no file', 'in/', { 'in/_x.csv': csv(1) }, /^INPUT_NOT_FOUND: in\/: expected files/],
    [
      'other columns',
      'in/',
      { ...A, 'in/b.csv': 'x,title\n1,a\n' },
      'INVALID_JOB: in/b.csv: expected the columns, in the same order (name) of in/a.csv, got title; make it a job of its own',
    ],
    ['fewer columns', 'in/', { ...A, 'in/b.csv': 'x\n1\n' }, /in\/b\.csv: expected the columns.* got 1 columns/],
    [
      'other formats',
      'in/',
      { ...A, 'in/b.jsonl': line(1) },
      'INVALID_JOB: in/b.jsonl: expected the format csv of in/a.csv, got jsonl; make it a job of its own',
    ],
    [
      'an unknown format',
      'in/',
      { ...A, 'in/README.md': 'x' },
      /INVALID_JOB: in\/README\.md: expected a key that ends in/,
    ],
    ['a column that is missing', 'in/', { ...A, 'in/b.csv': 'y,name\n1,a\n' }, /INVALID_JOB: in\/b\.csv: input 'x'/],
    [
      'a long path',
      'in/',
      { ...A, [`in/${'d'.repeat(990)}.csv`]: csv(1) },
      /INVALID_JOB: in\/d+\.csv: expected a shorter path, because the keys of its results have over 1024 bytes/,
    ],
    ['text that is not gzip', 'in/', { ...A, 'in/b.csv.gz': csv(1) }, /INVALID_JOB: in\/b\.csv\.gz: expected gzip/],
    [
      'a missing file',
      'in/m.manifest',
      { ...A, 'in/m.manifest': 'a.csv\nb.csv\nc.csv' },
      'INPUT_NOT_FOUND: in/m.manifest: expected all 3 files to be there, 2 are not: s3://bucket/in/b.csv, ' +
        's3://bucket/in/c.csv; put them, or remove their names',
    ],
    [
      'a file twice',
      'in/m.manifest',
      { ...A, 'in/m.manifest': 'a.csv\ns3://bucket/in/a.csv' },
      'INVALID_JOB: in/m.manifest: expected each file once, got s3://bucket/in/a.csv twice; write the manifest again',
    ],
    [
      'a foreign bucket',
      'in/m.manifest',
      { ...A, 'in/m.manifest': '[{"prefix":"s3://other/in/"},"a.csv"]' },
      /INVALID_JOB: in\/m\.manifest: expected objects in s3:\/\/bucket\/, got s3:\/\/other\/in\/a\.csv/,
    ],
    [
      'a folder',
      'in/m.manifest',
      { 'in/m.manifest': 'x/' },
      /expected objects in s3:\/\/bucket\/, got s3:\/\/bucket\/in\/x\//,
    ],
    ['a manifest in it', 'in/m.manifest', { 'in/m.manifest': 'm.manifest' }, /expected a key that ends in \.jsonl/],
    ['nothing', 'in/m.manifest', { 'in/m.manifest': '\n' }, /expected the names of files, got none/],
    ['an empty object', 'in/m.manifest', { 'in/m.manifest': '' }, /expected the names of files, got none/],
    ['bytes', 'in/m.manifest', { 'in/m.manifest': Buffer.from([0xff, 0xfe]) }, /expected UTF-8, got other bytes/],
    [
      'other JSON',
      'in/m.manifest',
      { 'in/m.manifest': '{"source-ref":"s3://b/k"}\n' },
      /expected \[\{"prefix".*got other JSON/,
    ],
    ['a broken JSON', 'in/m.manifest', { 'in/m.manifest': '[{"prefix":"s3://bucket/"}' }, /got other JSON/],
    ['a prefix only', 'in/m.manifest', { 'in/m.manifest': '[{"prefix":"s3://bucket/in/"}]' }, /got none/],
    [
      'too many',
      'in/m.manifest',
      { 'in/m.manifest': Array.from({ length: 100_001 }, (_, at) => `${at}.csv`).join('\n') },
      /expected at most 100000 files in a job, got 100001/,
    ],
  ])('is refused with %s, by name', async (_, key, files, message) => {
    const refusal = await refusalOf(key, files);
    if (typeof message === 'string') expect(refusal).toBe(message);
    else expect(refusal).toMatch(message);
  });
});
