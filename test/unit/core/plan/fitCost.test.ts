import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { fitCost, type ObservedRuns } from '../../../../lambda/core/cost.ts';
import { measuredAtStart, SURFACES, type Surface } from './surfaces.ts';

const often = (runs: ReturnType<typeof measuredAtStart>): ObservedRuns[] => runs.map((run) => ({ ...run, times: 15 }));

const size = fc.integer({ min: 1, max: 64 });
const anyRuns = fc.array(
  fc.record({
    rows: size,
    length: size,
    ms: fc.double({ min: 0.01, max: 100, noNaN: true }),
    times: fc.integer({ min: 1, max: 15 }),
  }),
  { minLength: 1, maxLength: 20 },
);

describe('the cost that is learnt', () => {
  it('falls neither with the rows nor with the length, whatever was observed', () => {
    fc.assert(
      fc.property(anyRuns, size, size, (runs, rows, length) => {
        const { costOf } = fitCost(runs);
        const cost = costOf(rows, length);
        expect(costOf(rows + 1, length)).toBeGreaterThanOrEqual(cost);
        expect(costOf(rows, length + 1)).toBeGreaterThanOrEqual(cost);
        expect(cost).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  it('is not led astray by one run that something else held up', () => {
    const runs = often(measuredAtStart(SURFACES.affine));
    const heldUp = runs.map((run, index) => (index === 5 ? { ...run, ms: 5 * run.ms, times: 1 } : run));
    for (const { rows, length, ms } of runs) {
      expect(Math.abs(fitCost(heldUp).costOf(rows, length) / ms - 1)).toBeLessThan(0.1);
    }
  });

  it('takes what is twice as large as anything known for what it seems to be, and is careful beyond', () => {
    const surface: Surface = (rows) => 0.1 + rows;
    const { costOf, maxElements } = fitCost(
      often([1, 2, 8].map((rows) => ({ rows, length: 1, ms: surface(rows, 1) }))),
    );
    expect(maxElements).toBe(8);
    expect(costOf(16, 1) / surface(16, 1)).toBeCloseTo(1, 1);
    expect(costOf(32, 1) / surface(32, 1)).toBeGreaterThan(1.1);
    expect(costOf(64, 1) / 64).toBeGreaterThan(costOf(32, 1) / 32);
  });
});
