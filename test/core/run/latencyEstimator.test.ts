import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Model } from '../../../lambda/core/contract/model.ts';
import { createLatencyEstimator } from '../../../lambda/core/run/latencyEstimator.ts';
import { lineModel } from '../../helpers/models.ts';

const model = lineModel({ measured: [] });

/** After a first run. @param runs `[rows, length, ms]` each */
function estimatorOf(runs: readonly (readonly [number, number, number])[], of: Model = model) {
  const latency = createLatencyEstimator();
  latency.observed(of, 1, 1, 60_000);
  for (const [rows, length, ms] of runs) latency.observed(of, rows, length, ms);
  return latency;
}

describe('the estimate of a run', () => {
  it('is none before anything was measured', () => {
    expect(createLatencyEstimator().predictMs(model, 64, 1)).toBeUndefined();
  });

  it('is none after the first run of a model that was not warmed up: it also paid for that', () => {
    expect(estimatorOf([]).predictMs(model, 1, 1)).toBeUndefined();
  });

  it('is what the warm-up took, before any other run', () => {
    const warm = lineModel({ measured: [{ rows: 2, length: 1, ms: 200 }] });
    expect(createLatencyEstimator().predictMs(warm, 2, 1)).toBe(200);
  });

  it('is what a run of as many rows took', () => {
    expect(estimatorOf([[64, 1, 12]]).predictMs(model, 64, 1)).toBe(12);
  });

  it('is the median of the latest seven: one slow run changes nothing', () => {
    const latency = estimatorOf([1, 1, 1, 1, 900, 1, 1].map((ms) => [1, 1, ms] as const));
    expect(latency.predictMs(model, 1, 1)).toBe(1);
    for (const ms of [5, 5, 5, 5]) latency.observed(model, 1, 1, ms);
    expect(latency.predictMs(model, 1, 1)).toBe(5);
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

  it('is each model’s own', () => {
    expect(estimatorOf([[8, 1, 5]]).predictMs(lineModel({ measured: [] }), 8, 1)).toBeUndefined();
  });

  it('is never less for more rows, where more rows did take longer', () => {
    const size = fc.integer({ min: 1, max: 1024 });
    fc.assert(
      fc.property(fc.array(size, { minLength: 1 }), size, (measured, rows) => {
        const latency = estimatorOf(measured.map((count) => [count, 1, count] as const));
        const [fewer, more] = [rows, rows + 1].map((count) => latency.predictMs(model, count, 1) ?? 0);
        expect(fewer).toBeLessThanOrEqual((more as number) + 1e-9);
      }),
    );
  });
});

describe('a run that was given up', () => {
  it('teaches that runs of its size take at least as long', () => {
    const latency = estimatorOf([[1, 1, 1]]);
    latency.overran(model, 64, 1, 6_400);
    expect(latency.predictMs(model, 64, 1)).toBe(6_400);
  });

  it('teaches nothing of smaller runs, also where nothing else was measured', () => {
    const latency = estimatorOf([]);
    latency.overran(model, 64, 1, 6_400);
    expect(latency.predictMs(model, 32, 1)).toBeUndefined();
    expect(latency.predictMs(model, 128, 1)).toBe(12_800);
  });

  it('teaches nothing when it was one row: that one hung', () => {
    const latency = estimatorOf([[1, 1, 1]]);
    latency.overran(model, 1, 1, 30_000);
    expect(latency.predictMs(model, 1, 1)).toBe(1);
  });

  it('counts for nothing beside runs of that size that ended', () => {
    const latency = estimatorOf([[64, 1, 5]]);
    latency.overran(model, 64, 1, 30_000);
    expect(latency.predictMs(model, 64, 1)).toBe(5);
  });

  it('is forgotten when half as many rows are far quicker: what it ran was at fault, not its size', () => {
    const latency = estimatorOf([[1, 1, 1]]);
    latency.overran(model, 64, 1, 30_000);
    latency.observed(model, 32, 1, 3);
    expect(latency.predictMs(model, 64, 1)).toBe(6);
  });
});
