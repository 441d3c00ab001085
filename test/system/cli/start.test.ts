import { describe, expect, it } from '@jest/globals';
import { start } from '../../../cli/start.ts';
import { runMain } from '../../helpers/batchscore.ts';

describe('npm start', () => {
  it('answers every message once under its ID, and prints figures, a request, its result and a refusal', async () => {
    const { code, stdout, stderr } = await runMain(start, ['--messages', '120']);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain('132 sent, 132 answered under their message IDs\n');
    expect(Number(/scores +120, ([\d.]+) %/.exec(stdout)?.[1])).toBeGreaterThanOrEqual(95);
    expect(stdout).toMatch(/errors +INVALID_DATA 3, INVALID_JSON 3, INVALID_SHAPE 3, UNKNOWN_MODEL 3\n/);
    expect(stdout).toMatch(/at batch size 33, model runs: [45]\n/);
    const [, request = '', result = ''] = /\nA request\n(.+)\n\nIts result\n(.+)\n/.exec(stdout) ?? [];
    const { id } = JSON.parse(request);
    expect(JSON.parse(result)).toMatchObject({ id, predictions: [{ probabilities: expect.any(Array) }] });
    expect(stdout).toMatch(/\nA refused request: [A-Z_]+\n {2}\S.*expected .*; /);
    expect(stdout).not.toContain('\x1b');
  });

  it.each([
    [['--messages', '0'], /--messages: expected a whole number from 1/],
    [['--mesages', '5'], /got --mesages; did you mean --messages\?/],
  ])('refuses %j with exit code 2', async (args, message) => {
    const { code, stderr } = await runMain(start, args);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) });
  });
});
