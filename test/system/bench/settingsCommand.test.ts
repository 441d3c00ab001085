import { describe, expect, it } from '@jest/globals';
import { runScript } from '../../helpers/command.ts';

const SCRIPT = 'bench/settings.ts';

describe('npm run bench:settings', () => {
  it('prints fill and age of messages on the local host beside those of the model', async () => {
    const { code, stdout } = await runScript(SCRIPT, ['--rates', '40', '--seconds', '2', '--batch-size', '20']);
    // Two seconds are too short to agree: whether they did is said.
    const cells = stdout.trimEnd().split('\n').at(-1)?.slice(2, -2).split(' | ') ?? [];
    expect([cells[0], cells.at(-1)]).toEqual(['40', code === 0 ? 'yes' : 'no']);
    const [model = Number.NaN, host = Number.NaN] = cells.slice(1, 3).map((cell) => Number.parseFloat(cell));
    // About 39 messages come in a second, so that nearly all batches of 20 are full; on a busy machine they come slower.
    expect(model).toBeGreaterThan(95);
    expect(host).toBeGreaterThan(0);
    expect(host).toBeLessThanOrEqual(100);
    expect(Number(cells[7])).toBeGreaterThan(0);
  }, 120_000);

  it.each([
    [['--rates', '0'], "--rates: expected a whole number from 1 to 1000, got '0'"],
    [['--seconds', 'x'], "--seconds: expected a whole number from 1 to 3600, got 'x'"],
    [['--window', '0'], '--window: expected at least 1 with batches above 10'],
  ])('refuses %j', async (args, message) => {
    const { code, stderr } = await runScript(SCRIPT, args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });
});
