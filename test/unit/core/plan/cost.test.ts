import { describe, expect, it } from '@jest/globals';
import { affineCost, OVERHEAD_ELEMENTS, tableCost } from '../../../../lambda/core/cost.ts';
import type { MeasuredRun } from '../../../../lambda/core/model.ts';

const MEASURED: readonly MeasuredRun[] = [
  { rows: 8, length: 100, ms: 40 },
  { rows: 1, length: 10, ms: 2 },
  { rows: 8, length: 10, ms: 9 },
  { rows: 1, length: 100, ms: 5 },
];

describe('the cost of a model of which nothing was measured', () => {
  it('is an overhead and the elements of its padded rows', () => {
    const cost = affineCost((length) => 3 * length + 1);
    expect([cost(1, 1), cost(7, 10)]).toEqual([OVERHEAD_ELEMENTS + 4, OVERHEAD_ELEMENTS + 7 * 31]);
  });
});

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

  it.each<[string, readonly MeasuredRun[], string]>([
    ['a missing combination', MEASURED.slice(1), 'of 8 rows of length 100, got 0'],
    ['one measured twice', [...MEASURED, { rows: 1, length: 10, ms: 2 }], 'of 1 row of length 10, got 2'],
    ['no time at all', [{ rows: 1, length: 1, ms: 0 }], 'of 1 row of length 1, got 0'],
    ['a time that is no number', [{ rows: 1, length: 1, ms: Number.NaN }], 'of 1 row of length 1, got NaN'],
    ['an endless time', [{ rows: 1, length: 1, ms: Number.POSITIVE_INFINITY }], 'got Infinity'],
  ])('is refused for %s, naming it', (_, runs, message) => {
    expect(() => tableCost(runs)).toThrow(`expected one measurement in milliseconds`);
    expect(() => tableCost(runs)).toThrow(message);
    expect(() => tableCost(runs)).toThrow('measure every combination of rows and lengths once');
  });
});
