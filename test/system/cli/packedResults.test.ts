import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type RunningDev, runScript, startDev } from '../../helpers/command.ts';

const PIXELS = Array.from({ length: 64 }, (_, index) => index % 17);

describe('with results that share messages', () => {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-packed-'));
  let dev: RunningDev;
  beforeAll(async () => {
    dev = await startDev(['--results-per-message', 'fill', '--window', '1']);
  });
  afterAll(async () => {
    await dev.interrupt();
    rmSync(folder, { recursive: true });
  });

  it('collect goes on after a crash in the middle of a message, and drops what it has already', async () => {
    const [file, stack, out, first] = ['again.jsonl', 'stack.json', 'again.out', 'first.ids'].map((name) =>
      join(folder, name),
    ) as [string, string, string, string];
    writeFileSync(stack, dev.firstLine);
    writeFileSync(file, Array.from({ length: 20 }, () => `${JSON.stringify({ instances: [PIXELS] })}\n`).join(''));
    const batchscore = (...args: readonly string[]) => runScript('cli/batchscore.ts', [...args, '--stack', stack]);
    await batchscore('submit', file);
    writeFileSync(first, readFileSync(`${file}.ids`, 'utf8').split('\n').slice(0, 10).join('\n'));
    const crashed = await batchscore('collect', first, '--out', out, '--timeout', '30');
    expect(crashed.stderr).toContain('BatchscoreWarning');

    const collected = await batchscore('collect', `${file}.ids`, '--out', out, '--timeout', '30');

    expect(collected).toEqual({ code: 0, stderr: '', stdout: expect.stringContaining('20 of 20 results') });
  });
});
