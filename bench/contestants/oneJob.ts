/**
 * Runs as a process: scores one file as a job does, one part after the other, and prints what that took: `node oneJob.ts
 * MODEL FILE`. The columns p0 to p63 of CSV and Parquet are the image of digits.
 */
import { createReadStream, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { JOB_RANGES } from '../../lambda/core/limits.ts';
import { finishJob } from '../../lambda/jobs/finishJob.ts';
import { planKey, readHead, readParts } from '../../lambda/jobs/jobObjects.ts';
import type { JobStart, JobStorage, Spec } from '../../lambda/jobs/jobTypes.ts';
import { planJob } from '../../lambda/jobs/planJob.ts';
import { openReader, scorePart } from '../../lambda/jobs/scorePart.ts';
import { createRowScoring, MAX_CHARACTERS_HELD } from '../../lambda/jobs/scoreRows.ts';
import { openModelAlone } from '../../lambda/onnx/repository.ts';
import { SETTINGS } from '../../lambda/settings.ts';

const FOLDER = 'out/job/';
const MIB = 1024 * 1024;
/** With 1,769 MB. */
const MAX_CHARACTERS = 28 * MIB;
const IMAGE: Spec = { inputs: { image: Array.from({ length: 64 }, (_, pixel) => `p${pixel}`) } };

async function main(model: string, file: string): Promise<void> {
  const storage = diskStorage(file);
  const models = await openModelAlone(model, {
    maxBatchRows: SETTINGS.maxBatchRows.default,
    maxBatchElements: SETTINGS.maxBatchElements.default,
    providers: ['cpu'],
    allowProviderFallback: false,
    warn: (message) => void process.stderr.write(`${message}\n`),
  });
  const start: JobStart = {
    ...{ job: 'job', run: 1, bucket: 'disk', key: file, etag: 'one', bytes: statSync(file).size },
    ...{ folder: FOLDER, concurrency: 1, spec: file.includes('.jsonl') ? {} : IMAGE },
  };
  const sizes = { partBytes: JOB_RANGES.partBytes.default, pieceBytes: JOB_RANGES.pieceBytes.default };
  await planJob({ action: 'plan', start }, { storage, models, ...sizes, now: Date.now });
  const head = await readHead(storage, FOLDER);
  if (head === undefined) throw new Error('expected a plan');
  const scoring = createRowScoring({
    models,
    limits: {
      maxRequestRows: SETTINGS.maxRequestRows.default,
      maxRequestsPerMessage: SETTINGS.maxRequestsPerMessage.default,
      maxAnswerCharacters: MAX_CHARACTERS,
      maxBatchElements: SETTINGS.maxBatchElements.default,
      deadlineMarginMs: 1,
    },
    checkPercent: SETTINGS.checkPercent.default,
    observer: {},
    maxCharacters: MAX_CHARACTERS_HELD,
  });
  const time = { remainingMs: () => 900_000, signal: new AbortController().signal };
  const startedAt = performance.now();
  for (const part of await readParts(storage, planKey(FOLDER, 1))) {
    const reader = openReader(storage, head, { part }, MAX_CHARACTERS);
    const event = { action: 'score' as const, bucket: 'disk', folder: FOLDER, part };
    await scorePart(event, { storage, head, reader, scoring }, time);
  }
  const { rows } = await finishJob({ action: 'finish', start }, storage, Date.now);
  const seconds = (performance.now() - startedAt) / 1000;
  await models.close();
  process.stdout.write(JSON.stringify({ rows, seconds }));
}

/** Stands for S3: the input is a file; what is put is kept, but for results: of them their size is. */
function diskStorage(file: string): JobStorage {
  const small = new Map<string, string>();
  const results = new Map<string, number>();
  return {
    async readRange(_, { start, end }) {
      const handle = await open(file);
      try {
        const bytes = Buffer.allocUnsafeSlow(end - start);
        await handle.read(bytes, 0, bytes.length, start);
        return bytes;
      } finally {
        await handle.close();
      }
    },
    readAll: () => createReadStream(file),
    get: async (key) => small.get(key),
    async put(key, body) {
      small.set(key, body.toString());
    },
    async putNew(key, body) {
      results.set(key, body.length);
      return true;
    },
    look: async () => undefined,
    remove: async (key) => void small.delete(key),
    async *list(prefix) {
      for (const key of [...small.keys(), ...results.keys()].filter((one) => one.startsWith(prefix)).toSorted()) {
        yield { key, bytes: results.get(key) ?? Buffer.byteLength(small.get(key) ?? '') };
      }
    },
  };
}

const [model = '', file = ''] = process.argv.slice(2);
await main(model, file);
