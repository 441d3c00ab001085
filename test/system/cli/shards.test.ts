import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { runScript, startDev } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';

const inFolder = useFolder();
const LINE = `${JSON.stringify({ instances: [Array.from({ length: 64 }, (_, index) => index % 17)] })}\n`;

it('three request queues are submitted to, and a collect that ended within a message of results goes on', async () => {
  const dev = await startDev(['--shards', '3', '--window', '1'], {
    env: { BATCHSCORE_RESULTS_PER_MESSAGE: '10000' },
  });
  const [file, stack, out, first] = [inFolder('in.jsonl'), inFolder('stack.json'), inFolder('out'), inFolder('ids')];
  const batchscore = (...args: readonly string[]) => runScript('cli/batchscore.ts', [...args, '--stack', stack]);
  writeFileSync(stack, dev.firstLine);
  writeFileSync(file, LINE.repeat(30));

  await batchscore('submit', file);
  expect(dev.stack.requestQueueUrl.split(',').map((url) => url.slice(url.lastIndexOf('/') + 1))).toEqual([
    'batchscore-requests',
    'batchscore-requests-2',
    'batchscore-requests-3',
  ]);
  writeFileSync(first, readFileSync(`${file}.ids`, 'utf8').split('\n', 1).join());
  const ended = await batchscore('collect', first, '--out', out, '--timeout', '30');
  expect(ended).toEqual({ code: 0, stderr: '', stdout: expect.stringContaining('1 of 1 result') });
  const collected = await batchscore('collect', `${file}.ids`, '--out', out, '--timeout', '30');

  expect(collected).toEqual({ code: 0, stderr: '', stdout: expect.stringContaining('30 of 30 results') });
  expect(await dev.interrupt()).toBe(0);
});

it('urgent requests are submitted to the urgent queue, and answered without waiting for the window', async () => {
  const dev = await startDev(['--urgent', '--window', '300']);
  const [file, stack, out] = [inFolder('in.jsonl'), inFolder('stack.json'), inFolder('out')];
  const batchscore = (...args: readonly string[]) => runScript('cli/batchscore.ts', [...args, '--stack', stack]);
  writeFileSync(stack, dev.firstLine);
  writeFileSync(file, LINE.repeat(12));

  await batchscore('submit', file, '--urgent');
  const collected = await batchscore('collect', `${file}.ids`, '--out', out, '--timeout', '30');

  expect(JSON.parse(dev.firstLine)).toMatchObject({ urgentQueueUrl: expect.stringMatching(/batchscore-urgent$/) });
  expect(collected).toEqual({ code: 0, stderr: '', stdout: expect.stringContaining('12 of 12 results') });
  expect(await dev.interrupt()).toBe(0);
});

it('urgent requests are refused by a deployment without an urgent queue', async () => {
  const [file, stack] = [inFolder('in.jsonl'), inFolder('stack.json')];
  writeFileSync(file, LINE);
  writeFileSync(stack, JSON.stringify({ requestQueueUrl: 'https://sqs.eu-central-1.amazonaws.com/1/requests' }));

  const { code, stderr } = await runScript('cli/batchscore.ts', ['submit', file, '--urgent', '--stack', stack]);

  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('to name urgentQueueUrl, it does not') });
});

it('a client with a result queue of its own gets its results there', async () => {
  const dev = await startDev(['--clients', '1', '--window', '1']);
  const [file, stack, out] = [inFolder('in.jsonl'), inFolder('stack.json'), inFolder('out')];
  const { clientQueueUrls: [own = ''] = [] } = JSON.parse(dev.firstLine) as { clientQueueUrls?: string[] };
  const batchscore = (...args: readonly string[]) => runScript('cli/batchscore.ts', [...args, '--stack', stack]);
  writeFileSync(stack, dev.firstLine);
  writeFileSync(file, LINE.repeat(12));

  await batchscore('submit', file, '--result-queue', own);
  const collected = await batchscore('collect', `${file}.ids`, '--out', out, '--timeout', '30', '--result-queue', own);

  expect(own).toMatch(/batchscore-results-2$/);
  expect(collected).toEqual({ code: 0, stderr: '', stdout: expect.stringContaining('12 of 12 results') });
  expect(await dev.interrupt()).toBe(0);
});
