import { describe, expect, it } from '@jest/globals';
import { tableCost } from '../../../../lambda/core/cost.ts';
import type { MeasuredRun } from '../../../../lambda/core/model.ts';

const MEASURED: readonly MeasuredRun[] = [
  { rows: 8, length: 100, ms: 40 },
  { rows: 1, length: 10, ms: 2 },
  { rows: 8, length: 10, ms: 9 },
  { rows: 1, length: 100, ms: 5 },
];

describe('the cost of a measured model', () => {
  const cost = tableCost(MEASURED);

  it('is what was measured, in whatever order that was', () => {
    expect(MEASURED.map(({ rows, length }) => cost(rows, length))).toEqual([40, 2, 9, 5]);
  });

  it('lies on the line between two row counts, and between two lengths', () => {
    expect(cost(2, 10)).toBeCloseTo(2 + 1);
    expect(cost(1, 40)).toBeCloseTo(2 + 1);
    expect(cost(8, 55)).toBeCloseTo((9 + 40) / 2);
  });

  it('grows in proportion beyond the most rows, the greatest length, and both', () => {
    expect(cost(16, 10)).toBe(18);
    expect(cost(1, 300)).toBe(15);
    expect(cost(16, 200)).toBe(160);
  });
});
