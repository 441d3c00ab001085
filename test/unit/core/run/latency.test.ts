import { describe, expect, it } from '@jest/globals';
import { createLatencyEstimator } from '../../../../lambda/core/latency.ts';
import type { Model } from '../../../../lambda/core/model.ts';
import { echoModel, lineModel } from '../../../helpers/scoring.ts';

const model = lineModel({ measured: [] });

/** After a first run. @param runs `[rows, length, ms]` each */
function estimatorOf(runs: readonly (readonly [number, number, number])[], of: Model = model) {
  const latency = createLatencyEstimator();
  latency.observed(of, 1, 1, 60_000);
  for (const [rows, length, ms] of runs) latency.observed(of, rows, length, ms);
  return latency;
}

describe('the estimate of a run', () => {
  it('is none after the first run of a model that was not warmed up: it also paid for that', () => {
    expect(estimatorOf([]).predictMs(model, 1, 1)).toBeUndefined();
  });

  it('is the median of the latest seven: one slow run changes nothing', () => {
    const latency = estimatorOf([1, 1, 1, 1, 900, 1, 1].map((ms) => [1, 1, ms] as const));
    expect(latency.predictMs(model, 1, 1)).toBe(1);
    for (const ms of [5, 5, 5, 5]) latency.observed(model, 1, 1, ms);
    expect(latency.predictMs(model, 1, 1)).toBe(5);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1])('takes no notice of a run of %d milliseconds', (ms) => {
    const runs = Array.from({ length: 20 }, (_, run) => [1 + (run % 4), 1, 2 + (run % 4)] as const);
    const latency = estimatorOf([...runs, [1, 1, ms], [3, 1, ms], [64, 1, ms]]);
    expect(latency.predictMs(model, 4, 1)).toBe(5);
    expect(latency.costOf(model)?.(64, 1)).toBe(estimatorOf(runs).costOf(model)?.(64, 1));
    expect(latency.costOf(model)?.(4, 1)).toBeGreaterThan(3);
  });

  it('lies on the line between the sizes that were measured', () => {
    const latency = estimatorOf([
      [8, 1, 10],
      [64, 1, 66],
    ]);
    expect([1, 8, 36, 64].map((rows) => latency.predictMs(model, rows, 1))).toEqual([10, 10, 38, 66]);
  });

  it('grows in proportion beyond them, and fourfold where it is a guess', () => {
    const latency = estimatorOf([[8, 1, 8]]);
    expect([9, 16, 17, 32].map((rows) => latency.predictMs(model, rows, 1))).toEqual([9, 16, 68, 128]);
  });

  it('takes the shortest length measured that is no shorter, and grows in proportion beyond the longest', () => {
    const latency = estimatorOf([
      [8, 32, 5],
      [8, 256, 60],
    ]);
    const at = (length: number) => latency.predictMs(model, 8, length);
    expect([at(20), at(32), at(33), at(256), at(512), at(1024)]).toEqual([5, 5, 60, 60, 120, 960]);
  });
});

describe('the cost of runs', () => {
  const costAt = (latency: ReturnType<typeof createLatencyEstimator>, of: Model, rows: number): number => {
    const cost = latency.costOf(of);
    if (cost === undefined) throw new Error('expected a cost');
    return cost(rows, 1);
  };
  const affine = (rows: number): number => 5 + rows;
  const warm = (): Model => lineModel({ measured: [1, 2, 8].map((rows) => ({ rows, length: 1, ms: affine(rows) })) });

  it('is none before runs of two row counts were measured', () => {
    const latency = estimatorOf(Array.from({ length: 20 }, () => [4, 1, 9] as const));
    expect(latency.costOf(model)).toBeUndefined();
    for (let run = 0; run < 8; run++) latency.observed(model, 1, 1, 6);
    expect(costAt(latency, model, 4) / costAt(latency, model, 1)).toBeCloseTo(9 / 6, 1);
  });

  it('is none where requests of one row and length may differ in size all the same', () => {
    const picture = echoModel('FP32', ['height'], { measured: [1, 2].map((rows) => ({ rows, length: 1, ms: rows })) });
    expect(createLatencyEstimator().costOf(picture)).toBeUndefined();
  });

  it('holds what a run takes outside of ONNX Runtime', () => {
    const none = lineModel({ measured: [1, 2, 4].map((rows) => ({ rows, length: 1, ms: rows / 1000 })) });
    const latency = createLatencyEstimator();
    expect(costAt(latency, none, 1)).toBeGreaterThan(0.05);
    expect(costAt(latency, none, 4)).toBeLessThan(0.2);
  });

  it('stays the very same while nothing changes clearly, one slow run and a slower machine included', () => {
    const of = warm();
    const latency = createLatencyEstimator();
    const cost = latency.costOf(of);
    for (let run = 0; run < 40; run++) {
      for (const rows of [1, 2, 8])
        latency.observed(of, rows, 1, affine(rows) * (run % 20 === 7 ? 5 : 1 + 0.1 * (run % 2)));
      expect(latency.costOf(of)).toBe(cost);
    }
    for (let run = 0; run < 40; run++) {
      for (const rows of [1, 2, 8]) latency.observed(of, rows, 1, 3 * affine(rows));
      expect(latency.costOf(of)).toBe(cost);
    }
  });

  it('is another one after several runs that say so', () => {
    const of = warm();
    const latency = createLatencyEstimator();
    const before = costAt(latency, of, 8) / costAt(latency, of, 1);
    for (let run = 0; run < 20; run++) for (const rows of [1, 2, 8]) latency.observed(of, rows, 1, 6 * rows);
    expect(costAt(latency, of, 8) / costAt(latency, of, 1)).toBeGreaterThan(2 * before);
  });

  it('has no size that was not run again look dear or cheap because the warm-up, or a proof, was slower or faster than runs are', () => {
    for (const pace of [1 / 4, 4]) {
      const sizes = [1, 2, 4, 8, 16, 32, 64].map((rows) => ({ rows, length: 1, ms: pace * affine(rows) }));
      const proved = lineModel({ measured: sizes });
      const latency = createLatencyEstimator();
      for (let run = 0; run < 20; run++)
        latency.observed(proved, run % 2 === 0 ? 1 : 8, 1, affine(run % 2 === 0 ? 1 : 8));
      expect(costAt(latency, proved, 64) / affine(64)).toBeCloseTo(1, 1);
      expect((latency.predictMs(proved, 64, 1) as number) / affine(64)).toBeCloseTo(1, 1);
    }
  });

  it('forgets in the end how slow a size was that has not been run since', () => {
    const sizes = [1, 2, 4].map((rows) => ({ rows, length: 1, ms: affine(rows) }));
    const busy = lineModel({ measured: [...sizes, { rows: 16, length: 1, ms: 30 * affine(16) }] });
    const latency = createLatencyEstimator();
    const before = costAt(latency, busy, 16);
    for (let run = 0; run < 20_000; run++)
      latency.observed(busy, sizes[run % 3]?.rows ?? 1, 1, sizes[run % 3]?.ms ?? 0);
    expect(costAt(latency, busy, 16)).toBeLessThan(before / 5);
    expect(costAt(latency, busy, 16)).toBeLessThan(1.5 * affine(16));
  });
});
