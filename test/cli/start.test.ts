import { describe, expect, it } from '@jest/globals';
import { runScript } from '../helpers/command.ts';

describe('npm start', () => {
  it('answers every message once under its ID, broken ones with their codes, and says so in JSON', async () => {
    const { code, stdout } = await runScript('cli/start.ts', ['--messages', '120', '--json']);
    expect(code).toBe(0);
    const figures = JSON.parse(stdout);
    expect(figures).toEqual({
      messages: 132,
      answered: 132,
      errors: {
        DUPLICATE_INPUT: 1,
        INVALID_DATA: 2,
        INVALID_DATATYPE: 1,
        INVALID_JSON: 2,
        INVALID_REQUEST: 1,
        INVALID_SHAPE: 2,
        UNKNOWN_INPUT: 1,
        UNKNOWN_MODEL: 1,
        UNKNOWN_VERSION: 1,
      },
      missing: 0,
      duplicates: 0,
      wrongId: 0,
      accuracy: expect.any(Number),
      microBatches: expect.any(Number),
      meanRows: expect.any(Number),
      closed: { end: figures.microBatches },
      paddingShare: 0,
      stagesMs: {
        decode: expect.any(Number),
        stack: expect.any(Number),
        run: expect.any(Number),
        encode: expect.any(Number),
        write: expect.any(Number),
      },
      seconds: expect.any(Number),
      written: { results: 132, messages: 132, calls: expect.any(Number) },
      packed: {
        missing: 0,
        duplicates: 0,
        wrongId: 0,
        seconds: expect.any(Number),
        written: { results: 132, messages: expect.any(Number), calls: expect.any(Number) },
      },
      oneByOneSeconds: expect.any(Number),
      speedup: figures.oneByOneSeconds / figures.seconds,
      p50Ms: expect.any(Number),
      p99Ms: expect.any(Number),
    });
    // Four invocations, each of one micro-batch and of errors.
    expect(figures.packed.written.messages).toBeLessThanOrEqual(12);
    expect(figures.packed.written.calls).toBeLessThan(figures.written.calls);
    expect(figures.accuracy).toBeGreaterThanOrEqual(0.95);
    expect(figures.microBatches * figures.meanRows).toBeCloseTo(120);
  });

  it('prints a table and three results in full for a person', async () => {
    const { code, stdout } = await runScript('cli/start.ts', ['--messages', '20']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/32 sent, 32 answered under their message IDs/);
    expect(stdout).toMatch(/0 missing, 0 duplicated, 0 under a wrong ID/);
    const results = stdout
      .split('Three results\n')[1]
      ?.trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(results).toHaveLength(3);
    expect(results?.at(-1)).toHaveProperty('code');
  });

  it.each([
    [['--messages', '0'], /--messages: expected a whole number from 1/],
    [['--mesages', '5'], /--mesages/],
  ])('refuses %j with exit code 2', async (args, message) => {
    const { code, stderr } = await runScript('cli/start.ts', args);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) });
  });
});
