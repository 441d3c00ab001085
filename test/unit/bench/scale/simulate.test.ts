import { describe, expect, it } from '@jest/globals';
import type { Load } from '../../../../bench/scale/load.ts';
import { simulate } from '../../../../bench/scale/simulate.ts';
import { atOnce, loadOf } from './loads.ts';

const FIVE = { atFirst: 5, perSecond: 0, most: 5 };

describe('a simulated shard', () => {
  it('answers a lone message after the window and one run', () => {
    const { stretches, meanLatencyMs } = atOnce(1, { windowMs: 1000, runMs: () => 100 });
    expect(meanLatencyMs).toBe(1100);
    expect(stretches.map(({ answered }) => answered)).toEqual([0, 1, ...Array(8).fill(0)]);
  });

  it('answers a lone message after one run where there is no window', () => {
    expect(atOnce(1, { runMs: () => 100 }).meanLatencyMs).toBe(100);
  });

  it('shares messages out among its pollers, ten at a time, so that batches wait for the window', () => {
    const { stretches, meanLatencyMs } = atOnce(100, {
      batchSize: 100,
      windowMs: 1000,
      runMs: () => 100,
      mapping: FIVE,
    });
    expect(meanLatencyMs).toBe(1100);
    expect(stretches[1]?.batch).toBe(20);
  });

  it('does not wait for the window with full batches', () => {
    const { stretches, meanLatencyMs } = atOnce(500, {
      batchSize: 100,
      windowMs: 1000,
      runMs: () => 100,
      mapping: FIVE,
    });
    expect(meanLatencyMs).toBe(100);
    expect(stretches[0]?.batch).toBe(100);
  });

  it('runs as long as its messages take', () => {
    expect(atOnce(7, { runMs: (messages) => 100 * messages }).meanLatencyMs).toBe(700);
  });

  it('starts only so many invocations at a time', () => {
    const { stretches, meanLatencyMs } = atOnce(100, { mapping: FIVE });
    expect(stretches.slice(0, 3).map(({ answered }) => answered)).toEqual([0, 50, 50]);
    expect(meanLatencyMs).toBe(1500);
    expect(stretches[0]).toMatchObject({
      waiting: 50,
      inFlight: 50,
      running: 5,
      heldBackBy: 'the mapping starts no more',
    });
  });

  it('takes longer for the first invocation of each environment', () => {
    const { stretches } = atOnce(100, { mapping: FIVE, coldMs: 500 });
    expect(stretches.slice(0, 4).map(({ answered }) => answered)).toEqual([0, 50, 50, 0]);
    expect(stretches[1]?.p50Ms).toBe(1500);
    expect(stretches[2]?.p50Ms).toBe(2500);
  });

  it('starts more invocations as the mapping grows while messages wait, and fewer once none do', () => {
    const { stretches } = atOnce(2_000, { mapping: { atFirst: 5, perSecond: 5, most: 1000 } }, 20);
    // 5 × 8 batches of the first five, and 35 + 30 + … + 5 of those that came each fifth of a second, are 180 after 7 s;
    // eight more each fifth of a second are 200 after 7.6 s, when there are 5 + 38 = 43: 41 at 8 s.
    expect(stretches.map(({ mapping }) => mapping).slice(0, 9)).toEqual([10, 15, 20, 25, 30, 35, 40, 41, 36]);
    expect(stretches.at(-1)?.mapping).toBe(5);
  });

  it('grows no further than it may', () => {
    const { stretches } = atOnce(100_000, { mapping: { atFirst: 5, perSecond: 5, most: 12 } });
    expect(stretches.map(({ mapping }) => mapping)).toEqual([10, ...Array(9).fill(12)]);
  });

  it.each<[string, Partial<Load>, string, number]>([
    ['messages in flight', { messagesInFlight: 30 }, 'messages in flight', 30],
    ['the receives of its pollers', { receives: { ofQueue: 1_000, ofEach: 0.04 } }, 'receives', 40],
    ['the receives of its queue', { receives: { ofQueue: 40, ofEach: 1_000 } }, 'receives', 40],
    ["the account's concurrency", { concurrency: 2, mapping: FIVE }, 'the concurrency of the account', 20],
    [
      "the account's invocations a second",
      { invocationsPerSecond: 3, mapping: FIVE },
      'the invocations a second of the account',
      30,
    ],
    [
      'new environments of the function',
      { environments: { atOnce: 4, perSecond: 0 }, mapping: FIVE },
      'new environments of the function',
      40,
    ],
  ])('is held back by %s, and answers no more in a second', (_, load, heldBackBy, answered) => {
    const { stretches } = atOnce(1000, load, 5);
    expect(stretches.slice(2)).toEqual(Array(3).fill(expect.objectContaining({ heldBackBy, answered })));
  });

  it('starts invocations in new environments as fast as the function may add them', () => {
    const { stretches } = atOnce(1000, { environments: { atOnce: 3, perSecond: 2 } }, 4);
    // Three at the start; two more a second, the last of them just after its end.
    expect(stretches.map(({ running }) => running)).toEqual([4, 6, 8, 10]);
  });

  it('counts each batch that is refused once, however long it waits, and runs it before later ones', () => {
    const { throttled, meanLatencyMs } = atOnce(100, { concurrency: 2, mapping: FIVE }, 6);
    // Of ten batches two run at once; the others are refused, three at the start and two each second, while they last.
    expect(throttled).toBe(3 + 2 + 2 + 1);
    expect(meanLatencyMs).toBe((1000 + 2000 + 3000 + 4000 + 5000) / 5);
  });

  it('is held back by nothing where all is answered as it comes', () => {
    const { stretches } = simulate(loadOf({ messagesPerSecond: 500 }), { seconds: 20, seed: 1 });
    expect(stretches.map(({ heldBackBy }) => heldBackBy)).toEqual([undefined, undefined]);
  });
});

