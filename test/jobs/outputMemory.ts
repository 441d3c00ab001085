/*
 * Scores one piece of a few MiB whose results come to 290 MiB, and says how much memory that took: a program of its own,
 * so that the memory is its own. What it puts is counted, and let go.
 */
import { repositoryOf } from '../helpers/models.ts';
import { FOLDER, LIMITS, memoryStorage, runJob } from './setup.ts';
import { wordLines, wordModel } from './wordModel.ts';

const ROWS = 30_000;
const KEY = 'in/words.jsonl';
const MIB = 1024 * 1024;

let bytes = 0;
const storage = memoryStorage();
const content = wordLines(ROWS);
storage.objects.set(KEY, content);
const counting = {
  ...storage,
  async putNew(key: string, body: Uint8Array, about: string) {
    await new Promise(setImmediate);
    bytes += body.length;
    return storage.putNew(key, Buffer.alloc(0), about);
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
const { rows } = JSON.parse(storage.objects.get(`${FOLDER}manifest.json`)?.toString() ?? '');
process.stdout.write(JSON.stringify({ rows, mib: bytes / MIB, peakMib: process.resourceUsage().maxRSS / 1024 }));
