import { describe, expect, it } from '@jest/globals';
import { createNewest, createTimeline, SECONDS_KEPT } from '../../../../../cli/local/page/pageMonitor.ts';
import type { InvocationSeen } from '../../../../../cli/local/page/wire.ts';

const INVOCATION: InvocationSeen = {
  ...{ number: 1, at: 0, records: 40, batchSize: 50, closedBecause: 'window', waitedMs: 1, durationMs: 1 },
  ...{ decodeMs: 1, writeMs: 1, answered: 38, errors: 3, retried: 2, cameBefore: 0 },
  ...{ microBatches: [], runs: 2, rows: 60, paddedRows: 64 },
};

describe('the timeline', () => {
  it('counts what ends in a second, and tells it once the second is over', () => {
    let ms = 10_900;
    const timeline = createTimeline(() => ms);
    timeline.ended(INVOCATION);
    timeline.ended(INVOCATION);
    timeline.sent(7);
    expect(timeline.takeNew()).toEqual([]);
    ms = 11_000;
    expect(timeline.takeNew()).toEqual([
      {
        ...{ at: 10, sent: 7, answered: 76, errors: 6, retried: 4, invocations: 2, records: 80, room: 100 },
        ...{ rows: 120, paddedRows: 128, runs: 4, p50Ms: null, p99Ms: null },
      },
    ]);
    expect(timeline.takeNew()).toEqual([]);
  });

  it('has seconds in which nothing happened', () => {
    let ms = 1_000;
    const timeline = createTimeline(() => ms);
    ms = 4_500;
    timeline.sent(1);
    expect(timeline.all().map(({ at, sent }) => [at, sent])).toEqual([
      [1, 0],
      [2, 0],
      [3, 0],
    ]);
  });

  it('tells the median and the 99th percentile of the times to answer', () => {
    let ms = 0;
    const timeline = createTimeline(() => ms);
    for (let time = 200; time > 0; time--) timeline.answered(time);
    ms = 1_000;
    expect(timeline.takeNew()).toMatchObject([{ p50Ms: 101, p99Ms: 199 }]);
  });

  it('takes the percentiles of many more times from a choice of them', () => {
    let ms = 0;
    const timeline = createTimeline(() => ms);
    for (let time = 0; time < 100_000; time++) timeline.answered(time);
    ms = 1_000;
    const [second] = timeline.takeNew();
    expect(second?.p50Ms).toBeGreaterThan(30_000);
    expect(second?.p50Ms).toBeLessThan(70_000);
    expect(second?.p99Ms).toBeGreaterThan(90_000);
  });

  it('keeps five minutes, however long nothing happened', () => {
    let ms = 0;
    const timeline = createTimeline(() => ms);
    ms = 10 ** 12;
    expect(timeline.all()).toHaveLength(SECONDS_KEPT);
    expect(timeline.all().at(-1)?.at).toBe(10 ** 9 - 1);
    ms += 5_000;
    expect(timeline.all()).toHaveLength(SECONDS_KEPT);
  });
});

describe('the newest', () => {
  it('are as many as it keeps, and are new until they were taken', () => {
    const newest = createNewest<number>(3);
    for (const one of [1, 2, 3, 4]) newest.add(one);
    expect(newest.all()).toEqual([2, 3, 4]);
    expect(newest.takeNew(2)).toEqual([3, 4]);
    expect(newest.takeNew(2)).toEqual([]);
    newest.add(5);
    expect(newest.takeNew(2)).toEqual([5]);
  });
});