describe('messages that come at random', () => {
  const LOADS: readonly (readonly [string, Partial<Load>])[] = [
    ['few, with a window', { messagesPerSecond: 3, windowMs: 2000, batchSize: 100 }],
    ['some, in batches that fill', { messagesPerSecond: 400, windowMs: 1000, batchSize: 50, runMs: () => 200 }],
    [
      'many, near what the mapping can do',
      { messagesPerSecond: 5_000, runMs: () => 100, mapping: { atFirst: 5, perSecond: 5, most: 1000 } },
    ],
    ['in flight near the quota', { messagesPerSecond: 900, messagesInFlight: 100, runMs: () => 100 }],
  ];

  it.each(LOADS)('obey Little’s law: %s', (_, load) => {
    const seconds = 500;
    const { meanInSystem, meanLatencyMs, stretches } = simulate(loadOf(load), { seconds, seed: 7 });
    const answered = stretches.reduce((sum, stretch) => sum + stretch.answered, 0);
    expect(Math.abs((meanInSystem * seconds) / ((answered * meanLatencyMs) / 1000) - 1)).toBeLessThan(0.02);
  });

  it.each(LOADS)('are all answered, waiting or in flight: %s', (_, load) => {
    const { stretches } = simulate(loadOf(load), { seconds: 100, seed: 3 });
    const sum = (of: 'arrived' | 'answered') => stretches.reduce((all, stretch) => all + stretch[of], 0);
    const last = stretches.at(-1);
    expect(sum('arrived')).toBe(sum('answered') + (last?.waiting ?? 0) + (last?.inFlight ?? 0));
    expect(Math.abs(sum('arrived') / 100 / (load.messagesPerSecond ?? 0) - 1)).toBeLessThan(0.15);
  });

  it('come again the same with the same seed, and not with another', () => {
    const course = (seed: number) => simulate(loadOf({ messagesPerSecond: 1000 }), { seconds: 10, seed });
    expect(course(5)).toEqual(course(5));
    expect(course(5)).not.toEqual(course(6));
  });
});
