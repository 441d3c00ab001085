import { describe, expect, it } from '@jest/globals';
import { createTimeline, SECONDS_KEPT } from '../../../../../cli/local/page/pageMonitor.ts';
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
    expect(timeline.all()).toEqual([]);
    ms = 11_000;
    expect(timeline.all()).toEqual([
      {
        ...{ at: 10, sent: 7, answered: 76, errors: 6, retried: 4, invocations: 2, records: 80, room: 100 },
        ...{ rows: 120, paddedRows: 128, runs: 4, p50Ms: null, p99Ms: null },
      },
    ]);
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
    expect(timeline.all()).toMatchObject([{ p50Ms: 101, p99Ms: 199 }]);
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
