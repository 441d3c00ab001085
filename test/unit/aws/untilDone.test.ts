import { describe, expect, it } from '@jest/globals';
import { type RetryOptions, retryRemaining } from '../../../lambda/aws/sendBatches.ts';

const NEVER = new AbortController().signal;
const AT_ONCE: RetryOptions = { random: () => 0 };
/** A pause that no test waits for: it would run into jest's time limit. */
const IN_AN_HOUR: RetryOptions = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };

/** The pauses before all attempts but the first, in milliseconds, when no attempt gets anything done. */
async function pausesBetweenAttempts(options: RetryOptions): Promise<number[]> {
  const pauses: number[] = [];
  const sleep = async (ms: number) => void pauses.push(ms);
  await retryRemaining(['stubborn'], async (left) => left, NEVER, { ...options, sleep });
  return pauses;
}

/** Makes attempts that each leave what `leave` says. @returns what is left, and what each attempt was given */
async function tried(
  items: readonly string[],
  leave: (left: readonly string[]) => readonly string[],
  { signal = NEVER, ...retry }: RetryOptions & { readonly signal?: AbortSignal } = AT_ONCE,
) {
  const attempts: (readonly string[])[] = [];
  const attempt = async (left: readonly string[]) => {
    attempts.push(left);
    return leave(left);
  };
  return { left: await retryRemaining(items, attempt, signal, retry), attempts };
}

describe('untilDone', () => {
  it('gives every attempt what the one before has left, until nothing is left', async () => {
    expect(await tried(['a', 'b', 'c'], (items) => items.slice(1))).toEqual({
      left: [],
      attempts: [['a', 'b', 'c'], ['b', 'c'], ['c']],
    });
    expect(await tried([], () => [])).toEqual({ left: [], attempts: [] });
  });

  it('gives up after six attempts, or as many as it is told, and gives back what is left', async () => {
    const { left, attempts } = await tried(['a', 'b'], () => ['b']);

    expect([left, attempts.length]).toEqual([['b'], 6]);
    expect((await tried(['a'], (items) => items, { ...AT_ONCE, attempts: 2 })).attempts).toHaveLength(2);
  });

  it('lets what an attempt throws through', async () => {
    const throwing = async () => Promise.reject(new Error('a bug'));

    await expect(retryRemaining(['a'], throwing, NEVER, AT_ONCE)).rejects.toThrow('a bug');
  });
});

describe('the pause before an attempt', () => {
  it('is at most 100 ms before the second one, doubles with every further one, and is never longer than 5 seconds', async () => {
    expect(await pausesBetweenAttempts({ attempts: 9, random: () => 1 })).toEqual([
      100, 200, 400, 800, 1600, 3200, 5000, 5000,
    ]);
  });

  it('is drawn between nothing and all of it, anew for every pause', async () => {
    const draws = [0, 0.5, 0.25];

    expect(await pausesBetweenAttempts({ attempts: 4, random: () => draws.shift() ?? 1 })).toEqual([0, 100, 100]);
  });
});

describe('an aborted untilDone', () => {
  it.each([
    ['in the middle of a pause', IN_AN_HOUR, (abort: () => void) => void setImmediate(abort)],
    ['after the attempt that it was aborted in', AT_ONCE, (abort: () => void) => abort()],
  ])('ends %s, with what is left', async (_, retry, when) => {
    const aborting = new AbortController();
    const leave = () => {
      when(() => aborting.abort());
      return ['b'];
    };

    expect(await tried(['a', 'b'], leave, { ...retry, signal: aborting.signal })).toEqual({
      left: ['b'],
      attempts: [['a', 'b']],
    });
    expect((await tried(['a'], leave, { signal: AbortSignal.abort() })).attempts).toEqual([]);
  });
});
