import { describe, expect, it } from '@jest/globals';
import { start } from '../../../cli/start.ts';
import { runMain } from '../../helpers/batchscore.ts';

describe('npm start', () => {
  it('answers every message once under its ID, broken ones with their codes, and says so in JSON', async () => {
    const { code, stdout } = await runMain(start, ['--messages', '120', '--json']);
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
      invocations: expect.any(Number),
      dollarsPerMillionRows: expect.any(Number),
      packed: {
        missing: 0,
        duplicates: 0,
        wrongId: 0,
        seconds: expect.any(Number),
        written: { results: 132, messages: expect.any(Number), calls: expect.any(Number) },
        dollarsPerMillionRows: expect.any(Number),
      },
      oneByOneSeconds: expect.any(Number),
      oneByOneDollarsPerMillionRows: expect.any(Number),
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

  it('sends at the rate and batches as it is told, and says what that costs', async () => {
    const options = ['--messages', '8', '--arrival-rate', '20', '--batch-size', '5', '--window', '1'];
    const { code, stdout } = await runMain(start, [...options, '--json']);
    expect(code).toBe(0);
    const { messages, missing, invocations, ...figures } = JSON.parse(stdout);
    expect({ messages, missing }).toEqual({ messages: 20, missing: 0 });
    expect(invocations).toBeGreaterThanOrEqual(4);
    expect(invocations).toBeLessThan(20);
    // 2.1 requests to SQS for each of two queues at the least, and an invocation for five messages.
    expect(figures.dollarsPerMillionRows).toBeGreaterThan(0.4 * 0.4 + 0.2 / 5);
    expect(figures.oneByOneDollarsPerMillionRows).toBeGreaterThan(figures.dollarsPerMillionRows);
    // What packing saves of the dollars hangs on how the messages came; that it writes fewer of them does not.
    expect(figures.packed.dollarsPerMillionRows).toBeGreaterThan(0.1);
    expect(figures.packed.written).toMatchObject({ results: 20 });
    expect(figures.packed.written.messages).toBeLessThan(20);
  });

  it('prints digits, figures, a refusal and a result for a person, plain and whole where it is no terminal', async () => {
    const { code, stdout } = await runMain(start, ['--messages', '18']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/30 sent, 30 answered under their message IDs/);
    expect(stdout).toMatch(/0 missing, 0 duplicated, 0 under a wrong ID/);
    expect(stdout.match(/█/g)?.length).toBeGreaterThan(10);
    // 30 messages in batches of 8: the last one waits out the window.
    expect(stdout).toMatch(/ {2}window +a batch that did not fill waited 1 s for more messages/);
    expect(stdout).toMatch(/\nA refused message: [A-Z_]+\n {2}\S.*expected /);
    const [, result = ''] = stdout.split('\nA result\n');
    expect(JSON.parse(result)).toMatchObject({ id: expect.stringMatching(/^digit-/), outputs: expect.any(Array) });
    expect(stdout).not.toContain('\x1b');
  });

  it.each([
    [['--messages', '0'], /--messages: expected a whole number from 1/],
    [['--mesages', '5'], /got --mesages; did you mean --messages\?/],
    [['--window', '0'], /--window: expected 0 only with a --batch-size of 10 or less, got no --batch-size/],
    [['--arrival-rate', '0'], /--arrival-rate: expected a whole number from 1/],
  ])('refuses %j with exit code 2', async (args, message) => {
    const { code, stderr } = await runMain(start, args);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) });
  });
});
