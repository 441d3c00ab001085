import { describe, expect, it } from '@jest/globals';
import { createMemoryCeiling } from '../../../lambda/core/run/memoryCeiling.ts';
import { lineModel } from '../../helpers/models.ts';

const model = lineModel();

describe('the most elements of a run', () => {
  it('are without end before memory ran out', () => {
    expect(createMemoryCeiling().mostElements(model)).toBe(Number.POSITIVE_INFINITY);
  });

  it('are half of what was too many', () => {
    const memory = createMemoryCeiling();
    memory.ranOut(model, 1001);
    expect(memory.mostElements(model)).toBe(500);
    memory.ranOut(model, 400);
    expect(memory.mostElements(model)).toBe(200);
  });

  it('never grow, and are never none', () => {
    const memory = createMemoryCeiling();
    memory.ranOut(model, 100);
    memory.ranOut(model, 1000);
    expect(memory.mostElements(model)).toBe(50);
    memory.ranOut(model, 1);
    expect(memory.mostElements(model)).toBe(1);
  });

  it('are each model’s own', () => {
    const memory = createMemoryCeiling();
    memory.ranOut(model, 100);
    expect(memory.mostElements(lineModel())).toBe(Number.POSITIVE_INFINITY);
  });
});
