import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { REPOSITORY, runScript } from '../../helpers/command.ts';

describe('how a command ends', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-endings-'));
    cpSync(join(REPOSITORY, 'models/digits'), join(folder, 'digits'), { recursive: true });
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('that finds no settings within the budget recommends none and fails', async () => {
    const args = ['profile', 'digits', '--seconds', '1', '--latency-budget-ms', '1'];
    const { code, stdout, stderr } = await runScript('cli/batchscore.ts', args, { cwd: folder });
    expect(code).toBe(1);
    expect(stdout).not.toMatch(/^Recommended/m);
    expect(stderr).toMatch(/--latency-budget-ms: expected .*, got 1; .*allow more\n$/);
    const { recommendation } = JSON.parse(readFileSync(join(folder, 'digits/1/profile.json'), 'utf8'));
    expect(recommendation).toMatchObject({ withinBudget: false });
    expect(readFileSync(join(folder, 'digits/1/profile.html'), 'utf8')).toContain('keeps to the budget');
  });

  it.each([
    ['profile', 'cli/batchscore.ts', ['profile', 'digits']],
    ['npm start', 'cli/start.ts', []],
  ])('that is interrupted says a sentence: %s', async (_, script, args) => {
    // Once it is told to, this process says when it listens.
    const tell = `process.on('newListener', (name) => name === 'SIGTERM' && process.stdout.write('listens\\n'))`;
    const child = spawn(
      process.execPath,
      ['--import', `data:text/javascript,${tell}`, join(REPOSITORY, script), ...args],
      { cwd: folder },
    );
    const ended = once(child, 'close');
    const said = text(child.stderr);
    await once(child.stdout, 'data');
    child.kill('SIGINT');
    expect(await ended).toEqual([null, 'SIGINT']);
    expect(await said).toMatch(/^stopped; .+\n$/);
  });

  it('whose reader leaves has the exit code of SIGPIPE, because not all lines are scored', async () => {
    const child = spawn(process.execPath, [join(REPOSITORY, 'cli/batchscore.ts'), 'score', 'digits', '-'], {
      cwd: folder,
    });
    const ended = once(child, 'close');
    const said = text(child.stderr);
    child.stdout.destroy();
    child.stdin.end(readFileSync(join(REPOSITORY, 'examples/requests.jsonl')));
    expect(await ended).toEqual([141, null]);
    expect(await said).toBe('');
  });
});
