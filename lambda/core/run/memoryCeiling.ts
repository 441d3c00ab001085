import type { Model } from '../contract/model.ts';

/** How large the runs of each model may be, by the memory that they were found to need. */
export interface MemoryCeiling {
  /** A run with inputs of so many elements needed more memory than there is: half as many is the most from now on. */
  ranOut(model: Model, elements: number): void;
  /** Most elements that a run may hold. */
  mostElements(model: Model): number;
}

export function createMemoryCeiling(): MemoryCeiling {
  const ceilings = new WeakMap<Model, number>();
  return {
    ranOut(model, elements) {
      const most = ceilings.get(model) ?? Number.POSITIVE_INFINITY;
      ceilings.set(model, Math.max(1, Math.min(most, Math.floor(elements / 2))));
    },
    mostElements: (model) => ceilings.get(model) ?? Number.POSITIVE_INFINITY,
  };
}
