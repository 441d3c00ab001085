import { describe, expect, it } from '@jest/globals';
import { runScript } from '../../helpers/command.ts';

const SCRIPT = 'bench/neighbours.ts';

describe('npm run bench:neighbours', () => {
  it('prints what rows cost with the recommended batch size, with half and with twice of it', async () => {
    const { code, stdout } = await runScript(SCRIPT, ['--arrival-rate', '20', '--seconds', '2', '--rounds', '1']);
    const rows = stdout
      .trimEnd()
      .split('\n')
      .slice(2)
      .map((line) => line.slice(2, -2).split(' | '));
    const [half, own, twice] = rows.map(([size = '']) => Number.parseInt(size, 10));
    expect(own).toBeGreaterThan(1);
    expect([half, twice]).toEqual([Math.floor((own ?? 0) / 2), 2 * (own ?? 0)]);
    const costs = rows.map((cells) => Number(cells.at(-1)));
    // Two seconds are too short to tell which is cheaper: what they told is said. Costs that differ by 1 % are the same.
    const dearer = (costs[1] ?? Number.NaN) / Math.min(...costs);
    if (Math.abs(dearer - 1.01) > 0.002) expect(code).toBe(dearer > 1.01 ? 1 : 0);
    // At the least, a request to send, to receive and to delete ten, for messages and for results.
    for (const cost of costs) expect(cost).toBeGreaterThan(2 * 3 * 0.04);
  }, 120_000);

  it.each([
    [['--rounds', '0'], "--rounds: expected a whole number from 1 to 100, got '0'"],
    [['--arrival-rate', '-1'], '--arrival-rate'],
  ])('refuses %j', async (args, message) => {
    const { code, stderr } = await runScript(SCRIPT, args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });
});
