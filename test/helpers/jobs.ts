import { createHash } from 'node:crypto';

import type { ModelRepository } from '../../lambda/core/model.ts';
import type { TimeLimit } from '../../lambda/core/record.ts';

import { finishJob } from '../../lambda/jobs/finishJob.ts';
import { dataKeys, planKey, readHead, readParts } from '../../lambda/jobs/jobObjects.ts';
import { JobError, type JobStart, type JobStorage, type Spec } from '../../lambda/jobs/jobTypes.ts';
import { type PlanAnswer, planJob } from '../../lambda/jobs/planJob.ts';
import { openReader, type ScoreEvent, scorePart, skipPiece } from '../../lambda/jobs/scorePart.ts';
import { createRowScoring, MOST_CHARACTERS_HELD } from '../../lambda/jobs/scoreRows.ts';

export const LIMITS = {
  maxRequestRows: 100,
  maxRequestsPerMessage: 100,
  maxAnswerCharacters: 100_000,
  maxBatchElements: 100_000,
  deadlineMarginMs: 1,
};
export const FOLDER = 'out/job/';
export const NO_DEADLINE: TimeLimit = {
  remainingMs: () => Number.POSITIVE_INFINITY,
  signal: new AbortController().signal,
};

export interface MemoryStorage extends JobStorage {
  readonly objects: Map<string, Buffer>;
  /** What was put, in order. */
  readonly puts: string[];
}

/** A bucket in memory, with versions by content. @param chunkBytes that an object is read in, where all of it is */
export function memoryStorage(chunkBytes = 7_001): MemoryStorage {
  const objects = new Map<string, Buffer>();
  const puts: string[] = [];
  const abouts = new Map<string, string>();
  const input = (key: string, etag: string): Buffer => {
    const bytes = objects.get(key);
    if (bytes === undefined) throw new JobError('INPUT_NOT_FOUND', key);
    if (etagOf(bytes) !== etag) throw new JobError('INPUT_CHANGED', key);
    return bytes;
  };
  return {
    objects,
    puts,
    readRange: async ({ key, etag }, { start, end }) => input(key, etag).subarray(start, end),
    readAll: async ({ key, etag }) => inChunks(input(key, etag), chunkBytes),
    get: async (key) => objects.get(key)?.toString(),
    async put(key, body) {
      puts.push(key);
      objects.set(key, Buffer.from(body));
    },
    async putNew(key, body, about) {
      if (objects.has(key)) return false;
      puts.push(key);
      objects.set(key, Buffer.from(body));
      abouts.set(key, about);
      return true;
    },
    async look(key) {
      const bytes = objects.get(key)?.length;
      return bytes === undefined ? undefined : { bytes, about: abouts.get(key) ?? '' };
    },
    remove: async (key) => void objects.delete(key),
    async *list(prefix) {
      for (const key of [...objects.keys()].filter((one) => one.startsWith(prefix)).toSorted()) {
        yield { key, bytes: objects.get(key)?.length ?? 0 };
      }
    },
  };
}

async function* inChunks(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

export function etagOf(bytes: Uint8Array): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`;
}

export interface JobOptions {
  readonly storage: JobStorage;
  readonly models: ModelRepository;
  readonly key: string;
  readonly content: Uint8Array;
  readonly spec?: Spec;
  readonly partBytes?: number;
  readonly pieceBytes?: number;
  readonly mostLineBytes?: number;
  readonly limits?: typeof LIMITS;
  /** The time of each call. @default no end */
  readonly time?: () => TimeLimit;
  readonly run?: number;
}

export function startOf({ key, content, spec = {}, run = 1 }: JobOptions): JobStart {
  const input = { bucket: 'bucket', key, etag: etagOf(content), bytes: content.length };
  return { ...input, job: 'job', run, folder: FOLDER, concurrency: 2, spec };
}

export function planOf(options: JobOptions): Promise<PlanAnswer> {
  const { storage, models, partBytes = 64, pieceBytes = 16 } = options;
  const deps = { storage, models, partBytes, pieceBytes, now: () => 0 };
  return planJob({ action: 'plan', start: startOf(options) }, deps);
}

/** One call of `score`, as the function answers it. */
export async function callScore(event: ScoreEvent, options: JobOptions): Promise<ScoreEvent> {
  const { storage, models, limits = LIMITS, mostLineBytes = 100_000, time = () => NO_DEADLINE } = options;
  const head = await readHead(storage, event.folder);
  if (head === undefined) throw new Error('expected a head');
  const mostCharacters = MOST_CHARACTERS_HELD;
  const scoring = createRowScoring({ models, limits, checkPercent: 0, observer: {}, mostCharacters });
  const reader = openReader(storage, head, event.part, mostLineBytes);
  return scorePart(event, { storage, head, scoring, reader }, time());
}

/** A call that dies is made once more, then its piece is passed over: as the state machine has it. */
export async function callOrSkip(event: ScoreEvent, options: JobOptions): Promise<ScoreEvent> {
  for (let tries = 0; tries < 2; tries++) {
    try {
      return await callScore(event, options);
    } catch (error) {
      if (!(error instanceof ProcessEnded)) throw error;
    }
  }
  const head = await readHead(options.storage, event.folder);
  if (head === undefined) throw new Error('expected a head');
  const error = { Error: 'Runtime.ExitError', Cause: 'the process ended' };
  return skipPiece({ ...event, action: 'skip', error }, options.storage, head);
}

/** Stands for the end of the process: nothing of the call is done after it is thrown. */
export class ProcessEnded extends Error {}

/**
 * Plays the state machine: plan, every part until it is done, finish.
 *
 * @returns the rows, parsed, in the order of the keys
 *
 * ```ts
 * expect(await runJob({ key: 'in/rows.jsonl', content: LINES })).toHaveLength(3);
 * ```
 */
export async function runJob(options: JobOptions): Promise<Record<string, unknown>[]> {
  const { storage, run = 1 } = options;
  await planOf(options);
  for (const part of await readParts(storage, planKey(FOLDER, run))) {
    let event: ScoreEvent = { action: 'score', bucket: 'bucket', folder: FOLDER, part };
    do event = await callOrSkip(event, options);
    while (event.next !== undefined);
  }
  await finishJob({ action: 'finish', start: startOf(options) }, storage, () => 0);
  return rowsOf(storage);
}

/** All rows that were written, in the order of the keys. */
export async function rowsOf(storage: JobStorage): Promise<Record<string, unknown>[]> {
  let text = '';
  for await (const { key } of storage.list(dataKeys(FOLDER))) text += await storage.get(key);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}
