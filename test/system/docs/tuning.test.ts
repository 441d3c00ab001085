import { describe, expect, it } from '@jest/globals';
import { CONFIG_KEYS, CONFIG_PREFIX } from '../../../lambda/settings.ts';
import { runScript } from '../../helpers/command.ts';
import { docPage } from '../../helpers/docExamples.ts';

const PAGE = docPage('tuning.md');

describe('docs/tuning.md', () => {
  it('has rows of gathering that the bench prints', async () => {
    const { code, stdout } = await runScript('bench/gather.ts', []);
    expect(code).toBe(0);
    const printed = stdout.trim().split('\n');
    const [head = ''] = printed;
    const table = PAGE.split('\n\n').find((text) => text.startsWith(head)) ?? '';
    const rows = table.split('\n');

    expect(rows.length).toBeGreaterThan(4);
    expect(printed).toEqual(expect.arrayContaining(rows));
  });

  it('has figures of a function that the simulation prints', async () => {
    const { stdout } = await runScript('bench/scale.ts', ['--rate', '1000']);
    const rowOf = (rate: string) => stdout.split('\n').find((line) => line.startsWith(`| ${rate} | yes |`)) ?? '';

    expect(rowOf('100').split(' | ')).toEqual(expect.arrayContaining(['0.62 s', '22']));
    expect(rowOf('1,000').split(' | ')).toEqual(expect.arrayContaining(['0.30 s', '100']));
    expect(PAGE).toContain('at 100 a second batches hold 22 messages and requests wait for 0.62 s (p50)');
    expect(PAGE).toContain('at 1,000 they hold 100, and wait for 0.30 s');
  });

  it('names settings that there are', () => {
    const named = PAGE.match(new RegExp(`${CONFIG_PREFIX}[A-Z_]+`, 'g')) ?? [];

    expect(named.length).toBeGreaterThan(5);
    expect(Object.values<string>(CONFIG_KEYS)).toEqual(expect.arrayContaining(named));
  });
});
