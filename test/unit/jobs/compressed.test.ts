import { gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { finishJob } from '../../../lambda/jobs/finishJob.ts';
import { failedKey, planKey, readHead, readParts, reportKey } from '../../../lambda/jobs/jobObjects.ts';
import type { Next, Part } from '../../../lambda/jobs/jobTypes.ts';
import { planJob } from '../../../lambda/jobs/planJob.ts';
import { skipPiece } from '../../../lambda/jobs/scorePart.ts';
import { callScore, FOLDER, jobOf, manifestIn, planOf, rowsOf, runJob, startOf } from '../../helpers/jobs.ts';

const SIZES = { partBytes: 50_000, pieceBytes: 10_000 };
const LINES = Array.from({ length: 800 }, (_, x) => JSON.stringify({ id: `${x}`, instances: [[x]], parameters: {} }));
const TEXT = Buffer.from(`${LINES.join('\r\n')}\r\n`);

describe('compressed text', () => {
  it.each([
    ['in/a.jsonl.gz', gzipSync(TEXT)],
    ['in/a.jsonl.zst', zstdCompressSync(TEXT)],
  ])('is scored on from the middle, where the calls before have ended: %s', async (key, content) => {
    let calls = 0;
    let asked = 0;
    const time = () => {
      calls += 1;
      asked = 0;
      return { remainingMs: () => 312 - asked++, signal: new AbortController().signal };
    };
    const rows = await runJob(jobOf(key, content, { ...SIZES, time }));
    expect(calls).toBeGreaterThan(2);
    expect(rows.map(({ id }) => id)).toEqual(LINES.map((_, x) => `${x}`));
  });

  it.each([
    ['gz', gzipSync],
    ['zst', zstdCompressSync],
  ])('of a few bytes may not inflate to a long line: %s', async (ending, compress) => {
    const lines = [LINES[0], `"${'0'.repeat(2_000_000)}"`, LINES[1]].join('\n');
    const content = compress(lines);
    const rows = await runJob(jobOf(`in/a.jsonl.${ending}`, content, { ...SIZES, maxLineBytes: 10_000_000 }));
    const error = `line: expected at most ${1_048_576 + 32 * content.length} bytes in a compressed file of ${content.length}, got more; decompress the file`;
    expect(rows).toMatchObject([{ id: '0' }, { code: 'PAYLOAD_TOO_LARGE', error }, { id: '1' }]);
  });

  it.each(['in/a.jsonl.gz', 'in/a.jsonl.zst'])('that is none is refused: %s', async (key) => {
    const job = jobOf(key, TEXT, SIZES);
    await expect(runJob(job)).rejects.toMatchObject({ name: 'INVALID_JOB' });
    expect(await rowsOf(job.storage)).toEqual([]);
  });

  it.each(['gz', 'zst'])('that ends too early, or has other bytes after it, is refused: %s', async (ending) => {
    const whole = ending === 'gz' ? gzipSync(TEXT) : zstdCompressSync(TEXT);
    for (const content of [whole.subarray(0, -1), Buffer.concat([whole, Buffer.from('no frame')])]) {
      const running = runJob(jobOf(`in/a.jsonl.${ending}`, content, SIZES));
      await expect(running).rejects.toMatchObject({ name: 'INVALID_JOB' });
    }
  });

  it('that takes too long to pass over is given up from there on, and what comes before it stands', async () => {
    let calls = 0;
    const time = () => {
      calls += 1;
      let asked = 0;
      // The first call ends in the middle; of each further one half the time is gone as soon as it is asked again.
      const [max, then] = calls === 1 ? [12, 0] : [1, 499_999];
      return { remainingMs: () => (asked++ < max ? 1_000_000 : then), signal: new AbortController().signal };
    };
    const job = jobOf('in/a.jsonl.gz', gzipSync(TEXT), { ...SIZES, time });
    const rows = await runJob(job);
    expect(calls).toBe(2);
    expect(rows.length).toBeGreaterThan(100);
    expect(rows.map(({ id }) => id)).toEqual(rows.map((_, x) => `${x}`));
    const manifest = manifestIn(job.storage);
    expect([manifest.rows, manifest.failedParts]).toEqual([
      rows.length,
      [
        expect.objectContaining({
          code: 'DEADLINE',
          error: expect.stringMatching(/^in\/a\.jsonl\.gz: expected to skip .* all after it .* without gzip$/),
        }),
      ],
    ]);
  });

  it('of zstd with a window that is too large for Node is refused, with what to do', async () => {
    // A frame whose header asks for 2 GiB, and one block as it is. @see https://www.rfc-editor.org/rfc/rfc8878#section-3.1.1
    const block = Buffer.from([
      (TEXT.length * 8 + 1) & 0xff,
      ((TEXT.length * 8 + 1) >> 8) & 0xff,
      (TEXT.length * 8 + 1) >> 16,
    ]);
    const content = Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, (31 - 10) << 3]), block, TEXT]);
    await expect(runJob(jobOf('in/a.jsonl.zst', content, SIZES))).rejects.toMatchObject({
      name: 'INVALID_JOB',
      message:
        'in/a.jsonl.zst: expected zstd with a window of at most 128 MiB, got a larger one; compress it with --long=27 or less',
    });
  });

  it('has no piece behind its last one, whatever calls die of after its report', async () => {
    const job = jobOf('in/a.jsonl.gz', gzipSync(TEXT), SIZES);
    await runJob(job);
    const skip = async (part: Part, next?: Next) => {
      const head = await readHead(job.storage, FOLDER);
      if (head === undefined) throw new Error('expected a plan');
      const call = { action: 'score', bucket: 'bucket', folder: FOLDER, part, next } as const;
      return (await skipPiece(call, job.storage, head)).next;
    };
    const pieces = [...job.storage.objects.keys()].filter((key) => key.includes('/reports/')).length;
    const [whole] = (await readParts(job.storage, planKey(FOLDER, 1))) as [Part];
    const resumed = { ...whole, except: [pieces - 1] };
    for (const part of [whole, resumed]) {
      for (const next of [undefined, { piece: pieces - 1, isSuspect: true } as const])
        expect(await skip(part, next)).toBeUndefined();
    }
    // As an earlier version has left one.
    const phantom = { part: 0, piece: pieces, code: 'Lambda.Unknown', error: 'died' };
    await job.storage.put(failedKey(FOLDER, 0, pieces), JSON.stringify(phantom));
    const { failedParts } = await finishJob({ action: 'finish', start: startOf(job) }, job.storage, () => 0);
    expect([failedParts, manifestIn(job.storage).failedParts]).toEqual([0, []]);
  });

  it('is reported again only where a report lacks when its job is resumed', async () => {
    const job = jobOf('in/a.jsonl.gz', gzipSync(TEXT), SIZES);
    const rows = await runJob(job);
    const lost = reportKey(FOLDER, 0, 1);
    await job.storage.remove(lost);
    const before = job.storage.puts.length;
    expect(await runJob({ ...job, run: 2 })).toEqual(rows);
    expect(job.storage.puts.slice(before).filter((key) => /data|reports/.test(key))).toEqual([lost]);
  });

  it('of more pieces than keys can tell apart in order is refused, with the number', async () => {
    const job = jobOf('in/a.jsonl.gz', gzipSync(TEXT), { ...SIZES, pieceBytes: 2 });
    await planOf(job);
    const next = { piece: 10_000 };
    const [part] = (await readParts(job.storage, planKey(FOLDER, 1))) as [Part];
    const event = { action: 'score' as const, bucket: 'bucket', folder: FOLDER, part, next };
    await expect(callScore(event, job)).rejects.toMatchObject({
      name: 'INVALID_JOB',
      message: expect.stringContaining('at most 20000 bytes of text, got more; cut the file'),
    });
  });

  it('of more than a gibibyte is refused, with the number', async () => {
    const job = jobOf('in/a.jsonl.gz', gzipSync(TEXT));
    const start = { ...startOf(job), bytes: 2 ** 30 + 1 };
    const deps = { ...job, partBytes: 100, pieceBytes: 10, now: () => 0 };
    await expect(planJob({ action: 'plan', start }, deps)).rejects.toMatchObject({
      name: 'INVALID_JOB',
      message: expect.stringMatching(/expected at most 1073741824 bytes of gzip, .* got 1073741825; split the file/),
    });
  });

  describe.each([
    ['empty frames', zstdCompressSync(Buffer.alloc(0))],
    ['frames that are skipped', Buffer.from('502a4d1800000000', 'hex')],
    ['frames of a byte', zstdCompressSync(Buffer.from('\n'))],
  ])('of 20,000 %s', (_, frame) => {
    const many = Buffer.concat(Array<Buffer>(20_000).fill(frame));
    const refusal = {
      name: 'INVALID_JOB',
      message: expect.stringMatching(
        /^in\/a\.jsonl\.zst: expected zstd frames of 16 bytes of text or more, got over 250 smaller ones; compress/,
      ),
    };

    it('is refused as it is planned', async () => {
      const before = process.cpuUsage();
      await expect(planOf(jobOf('in/a.jsonl.zst', many, SIZES))).rejects.toMatchObject(refusal);
      const { user, system } = process.cpuUsage(before);
      expect(user + system).toBeLessThan(1_000_000);
    });

    it('is refused as it is scored, where rows come first', async () => {
      // So long that a plan does not see what follows.
      const rows = Buffer.alloc(2 ** 20, LINES.join('\n'));
      const job = jobOf('in/a.jsonl.zst', Buffer.concat([zstdCompressSync(rows), many]), {
        ...SIZES,
        pieceBytes: 2 ** 20,
      });
      await expect(runJob(job)).rejects.toMatchObject(refusal);
    });
  });

  it('of many small frames is scored', async () => {
    const frames = LINES.flatMap((line) => [
      Buffer.from('502a4d1800000000', 'hex'),
      zstdCompressSync(Buffer.from(`${line}\n`)),
    ]);
    const rows = await runJob(jobOf('in/a.jsonl.zst', Buffer.concat(frames), SIZES));
    expect(rows.map(({ id }) => id)).toEqual(LINES.map((_, x) => `${x}`));
  });

  describe.each([
    ['gz', gzipSync(Buffer.alloc(0))],
    ['zst', zstdCompressSync(Buffer.alloc(0))],
  ])('that goes on and on without a row: %s', (ending, empty) => {
    /** A bucket that has no end of what is empty, and counts what is read of it. */
    const endless = (content: Buffer) => {
      const job = jobOf(`in/a.jsonl.${ending}`, content, { ...SIZES, pieceBytes: 2 ** 20 });
      const counted = { reads: 0 };
      const storage: typeof job.storage = {
        ...job.storage,
        async *readAll() {
          yield content;
          for (; ; counted.reads += 1) yield counted.reads % 4 === 0 ? empty : new Uint8Array();
        },
      };
      return { ...job, storage, counted };
    };
    const deps = (job: ReturnType<typeof endless>, hasTime: () => boolean) => {
      const { storage, models } = job;
      return { storage, models, partBytes: 50_000, pieceBytes: 10_000, hasTime, now: () => 0 };
    };
    const plan = (job: ReturnType<typeof endless>, hasTime: () => boolean) =>
      planJob({ action: 'plan', start: startOf(job) }, deps(job, hasTime));

    it('is refused as it is planned, once half of the time is gone', async () => {
      const job = endless(empty);
      await expect(plan(job, () => job.counted.reads < 100)).rejects.toMatchObject({
        name: 'INVALID_JOB',
        message: expect.stringMatching(
          /^in\/a\.jsonl\.\w+: expected the first 1048576 bytes of text within half of a call's time/,
        ),
      });
    });

    it('ends when the job is cancelled, as it is planned and as it is scored', async () => {
      const clock = performance.now;
      const job = endless(empty);
      const cancelAfter = (reads: number): void => {
        performance.now = () => {
          if (job.counted.reads >= reads) void job.storage.put(`${FOLDER}cancelled`, '');
          return job.counted.reads * 1_000;
        };
      };
      try {
        cancelAfter(10);
        await expect(plan(job, () => true)).rejects.toThrow(/^in\/a\.jsonl\.\w+: the job was cancelled$/);
        const scored = endless(ending === 'gz' ? gzipSync(TEXT) : zstdCompressSync(TEXT));
        await planOf({
          ...scored,
          storage: { ...scored.storage, readAll: jobOf(scored.key, scored.content).storage.readAll },
        });
        performance.now = () => {
          if (scored.counted.reads >= 10) void scored.storage.put(`${FOLDER}cancelled`, '');
          return scored.counted.reads * 1_000;
        };
        const [part] = (await readParts(scored.storage, planKey(FOLDER, 1))) as [Part];
        const event = { action: 'score' as const, bucket: 'bucket', folder: FOLDER, part };
        expect(await callScore(event, scored)).toMatchObject({ next: { piece: 0 } });
        expect([...scored.storage.objects.keys()].filter((key) => key.includes('/failed/'))).toEqual([]);
      } finally {
        performance.now = clock;
      }
    });
  });
});
