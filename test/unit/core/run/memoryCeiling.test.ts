import { describe, expect, it } from '@jest/globals';
import { createMemoryCeiling } from '../../../../lambda/core/run.ts';
import { lineModel } from '../../../helpers/scoring.ts';

const model = lineModel();

describe('the most elements of a run', () => {
  it('are half of what was too many', () => {
    const memory = createMemoryCeiling();
    memory.ranOut(model, 1001);
    expect(memory.maxElements(model)).toBe(500);
    memory.ranOut(model, 400);
    expect(memory.maxElements(model)).toBe(200);
  });

  it('are not less than what ended well before', () => {
    const memory = createMemoryCeiling();
    memory.ranWell(model, 900);
    memory.ranOut(model, 1000);
    expect(memory.maxElements(model)).toBe(900);
  });

  it('are less than what ended well once that size itself is too much', () => {
    const memory = createMemoryCeiling();
    memory.ranWell(model, 1000);
    memory.ranOut(model, 1000);
    expect(memory.maxElements(model)).toBe(500);
  });

  it('double after eight runs near them that ended well', () => {
    const memory = createMemoryCeiling();
    memory.ranOut(model, 1000);
    for (let runs = 0; runs < 20; runs++) memory.ranWell(model, 250);
    expect(memory.maxElements(model)).toBe(500);
    for (let runs = 0; runs < 7; runs++) memory.ranWell(model, 500);
    expect(memory.maxElements(model)).toBe(500);
    memory.ranWell(model, 500);
    expect(memory.maxElements(model)).toBe(1000);
  });

  it('are each model’s own', () => {
    const memory = createMemoryCeiling();
    memory.ranOut(model, 100);
    expect(memory.maxElements(lineModel())).toBe(Number.POSITIVE_INFINITY);
  });
});
