import { expect, it } from '@jest/globals';
import { FOLDER, memoryStorage, planOf, runJob } from '../../helpers/jobs.ts';
import { lineModel, repositoryOf } from '../../helpers/scoring.ts';

const CONTENT = Buffer.from('{"instances":[[1]]}\n{"instances":[[2]]}\n');

async function planned() {
  const storage = memoryStorage();
  storage.objects.set('in/a.jsonl', CONTENT);
  const job = { storage, models: repositoryOf(lineModel()), key: 'in/a.jsonl', content: CONTENT, partBytes: 1000 };
  await planOf({ ...job, pieceBytes: 1000 });
  return { storage, job: { ...job, pieceBytes: 1000 } };
}

it.each([
  ['job.json', '{"model":"line"}'],
  ['job.json', 'not JSON'],
  ['plan.jsonl', '{"part":"0","start":0}'],
  ['reports/000009-0000.json', '{"part":9,"piece":0}'],
  ['failed/000009-0000.json', '{"part":9,"piece":0}'],
])('%s as another version wrote it, %s, is refused by its key', async (name, text) => {
  const { storage, job } = await planned();
  storage.objects.set(`${FOLDER}${name}`, Buffer.from(text));
  await expect(runJob(job)).rejects.toThrow(`${FOLDER}${name}: expected what this version writes`);
  expect(storage.objects.has(`${FOLDER}manifest.json`)).toBe(false);
});

it('keys that another version has besides are left out', async () => {
  const { storage, job } = await planned();
  const head = JSON.parse(String(storage.objects.get(`${FOLDER}job.json`)));
  storage.objects.set(`${FOLDER}job.json`, Buffer.from(JSON.stringify({ ...head, later: true })));
  expect(await runJob(job)).toHaveLength(2);
});
