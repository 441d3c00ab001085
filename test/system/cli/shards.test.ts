import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { batchscore } from '../../helpers/batchscore.ts';
import { startDev } from '../../helpers/command.ts';

const PIXELS = Array.from({ length: 64 }, (_, index) => index % 17);

describe('npm run dev -- --shards 3', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-shards-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('names three request queues, over which submit spreads, and answers what comes to each', async () => {
    const dev = await startDev(['--shards', '3', '--batch-size', '10', '--window', '0']);
    const stack = join(folder, 'stack.json');
    const file = join(folder, 'requests.jsonl');
    const out = join(folder, 'results.jsonl');
    writeFileSync(stack, dev.firstLine);
    writeFileSync(file, `${JSON.stringify({ instances: [PIXELS] })}\n`.repeat(30));

    await batchscore(['submit', file, '--stack', stack]);
    const collected = await batchscore(['collect', `${file}.ids`, '--out', out, '--stack', stack]);

    expect(dev.stack.requestQueueUrl.split(',').map((url) => url.slice(url.lastIndexOf('/') + 1))).toEqual([
      'batchscore-requests',
      'batchscore-requests-2',
      'batchscore-requests-3',
    ]);
    expect(collected.code).toBe(0);
    expect(readFileSync(out, 'utf8').trimEnd().split('\n')).toHaveLength(30);
    expect(await dev.interrupt()).toBe(0);
  });
});
