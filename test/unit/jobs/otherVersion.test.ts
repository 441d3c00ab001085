import { expect, it } from '@jest/globals';
import { finishJob } from '../../../lambda/jobs/finishJob.ts';
import { FOLDER, jobOf, planOf, runJob, startOf } from '../../helpers/jobs.ts';

async function planned() {
  const sizes = { partBytes: 1000, pieceBytes: 1000 };
  const job = jobOf('in/a.jsonl', '{"instances":[[1]]}\n{"instances":[[2]]}\n', sizes);
  await planOf(job);
  return { storage: job.storage, job };
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
  // A plan removes what failed before.
  const isFailed = name.startsWith('failed/');
  const running = isFailed ? finishJob({ action: 'finish', start: startOf(job) }, storage, () => 0) : runJob(job);
  await expect(running).rejects.toThrow(`${FOLDER}${name}: expected the format of this version`);
  expect(storage.objects.has(`${FOLDER}manifest.json`)).toBe(false);
});

it('keys that another version has besides are left out', async () => {
  const { storage, job } = await planned();
  const head = JSON.parse(String(storage.objects.get(`${FOLDER}job.json`)));
  storage.objects.set(`${FOLDER}job.json`, Buffer.from(JSON.stringify({ ...head, later: true })));
  expect(await runJob(job)).toHaveLength(2);
});
