import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { batchscore } from '../../helpers/batchscore.ts';
import { jsonLines, REPOSITORY } from '../../helpers/command.ts';

const MANIFEST = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8'));
const PAGES = globSync(['*.md', 'docs/*.md'], { cwd: REPOSITORY }).filter((page) => page !== 'CHANGELOG.md');
const TEXT = PAGES.map((page) => readFileSync(join(REPOSITORY, page), 'utf8')).join('\n');

describe('the commands of the documentation', () => {
  it('are scripts of package.json', () => {
    const named = [...TEXT.matchAll(/\bnpm run (?:-s )?([\w:-]*\w)/g)].map(([, name = '']) => name);
    expect(new Set(named).size).toBeGreaterThan(10);
    expect(named.filter((name) => !Object.hasOwn(MANIFEST.scripts, name))).toEqual([]);
  });

  it('are commands of batchscore, with options that they have', async () => {
    const lines = [...TEXT.matchAll(/\bnpx batchscore (\w+)([^\n`|#&;]*)/g)];
    const used = Map.groupBy(lines, ([, command = '']) => command);
    expect(used.size).toBeGreaterThan(4);
    for (const [command, uses] of used) {
      const { stdout: help } = await batchscore(['help', command]);
      const options = uses.flatMap(([, , rest = '']) => rest.match(/--[a-z-]+/g) ?? []);
      expect([command, options.filter((option) => !help.includes(option))]).toEqual([command, []]);
    }
  });
});

describe('examples/requests.jsonl', () => {
  it('is scored as the README says, and most of its digits are read right', async () => {
    const { code, stdout } = await batchscore(['score', 'models/digits', 'examples/requests.jsonl']);
    const results = jsonLines(stdout);
    const right = results.filter(({ id, outputs }) => id.endsWith(`-is-${outputs[0].data[0]}`));
    expect([code, results.length]).toEqual([0, 100]);
    expect(right.length).toBeGreaterThanOrEqual(95);
  });
});
