/*
 * Scores one piece of a few MiB whose results come to 290 MiB, and says how much memory that took: a program of its own,
 * so that the memory is its own. Of what it puts the size is kept.
 */
import { peakRssBytes } from '../../../cli/profile/measure/measureTasks.ts';
import { FOLDER, LIMITS, memoryStorage, runJob } from '../../helpers/jobs.ts';
import { repositoryOf } from '../../helpers/scoring.ts';
import { wordLines, wordModel } from './wordModel.ts';

const ROWS = 30_000;
const KEY = 'in/words.jsonl';
const MIB = 1024 * 1024;

const sizes = new Map<string, number>();
const storage = memoryStorage();
const content = wordLines(ROWS);
storage.objects.set(KEY, content);
const counting = {
  ...storage,
  async putNew(key: string, body: Uint8Array, about: string) {
    await new Promise(setImmediate);
    sizes.set(key, body.length);
    return storage.putNew(key, Buffer.alloc(0), about);
  },
  async *list(prefix: string) {
    for await (const one of storage.list(prefix)) yield { ...one, bytes: sizes.get(one.key) ?? one.bytes };
  },
};
const models = repositoryOf(wordModel(() => 10_000));
await runJob({
  storage: counting,
  models,
  key: KEY,
  content,
  partBytes: 64 * MIB,
  pieceBytes: 2 * MIB,
  limits: LIMITS,
});
const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0);
const { rows } = JSON.parse(storage.objects.get(`${FOLDER}manifest.json`)?.toString() ?? '');
process.stdout.write(JSON.stringify({ rows, mib: bytes / MIB, peakMib: peakRssBytes() / MIB }));
