import { describe, expect, it } from '@jest/globals';
import { createPace } from '../../../lambda/hosts/modelQueues.ts';

const MINUTE_MS = 60_000;

describe('the pace', () => {
  it('begins with few records, and goes on with as many as a quarter of the time is enough for', () => {
    const pace = createPace(512, MINUTE_MS);

    expect(pace.mostOf('slow')).toBe(32);
    pace.took('slow', 32, 32 * 500);

    expect(pace.mostOf('slow')).toBe(30);
  });

  it('never exceeds the batch size, nor falls below one record', () => {
    const pace = createPace(10, MINUTE_MS);

    expect(pace.mostOf('fast')).toBe(10);
    pace.took('fast', 10, 1);
    expect(pace.mostOf('fast')).toBe(10);
    pace.took('stuck', 10, 10 * MINUTE_MS);

    expect(pace.mostOf('stuck')).toBe(1);
  });

  it('is one of each model: a slow one does not make the others slow', () => {
    const pace = createPace(512, MINUTE_MS);

    pace.took('slow', 1, MINUTE_MS);
    pace.took('fast', 32, 3);

    expect([pace.mostOf('slow'), pace.mostOf('fast')]).toEqual([1, 512]);
  });

  it('recovers from a batch that hung', () => {
    const pace = createPace(512, MINUTE_MS);

    pace.took('model', 512, MINUTE_MS);
    const afterHang = pace.mostOf('model');
    for (let batch = 0; batch < 10; batch++) pace.took('model', afterHang, 20);

    expect(afterHang).toBe(128);
    expect(pace.mostOf('model')).toBe(512);
  });
});
