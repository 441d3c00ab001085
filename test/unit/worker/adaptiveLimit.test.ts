import { describe, expect, it } from '@jest/globals';
import { createAdaptiveLimit } from '../../../lambda/hosts/modelQueues.ts';

const MINUTE_MS = 60_000;

describe('the pace', () => {
  it('begins with few records, and goes on with as many as a quarter of the time is enough for', () => {
    const adaptiveLimit = createAdaptiveLimit(512, MINUTE_MS);

    expect(adaptiveLimit.limitOf('slow')).toBe(32);
    adaptiveLimit.record('slow', 32, 32 * 500);

    expect(adaptiveLimit.limitOf('slow')).toBe(30);
  });

  it('never exceeds the batch size, nor falls below one record', () => {
    const adaptiveLimit = createAdaptiveLimit(10, MINUTE_MS);

    expect(adaptiveLimit.limitOf('fast')).toBe(10);
    adaptiveLimit.record('fast', 10, 1);
    expect(adaptiveLimit.limitOf('fast')).toBe(10);
    adaptiveLimit.record('stuck', 10, 10 * MINUTE_MS);

    expect(adaptiveLimit.limitOf('stuck')).toBe(1);
  });

  it('is one of each model: a slow one does not make the others slow', () => {
    const adaptiveLimit = createAdaptiveLimit(512, MINUTE_MS);

    adaptiveLimit.record('slow', 1, MINUTE_MS);
    adaptiveLimit.record('fast', 32, 3);

    expect([adaptiveLimit.limitOf('slow'), adaptiveLimit.limitOf('fast')]).toEqual([1, 512]);
  });

  it('recovers from a batch that hung', () => {
    const adaptiveLimit = createAdaptiveLimit(512, MINUTE_MS);

    adaptiveLimit.record('model', 512, MINUTE_MS);
    const afterHang = adaptiveLimit.limitOf('model');
    for (let batch = 0; batch < 10; batch++) adaptiveLimit.record('model', afterHang, 20);

    expect(afterHang).toBe(128);
    expect(adaptiveLimit.limitOf('model')).toBe(512);
  });
});
