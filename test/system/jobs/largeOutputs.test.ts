import { describe, expect, it } from '@jest/globals';
import type { TimeLimit } from '../../../lambda/core/record.ts';
import { finishJob } from '../../../lambda/jobs/finishJob.ts';
import { dataKeys, planKey, readParts } from '../../../lambda/jobs/jobObjects.ts';
import type { ScoreEvent } from '../../../lambda/jobs/scorePart.ts';
import { runScript } from '../../helpers/command.ts';
import {
  callScore,
  FOLDER,
  type JobOptions,
  jobOf,
  type MemoryStorage,
  manifestIn,
  ProcessEnded,
  planOf,
  rowsOf,
  runJob,
  startOf,
} from '../../helpers/jobs.ts';
import { repositoryOf } from '../../helpers/scoring.ts';
import { wordLines, wordModel, wordOf } from './wordModel.ts';

type WordJob = ReturnType<typeof jobOfWords>;

function jobOfWords(count: number, dots: (x: number) => number, options: Partial<Omit<JobOptions, 'storage'>> = {}) {
  const models = repositoryOf(wordModel(dots));
  return jobOf('in/words.jsonl', wordLines(count), { models, partBytes: 1e9, pieceBytes: 4_000, ...options });
}

const expectedWords = (count: number, dots: (x: number) => number) =>
  Array.from({ length: count }, (_, x) => [x, dots(x)]);
const dataIn = ({ objects }: MemoryStorage) =>
  [...objects].filter(([key]) => key.startsWith(dataKeys(FOLDER))).toSorted();

describe('a piece whose results are much larger than it', () => {
  it('is put as objects that are bounded, whose keys are in the order of the rows', async () => {
    const job = jobOfWords(500, () => 1_000);
    const rows = await runJob(job);
    expect(rows.map(wordOf)).toEqual(expectedWords(500, () => 1_000));
    const objects = dataIn(job.storage);
    expect(objects.length).toBeGreaterThan(60);
    for (const [, bytes] of objects) expect(bytes.length).toBeLessThan(2 * 4_000 + 1_200);
    expect(manifestIn(job.storage)).toMatchObject({
      rows: 500,
      data: { objects: objects.length },
      bytesOut: objects.reduce((sum, [, bytes]) => sum + bytes.length, 0),
    });
  });

  it('has each row once, however many calls score it at once, whatever is cut short or lost', async () => {
    const random = randomNumbers(7);
    for (let turn = 0; turn < 12; turn++) {
      const job = slowJob(150, random);
      await planOf(job);
      const [part] = await readParts(job.storage, planKey(FOLDER, 1));
      let event: ScoreEvent = { action: 'score', bucket: 'bucket', folder: FOLDER, part: part as ScoreEvent['part'] };
      for (let isDone = false; !isDone; ) {
        const answers = await Promise.allSettled([callScore(event, job), callScore(event, job), callScore(event, job)]);
        const given = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
        // A call that fails is made again as it was.
        event = given[Math.floor(random() * given.length)] ?? event;
        isDone = given.length > 0 && event.next === undefined;
      }
      await finishJob({ action: 'finish', start: startOf(job) }, job.storage, () => 0);
      expect((await rowsOf(job.storage)).map((row) => wordOf(row)[0])).toEqual(
        Array.from({ length: 150 }, (_, x) => x),
      );
      expect(manifestIn(job.storage).rows).toBe(150);
    }
  });

  it('stands as far as it was scored when it is given up, and is told of so', async () => {
    let isDead = false;
    const before = ([input]: readonly { readonly data: ArrayLike<unknown> }[]): void => {
      if (Array.from(input?.data ?? []).includes(390)) isDead = true;
    };
    const job = jobOfWords(400, () => 400, { pieceBytes: 1e4, models: repositoryOf(wordModel(() => 400, { before })) });
    const dying = async <T>(act: () => Promise<T>): Promise<T> => {
      if (!isDead) return act();
      isDead = false;
      throw new ProcessEnded();
    };
    const { storage } = job;
    const mortal: MemoryStorage = {
      ...storage,
      put: (key, body) => dying(() => storage.put(key, body)),
      putNew: (key, body, about) => dying(() => storage.putNew(key, body, about)),
    };
    const words = (await runJob({ ...job, storage: mortal })).map(wordOf);
    const { rows, failedParts, bytesOut } = manifestIn(storage);
    expect(words).toEqual(expectedWords(words.length, () => 400));
    expect([rows, failedParts]).toEqual([words.length, [expect.objectContaining({ rows: words.length })]]);
    expect(words.length).toBeGreaterThan(100);
    expect(bytesOut).toBe(dataIn(storage).reduce((sum, [, bytes]) => sum + bytes.length, 0));
    const resumed = (await runJob({ ...job, run: 2 })).map(wordOf);
    expect(resumed).toEqual(expectedWords(400, () => 400));
  });

  it('takes no more memory than a bounded part of them', async () => {
    // What is garbage already is no question of ours.
    const env = { NODE_OPTIONS: '--max-old-space-size=128' };
    const { stdout, code, stderr } = await runScript('test/system/jobs/outputMemory.ts', [], { env });
    expect([code, stderr]).toEqual([0, '']);
    const { rows, mib, peakMib } = JSON.parse(stdout);
    expect(rows).toBe(30_000);
    expect(mib).toBeGreaterThan(280);
    expect(peakMib).toBeLessThan(420);
  });
});

/** Each call ends when it likes and answers in its own words, each answer of the bucket takes its time, and some are lost. */
function slowJob(count: number, random: () => number): WordJob {
  const time = (): TimeLimit => {
    let asked = 0;
    const turns = 6 + Math.floor(random() * 12);
    return { remainingMs: () => (asked++ < turns ? 900_000 : 0), signal: new AbortController().signal };
  };
  const job = jobOfWords(count, () => Math.floor(600 * random()), { pieceBytes: 3_000, time });
  const pause = async (): Promise<void> => {
    for (let left = Math.floor(random() * 6); left > 0; left--) await new Promise(setImmediate);
  };
  const { storage } = job;
  const slow: MemoryStorage = {
    ...storage,
    async putNew(key, body, about) {
      await pause();
      const wasPut = await storage.putNew(key, body, about);
      await pause();
      if (random() < 0.1) throw new Error('the answer is lost');
      return wasPut;
    },
    async look(key) {
      await pause();
      return storage.look(key);
    },
  };
  return { ...job, storage: slow };
}

/** The same ones each time. @see https://en.wikipedia.org/wiki/Linear_congruential_generator */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (1_103_515_245 * state + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}
