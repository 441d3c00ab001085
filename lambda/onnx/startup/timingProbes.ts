import type { Model } from '../../core/contract/model.ts';
import type { ScoringRequest } from '../../core/contract/request.ts';
import type { Part } from '../../core/plan/microBatch.ts';
import { symbolicAxes } from './axes.ts';
import type { ModelGraph } from './modelGraph.ts';
import { paddingProbes } from './paddingProbes.ts';
import { realProbes } from './probeSets.ts';
import { makeUp, rowShapes } from './probes.ts';

/** A short, a middling and a long text. */
const LENGTHS = [8, 32, 128];

/**
 * Requests of one row to time runs with: real ones where there are some, one of each of three lengths where lengths
 * differ. None where runs of as many rows and the same length may differ in size all the same, or made-up values might
 * keep a loop from ending.
 */
export function timingProbes(model: Model, samples: readonly ScoringRequest[], graph: ModelGraph): Part[] {
  const { ragged } = model;
  if (symbolicAxes(model).some((name) => name !== ragged?.name)) return [];
  const real = realProbes(samples, Number.POSITIVE_INFINITY);
  if (real.length > 0) return ofThreeLengths(real);
  if (graph.operators.has('Loop')) return [];
  if (ragged === undefined) return makeUp(model, rowShapes(model, {}, 1), ['unit'], graph);
  const lengths = ragged.ladder.length === 0 ? LENGTHS : threeOf(ragged.ladder);
  return lengths.flatMap((length) =>
    paddingProbes(model, rowShapes(model, { [ragged.name]: length }, 1), graph).slice(0, 1),
  );
}

function ofThreeLengths(probes: readonly Part[]): Part[] {
  const byLength = new Map(probes.map((probe) => [probe.request.length, probe]));
  return threeOf([...byLength.keys()].toSorted((a, b) => a - b)).map((length) => byLength.get(length) as Part);
}

/** The first, the one in the middle and the last; fewer where there are no three. */
function threeOf(sorted: readonly number[]): number[] {
  const places = [0, Math.floor((sorted.length - 1) / 2), sorted.length - 1];
  return [...new Set(places)].map((place) => sorted[place] as number);
}
