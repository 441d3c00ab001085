import type { Model } from './model.ts';

/** Maximum size of each model's runs, learnt from runs that exhausted the memory. */
export interface MemoryCeiling {
  /** Records a run of several requests with `elements` input elements that exhausted the memory. */
  ranOut(model: Model, elements: number): void;
  ranWell(model: Model, elements: number): void;
  maxElements(model: Model): number;
}

interface Ceiling {
  largest: number;
  max: number;
  /** Number of successive runs near the ceiling that succeeded. */
  goodRuns: number;
}

/** Number of good runs near the ceiling that double it, because the cause may have passed. */
const GOOD_RUNS_TO_RISE = 8;

/**
 * Creates ceilings. A ceiling is half of the size that failed, but at least the largest size that succeeded. It rises
 * again after good runs.
 */
export function createMemoryCeiling(): MemoryCeiling {
  const ceilings = new WeakMap<Model, Ceiling>();
  const ceilingOf = (model: Model): Ceiling => {
    const ceiling = ceilings.get(model) ?? { largest: 0, max: Number.POSITIVE_INFINITY, goodRuns: 0 };
    ceilings.set(model, ceiling);
    return ceiling;
  };
  return {
    ranOut(model, elements) {
      const ceiling = ceilingOf(model);
      if (elements <= ceiling.largest) ceiling.largest = Math.floor(elements / 2);
      ceiling.max = Math.max(1, ceiling.largest, Math.min(ceiling.max, Math.floor(elements / 2)));
      ceiling.goodRuns = 0;
    },
    ranWell(model, elements) {
      const ceiling = ceilingOf(model);
      ceiling.largest = Math.max(ceiling.largest, elements);
      ceiling.max = Math.max(ceiling.max, ceiling.largest);
      if (2 * elements <= ceiling.max) return;
      ceiling.goodRuns += 1;
      if (ceiling.goodRuns < GOOD_RUNS_TO_RISE) return;
      ceiling.max *= 2;
      ceiling.goodRuns = 0;
    },
    maxElements: (model) => ceilings.get(model)?.max ?? Number.POSITIVE_INFINITY,
  };
}
