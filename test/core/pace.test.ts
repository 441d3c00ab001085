import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createPace } from '../../lambda/core/pace.ts';
import { lineModel } from '../helpers/models.ts';

const model = lineModel();

describe('createPace', () => {
  it('predicts nothing before anything was measured', () => {
    expect(createPace().predictMs(model, 64, 1)).toBe(0);
  });

  it('predicts what a run of as many rows took', () => {
    const pace = createPace();
    pace.observed(model, 64, 1, 12);
    expect(pace.predictMs(model, 64, 1)).toBe(12);
  });

  it('moves three tenths of the way to each new measurement', () => {
    const pace = createPace();
    pace.observed(model, 64, 1, 10);
    pace.observed(model, 64, 1, 20);
    expect(pace.predictMs(model, 64, 1)).toBe(13);
    pace.observed(model, 64, 1, 13);
    expect(pace.predictMs(model, 64, 1)).toBe(13);
  });

  it('takes fewer rows for as slow as the next larger run that was measured', () => {
    const pace = createPace();
    pace.observed(model, 8, 1, 5);
    pace.observed(model, 64, 1, 40);
    expect([1, 4, 8, 9, 32, 33, 64].map((rows) => pace.predictMs(model, rows, 1))).toEqual([5, 5, 5, 40, 40, 40, 40]);
  });

  it('takes more rows for slower in proportion, by powers of two', () => {
    const pace = createPace();
    pace.observed(model, 8, 1, 5);
    expect([16, 17, 64].map((rows) => pace.predictMs(model, rows, 1))).toEqual([10, 20, 40]);
  });

  it('keeps models apart', () => {
    const pace = createPace();
    pace.observed(model, 8, 1, 5);
    expect(pace.predictMs(lineModel(), 8, 1)).toBe(0);
  });

  it('never predicts less for more rows, when more rows did take longer', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 4096 })), fc.integer({ min: 1, max: 4096 }), (measured, rows) => {
        const pace = createPace();
        for (const count of measured) pace.observed(model, 2 ** Math.ceil(Math.log2(count)), 1, count);
        expect(pace.predictMs(model, rows, 1)).toBeLessThanOrEqual(pace.predictMs(model, rows * 2, 1));
      }),
    );
  });
});
