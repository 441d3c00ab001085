import type { Model } from './model.ts';

/** How large the runs of each model may be, by the memory that they were found to need. */
export interface MemoryCeiling {
  /** A run of several requests with inputs of so many elements needed more memory than there is. */
  ranOut(model: Model, elements: number): void;
  ranWell(model: Model, elements: number): void;
  maxElements(model: Model): number;
}

interface Ceiling {
  largest: number;
  max: number;
  /** Runs in a row that came near the ceiling and ended well. */
  goodRuns: number;
}

/** After so many good runs near the ceiling it is doubled: what took the memory then may be gone. */
const GOOD_RUNS_TO_RISE = 8;

/** A ceiling is half of what was too much, never less than what ended well before, and rises again. */
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
