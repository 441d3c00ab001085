import { describe, expect, it } from '@jest/globals';
import { type RetryOptions, untilDone } from '../../lambda/adapters/retry.ts';

const NEVER = new AbortController().signal;
const AT_ONCE: RetryOptions = { random: () => 0 };
/** A pause that no test waits for: it would run into jest's time limit. */
const IN_AN_HOUR: RetryOptions = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };

/** Milliseconds between an attempt and the one before, when no attempt gets anything done. */
async function pausesBetweenAttempts(options: RetryOptions): Promise<number[]> {
  const startedAt: number[] = [];
  await untilDone(
    ['stubborn'],
    async (left) => {
      startedAt.push(performance.now());
      return left;
    },
    NEVER,
    options,
  );
  return startedAt.slice(1).map((at, index) => at - (startedAt[index] as number));
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

describe('untilDone', () => {
  it('tries nothing when there is nothing to do', async () => {
    let attempts = 0;

    const left = await untilDone(
      [],
      async () => {
        attempts += 1;
        return [];
      },
      NEVER,
    );

    expect({ left, attempts }).toEqual({ left: [], attempts: 0 });
  });

  it('gives every attempt what the one before has left, until nothing is left', async () => {
    const attempts: (readonly string[])[] = [];

    const left = await untilDone(
      ['a', 'b', 'c'],
      async (items) => {
        attempts.push(items);
        return items.slice(1);
      },
      NEVER,
      AT_ONCE,
    );

    expect(attempts).toEqual([['a', 'b', 'c'], ['b', 'c'], ['c']]);
    expect(left).toEqual([]);
  });

  it('gives up after six attempts, and gives back what is left', async () => {
    let attempts = 0;

    const left = await untilDone(
      ['a', 'b'],
      async () => {
        attempts += 1;
        return ['b'];
      },
      NEVER,
      AT_ONCE,
    );

    expect({ left, attempts }).toEqual({ left: ['b'], attempts: 6 });
  });

  it('gives up after as many attempts as it is told', async () => {
    let attempts = 0;

    await untilDone(
      ['a'],
      async (left) => {
        attempts += 1;
        return left;
      },
      NEVER,
      { ...AT_ONCE, attempts: 2 },
    );

    expect(attempts).toBe(2);
  });

  it('lets what an attempt throws through', async () => {
    const throwing = async () => Promise.reject(new Error('a bug'));

    await expect(untilDone(['a'], throwing, NEVER, AT_ONCE)).rejects.toThrow('a bug');
  });
});

describe('the pause before an attempt', () => {
  it('is at most 100 ms before the second one, and doubles with every further one', async () => {
    const pauses = await pausesBetweenAttempts({ attempts: 4, random: () => 1 });

    // Timers may be a millisecond early, and are late on a busy machine.
    for (const [index, ms] of [100, 200, 400].entries()) expect(pauses[index]).toBeGreaterThanOrEqual(ms - 2);
    expect(sum(pauses)).toBeLessThan(100 + 300 + 900);
  });

  it('is never longer than the cap', async () => {
    const pauses = await pausesBetweenAttempts({ attempts: 9, baseMs: 1, capMs: 4, random: () => 1 });

    const totalMs = sum(pauses);
    expect(pauses.length).toBe(8);
    expect(totalMs).toBeGreaterThanOrEqual(1 + 2 + 6 * 4 - 8);
    expect(totalMs).toBeLessThan(1 + 2 + 4 + 8 + 16 + 32 + 64 + 128);
  });

  it('is drawn between nothing and all of it, anew for every pause', async () => {
    const draws = [0, 0.5, 0];
    const pauses = await pausesBetweenAttempts({
      attempts: 4,
      baseMs: 400,
      capMs: 400,
      random: () => draws.shift() ?? 1,
    });

    expect(pauses[0]).toBeLessThan(190);
    expect(pauses[1]).toBeGreaterThanOrEqual(198);
    expect(pauses[1]).toBeLessThan(390);
    expect(pauses[2]).toBeLessThan(190);
    expect(draws).toEqual([]);
  });
});

describe('an aborted untilDone', () => {
  it('tries nothing when it was aborted before', async () => {
    let attempts = 0;

    const left = await untilDone(
      ['a'],
      async () => {
        attempts += 1;
        return [];
      },
      AbortSignal.abort(),
    );

    expect({ left, attempts }).toEqual({ left: ['a'], attempts: 0 });
  });

  it('ends in the middle of a pause, with what is left', async () => {
    const aborting = new AbortController();
    let attempts = 0;

    const left = await untilDone(
      ['a', 'b'],
      async () => {
        attempts += 1;
        setImmediate(() => aborting.abort());
        return ['b'];
      },
      aborting.signal,
      IN_AN_HOUR,
    );

    expect({ left, attempts }).toEqual({ left: ['b'], attempts: 1 });
  });

  it('ends after the attempt that it was aborted in, without another', async () => {
    const aborting = new AbortController();
    let attempts = 0;

    const left = await untilDone(
      ['a'],
      async (items) => {
        attempts += 1;
        aborting.abort();
        return items;
      },
      aborting.signal,
      AT_ONCE,
    );

    expect({ left, attempts }).toEqual({ left: ['a'], attempts: 1 });
  });
});
