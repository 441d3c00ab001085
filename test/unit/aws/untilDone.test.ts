import { describe, expect, it } from '@jest/globals';
import { type RetryOptions, untilDone } from '../../../lambda/aws/sendBatches.ts';

const NEVER = new AbortController().signal;
const AT_ONCE: RetryOptions = { random: () => 0 };
/** A pause that no test waits for: it would run into jest's time limit. */
const IN_AN_HOUR: RetryOptions = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };

/** The pauses before all attempts but the first, in milliseconds, when no attempt gets anything done. */
async function pausesBetweenAttempts(options: RetryOptions): Promise<number[]> {
  const pauses: number[] = [];
  const sleep = async (ms: number) => void pauses.push(ms);
  await untilDone(['stubborn'], async (left) => left, NEVER, { ...options, sleep });
  return pauses;
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
  it('is at most 100 ms before the second one, doubles with every further one, and is never longer than 5 seconds', async () => {
    expect(await pausesBetweenAttempts({ attempts: 9, random: () => 1 })).toEqual([
      100, 200, 400, 800, 1600, 3200, 5000, 5000,
    ]);
  });

  it('begins with the base and ends with the cap that it is told', async () => {
    expect(await pausesBetweenAttempts({ attempts: 6, baseMs: 1, capMs: 6, random: () => 1 })).toEqual([1, 2, 4, 6, 6]);
  });

  it('is drawn between nothing and all of it, anew for every pause', async () => {
    const draws = [0, 0.5, 0.25];

    expect(await pausesBetweenAttempts({ attempts: 4, random: () => draws.shift() ?? 1 })).toEqual([0, 100, 100]);
  });

  it('lets that time pass', async () => {
    const passed: boolean[] = [];
    let pause = AbortSignal.timeout(18);

    await untilDone(
      ['a'],
      async (left) => {
        passed.push(pause.aborted);
        pause = AbortSignal.timeout(18);
        return left;
      },
      NEVER,
      { attempts: 2, baseMs: 20, random: () => 1 },
    );

    expect(passed.at(-1)).toBe(true);
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
