import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createLatencyEstimator } from '../../../lambda/core/run/latencyEstimator.ts';
import { lineModel } from '../../helpers/models.ts';

const model = lineModel();

describe('createLatencyEstimator', () => {
  it('predicts nothing before anything was measured', () => {
    expect(createLatencyEstimator().predictMs(model, 64, 1)).toBe(0);
  });

  it('predicts what a run of as many rows took', () => {
    const latency = createLatencyEstimator();
    latency.observed(model, 64, 1, 12);
    expect(latency.predictMs(model, 64, 1)).toBe(12);
  });

  it('moves three tenths of the way to each new measurement', () => {
    const latency = createLatencyEstimator();
    latency.observed(model, 64, 1, 10);
    latency.observed(model, 64, 1, 20);
    expect(latency.predictMs(model, 64, 1)).toBe(13);
    latency.observed(model, 64, 1, 13);
    expect(latency.predictMs(model, 64, 1)).toBe(13);
  });

  it('takes fewer rows for as slow as the next larger run that was measured', () => {
    const latency = createLatencyEstimator();
    latency.observed(model, 8, 1, 5);
    latency.observed(model, 64, 1, 40);
    expect([1, 4, 8, 9, 32, 33, 64].map((rows) => latency.predictMs(model, rows, 1))).toEqual([
      5, 5, 5, 40, 40, 40, 40,
    ]);
  });

  it('takes more rows for slower in proportion, by powers of two', () => {
    const latency = createLatencyEstimator();
    latency.observed(model, 8, 1, 5);
    expect([16, 17, 64].map((rows) => latency.predictMs(model, rows, 1))).toEqual([10, 20, 40]);
  });

  it('keeps models apart', () => {
    const latency = createLatencyEstimator();
    latency.observed(model, 8, 1, 5);
    expect(latency.predictMs(lineModel(), 8, 1)).toBe(0);
  });

  it('never predicts less for more rows, when more rows did take longer', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 4096 })), fc.integer({ min: 1, max: 4096 }), (measured, rows) => {
        const latency = createLatencyEstimator();
        for (const count of measured) latency.observed(model, 2 ** Math.ceil(Math.log2(count)), 1, count);
        expect(latency.predictMs(model, rows, 1)).toBeLessThanOrEqual(latency.predictMs(model, rows * 2, 1));
      }),
    );
  });

  it('predicts by rows and length together', () => {
    const latency = createLatencyEstimator();
    latency.observed(model, 8, 32, 5);
    latency.observed(model, 8, 256, 60);
    latency.observed(model, 64, 32, 30);
    const at = (rows: number, length: number) => latency.predictMs(model, rows, length);
    expect([at(8, 32), at(8, 20), at(3, 256), at(64, 17)]).toEqual([5, 5, 60, 30]);
    expect([at(8, 33), at(9, 32)]).toEqual([60, 30]);
    expect([at(16, 256), at(128, 32), at(8, 512)]).toEqual([120, 60, 120]);
  });

  it('takes the nearest run that was measured, and of those as near the slower', () => {
    const latency = createLatencyEstimator();
    latency.observed(model, 8, 64, 10);
    latency.observed(model, 16, 32, 30);
    expect(latency.predictMs(model, 16, 64)).toBe(60);
    latency.observed(model, 16, 64, 25);
    expect(latency.predictMs(model, 16, 64)).toBe(25);
  });

  it('takes of runs that were measured larger the fastest', () => {
    const latency = createLatencyEstimator();
    latency.observed(model, 64, 8, 40);
    latency.observed(model, 8, 64, 15);
    expect(latency.predictMs(model, 4, 4)).toBe(15);
  });

  it('believes every prediction half as much once it was doubted', () => {
    const latency = createLatencyEstimator();
    const other = lineModel();
    for (const one of [model, other]) latency.observed(one, 8, 1, 40);
    latency.observed(model, 64, 1, 80);
    latency.doubted(model);
    latency.doubted(model);
    expect([8, 64].map((rows) => latency.predictMs(model, rows, 1))).toEqual([10, 20]);
    expect(latency.predictMs(other, 8, 1)).toBe(40);
  });

  it('never predicts less for greater lengths, when they did take longer', () => {
    const size = fc.integer({ min: 1, max: 1024 });
    fc.assert(
      fc.property(fc.array(fc.tuple(size, size)), size, size, (measured, rows, length) => {
        const latency = createLatencyEstimator();
        for (const [r, l] of measured)
          latency.observed(model, r, l, 2 ** (Math.ceil(Math.log2(r)) + Math.ceil(Math.log2(l))));
        expect(latency.predictMs(model, rows, length)).toBeLessThanOrEqual(latency.predictMs(model, rows, length * 2));
      }),
    );
  });
});
