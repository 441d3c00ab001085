import { describe, expect, it } from '@jest/globals';
import { runScript } from '../../helpers/command.ts';

const SCRIPT = 'bench/scale.ts';
const SHORT = ['--seconds', '20'];

/** The cells of the rows of the table under a heading. */
function rowsUnder(heading: string, markdown: string): string[][] {
  const [section = ''] = markdown.slice(markdown.indexOf(`## ${heading}`)).split('\n## ');
  const lines = section.split('\n').filter((line) => line.startsWith('| '));
  return lines.slice(2).map((line) => line.slice(2, -2).split(' | '));
}

describe('npm run bench:scale', () => {
  it('prints what breaks first, the rates around the one that is asked for, its course, and settings that hold it', async () => {
    const { code, stdout, stderr } = await runScript(SCRIPT, [
      '--rate',
      '20000',
      '--batch-ms',
      '990',
      '--seconds',
      '60',
    ]);

    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(rowsUnder('What breaks first', stdout)[0]?.[0]).toBe("the account's concurrency");
    expect(rowsUnder('Rates', stdout).map(([rate]) => rate)).toEqual(['2,000', '5,000', '10,000', '20,000', '40,000']);
    expect(rowsUnder('Rates', stdout)[4]?.[1]).toBe('no: the mapping grows');
    expect(rowsUnder('20,000 requests a second, in time', stdout).map(([at]) => at)).toEqual(
      [1, 2, 3, 4, 5, 6].map((tens) => `${tens}0 s`),
    );
    expect(rowsUnder('Settings that hold', stdout).map(([, packed, shards]) => [packed, shards])).toEqual([
      ['1', '1'],
      ['127', '1'],
    ]);
  });

  it('prints the rates that are asked for, settings for each, and the same with the same seed', async () => {
    const args = ['--rate', '1000,3000', '--results', 'table', ...SHORT];
    const { stdout } = await runScript(SCRIPT, args);

    expect(rowsUnder('Rates', stdout).map(([rate]) => rate)).toEqual(['1,000', '3,000']);
    expect(rowsUnder('Settings that hold', stdout).map(([rate]) => rate)).toEqual(['1,000', '1,000', '3,000', '3,000']);
    expect((await runScript(SCRIPT, args)).stdout).toBe(stdout);
    expect((await runScript(SCRIPT, [...args, '--seed', '2'])).stdout).not.toBe(stdout);
  });

  it('says which quotas no setting raises', async () => {
    const args = ['--rate', '60000', '--results', 'table', '--account', '10', ...SHORT];
    const rows = rowsUnder('Settings that hold', (await runScript(SCRIPT, args)).stdout);
    expect(rows.map((row) => row.at(-1))).toContain("the account's concurrency, the table's write units");
  });

  it.each([
    [['--rate', 'many'], "--rate: expected a whole number from 1 to 1000000000, got 'many'"],
    [['--shards', '11'], "--shards: expected a whole number from 1 to 10, got '11'"],
    [['--fifo', '--batch-size', '20'], 'batchSize: expected at most 10 on a FIFO queue, got 20'],
    [
      ['--shards', '3', '--maximum-concurrency', '4'],
      'maximumConcurrency of 3 shards together: expected a whole number from 6 to 3000, got 4',
    ],
    [['--results', 'topic'], "--results: expected one of queue, packed, table, bucket, got 'topic'"],
    [['--batch-ms', 'long'], "--batch-ms: expected milliseconds from 0 to 900000, got 'long'"],
    [['--seconds', '15'], "--seconds: expected tens, got '15'"],
    [['--pack', '0'], "--pack: expected a whole number from 1 to 10000, or fill, got '0'"],
  ])('is refused: %j', async (args, message) => {
    const { code, stdout, stderr } = await runScript(SCRIPT, args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
  });
});
