import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Backoff } from '../../../client/collect.ts';

const NEVER = new Promise<void>(() => {});

beforeEach(() => {
  jest.spyOn(Math, 'random').mockReturnValue(0.5);
});
afterEach(() => {
  jest.restoreAllMocks();
});

/** A backoff whose sleeps take no time; `pause` tells their milliseconds. */
function recorded() {
  let total = 0;
  const backoff = new Backoff(async (ms) => {
    total += ms;
  });
  const pause = async (minMs?: number): Promise<number> => {
    total = 0;
    await backoff.pause(NEVER, minMs);
    return total;
  };
  return { backoff, pause };
}

describe('pauses between polls', () => {
  it('double from 50 ms to 1 s, and are the shortest again after a reset', async () => {
    const { backoff, pause } = recorded();
    const pauses: number[] = [];
    for (let count = 0; count < 7; count++) pauses.push(await pause());
    expect(pauses).toEqual([50, 100, 200, 400, 800, 1000, 1000]);
    backoff.reset();
    expect(await pause()).toBe(50);
  });

  it('are up to half shorter or longer by chance, so that clients do not wait in step', async () => {
    const { pause } = recorded();
    jest.spyOn(Math, 'random').mockReturnValue(0);
    expect(await pause(3000)).toBe(1500);
    jest.spyOn(Math, 'random').mockReturnValue(0.999);
    expect(await pause(3000)).toBeCloseTo(4497);
  });

  it('end after the shortest when they are cut short, which makes the next the shortest again', async () => {
    const slept: number[] = [];
    const abandoned: number[] = [];
    const backoff = new Backoff(async (ms, signal) => {
      slept.push(ms);
      if (signal === undefined) return;
      await new Promise<void>((_, reject) => {
        signal.addEventListener('abort', () => {
          abandoned.push(ms);
          reject(signal.reason);
        });
      });
    });
    await backoff.pause(NEVER);
    await backoff.pause(Promise.resolve());
    expect({ slept, abandoned }).toEqual({ slept: [50, 50, 50], abandoned: [50] });
    await backoff.pause(NEVER);
    expect(slept).toEqual([50, 50, 50, 50]);
  });
});
