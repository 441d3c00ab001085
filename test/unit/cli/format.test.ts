import { describe, expect, it } from '@jest/globals';
import { DURATION_STEPS, durationTicks } from '../../../cli/format.ts';

describe('the ticks of an axis of durations', () => {
  it.each([
    [50_000, ['0 s', '50 s', '100 s', '150 s']],
    [60_000, ['0 min', '1 min', '2 min', '3 min']],
    [500, ['0 s', '0.5 s', '1 s', '1.5 s']],
    [200, ['0 ms', '200 ms', '400 ms', '600 ms']],
    [0.2, ['0 ms', '0.2 ms', '0.4 ms', '0.6 ms']],
    [7_200_000, ['0 h', '2 h', '4 h', '6 h']],
  ])('are of one unit at steps of %d ms', (step, expected) => {
    expect(durationTicks([0, step, 2 * step, 3 * step])).toEqual(expected);
  });

  it('have equal distances at every step that charts use, and at any number of ticks', () => {
    for (const step of DURATION_STEPS) {
      for (const many of [2, 5, 9]) {
        const ticks = durationTicks(Array.from({ length: many }, (_, index) => index * step));
        const values = ticks.map((tick) => Number(tick.split(' ')[0]));
        const distances = values.slice(1).map((value, index) => value - (values[index] ?? 0));
        for (const distance of distances) expect(distance).toBeCloseTo(distances[0] ?? 0, 9);
      }
    }
  });
});
