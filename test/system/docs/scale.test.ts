import { beforeAll, describe, expect, it } from '@jest/globals';
import { runScript } from '../../helpers/command.ts';
import { docPage } from '../../helpers/docExamples.ts';

const COMMAND = /npm run bench:scale -- ([^`\n]+)/g;

describe('the limits and scale of docs/operations.md', () => {
  const page = docPage('operations.md');
  const [section = ''] = page.slice(page.indexOf('\n## Limits and scale')).slice(1).split('\n## ');
  const commands = [...section.matchAll(COMMAND)].map(([, args = '']) => args);
  const printed = new Map<string, string>();

  beforeAll(async () => {
    for (const args of commands) printed.set(args, (await runScript('bench/scale.ts', args.split(' '))).stdout);
    // Simulations of minutes of traffic, on a machine that may be busy.
  }, 300_000);

  it('has the tables that its commands print, row by row', () => {
    const output = [...printed.values()].join('\n').split('\n');
    const tables = section.split('\n\n').map((block) => block.split('\n'));
    const rows = tables.filter(([heads = '']) => heads.startsWith('|') && output.includes(heads)).flat();
    expect(rows.length).toBeGreaterThan(20);
    expect(rows.filter((row) => !output.includes(row))).toEqual([]);
  });

  it('tells of packed messages and of FIFO queues what the commands beside print', () => {
    const cells = (args: string, requests: string): string[] => {
      const rows = (printed.get(args) ?? '').split('## Settings that hold')[1]?.split('\n') ?? [];
      return rows.find((row) => row.startsWith(`| ${requests} |`))?.split(' | ') ?? [];
    };
    const [, , shards, invocations, , , , , dollars = ''] = cells(
      '--rate 1000000 --pack fill --results packed',
      '1,000,000',
    );
    expect(shards).toBe('1');
    expect(section).toContain(
      `take one queue, ${invocations} invocations and ${Math.round(Number(dollars))} $ an hour`,
    );
    const [, , fifoShards, fifoInvocations] = cells('--rate 10000 --fifo', '10,000');
    expect(fifoShards).toBe('1');
    expect(section).toContain(`10,000 single requests a second need ${fifoInvocations} invocations`);
  });
});
