import type { Cost, MeasuredRun, Model } from '../contract/model.ts';
import { type FittedCost, fitCost, type ObservedRuns } from '../plan/fitCost.ts';

/** Runs of about one size. */
export interface LatestRuns {
  latest: readonly MeasuredRun[];
  /** How many runs of the model had ended when the last of them did. */
  endedAt: number;
}

/** The costs that plans go by, of models whose runs were measured in this process. */
export interface LearntCosts {
  /** One more run of the model was observed. @returns how many that makes */
  ran(model: Model, runMs: number): number;
  /**
   * The cost to plan with; undefined while too little was measured, or where runs of as many rows and the same length may
   * still differ in size. It is the same until what was learnt differs clearly.
   *
   * @param observed the latest runs of each size
   */
  costOf(model: Model, observed: () => readonly LatestRuns[]): Cost | undefined;
}

interface Learnt {
  runs: number;
  /** Runs since what was learnt was last looked at, and what they took. */
  newRuns: number;
  newMs: number;
  fitted: FittedCost | undefined;
}

/** What was learnt is looked at again after so many runs, or after some that took so long: looking takes a millisecond. */
const RUNS_TO_LEARN = 8;
const MS_TO_LEARN = 100;
/** After so many runs of other sizes a size is not known any more: what was slow on a busy machine is tried again some day. */
const FORGOTTEN_AFTER = 4_000;
/** A change that is larger than this share of the cost, of this share of the sizes, is a clear one. */
const CLEAR_CHANGE = 0.15;
const CLEAR_SHARE = 0.25;
/** So is a largest run that is larger by so much, or smaller, as it was forgotten: it says how large the next may be. */
const CLEARLY_LARGER = 1.25;
const CLEARLY_SMALLER = 0.5;

/**
 * Milliseconds that a run takes of the pipeline outside of ONNX Runtime, however many rows it has: to its thread and back,
 * for its tensors, its report and its write. Without them runs of one row would look better than they are.
 */
const OUTSIDE_MS = 0.1;

export function createLearntCosts(): LearntCosts {
  const learnt = new WeakMap<Model, Learnt>();
  const learntOf = (model: Model): Learnt => {
    const known = learnt.get(model) ?? { runs: 0, newRuns: RUNS_TO_LEARN, newMs: 0, fitted: undefined };
    learnt.set(model, known);
    return known;
  };
  return {
    ran(model, runMs) {
      const known = learntOf(model);
      known.newRuns += 1;
      known.newMs += runMs;
      known.runs += 1;
      return known.runs;
    },
    costOf(model, observed) {
      if (!isSizedByRowsAndLength(model)) return undefined;
      const known = learntOf(model);
      if (known.newRuns >= RUNS_TO_LEARN || known.newMs >= MS_TO_LEARN) {
        known.newRuns = 0;
        known.newMs = 0;
        const runs = remembered(observed(), known.runs).flatMap(({ latest }) => typicalOf(latest) ?? []);
        if (new Set(runs.map(({ rows }) => rows)).size > 1) known.fitted = renewed(known.fitted, runs);
      }
      return known.fitted?.costOf;
    },
  };
}

/** Whether nothing else of its inputs is open: then rows and length say how large a run is. */
function isSizedByRowsAndLength({ inputs, ragged }: Model): boolean {
  return inputs.every(({ shape }, index) =>
    shape.every((dim, axis) => axis === 0 || typeof dim === 'number' || ragged?.inputs[index]?.axis === axis),
  );
}

/** The sizes that were run not long ago, and those of the fewest rows, without which there is nothing to compare. */
function remembered(sizes: readonly LatestRuns[], runs: number): readonly LatestRuns[] {
  const rowsOf = ({ latest }: LatestRuns): number => latest[0]?.rows ?? 0;
  const [, few = 1] = [...new Set(sizes.map(rowsOf))].toSorted((a, b) => a - b);
  return sizes.filter((size) => runs - size.endedAt < FORGOTTEN_AFTER || rowsOf(size) <= few);
}

/** The run in the middle by its time for an element: what it took is taken for what runs of about its size take. */
function typicalOf(latest: readonly MeasuredRun[]): ObservedRuns | undefined {
  const perElement = ({ rows, length, ms }: MeasuredRun): number => ms / (rows * length);
  const middle = latest.toSorted((a, b) => perElement(a) - perElement(b))[Math.floor((latest.length - 1) / 2)];
  return middle === undefined || middle.ms <= 0 || middle.length === 0
    ? undefined
    : { ...middle, times: latest.length };
}

function renewed(before: FittedCost | undefined, runs: readonly ObservedRuns[]): FittedCost {
  const now = withOutside(fitCost(runs));
  return before === undefined || differsClearly(before, now, runs) ? now : before;
}

function withOutside({ costOf, mostElements }: FittedCost): FittedCost {
  return { mostElements, costOf: (rows, length) => OUTSIDE_MS + costOf(rows, length) };
}

/** Only ratios between runs matter to a plan: a machine that is slower at everything changes nothing. */
function differsClearly(before: FittedCost, now: FittedCost, runs: readonly ObservedRuns[]): boolean {
  const larger = now.mostElements / before.mostElements;
  if (larger > CLEARLY_LARGER || larger < CLEARLY_SMALLER) return true;
  const ratios = runs.map(({ rows, length }) => now.costOf(rows, length) / before.costOf(rows, length));
  const middle = ratios.toSorted((a, b) => a - b)[Math.floor(ratios.length / 2)] as number;
  const changed = ratios.filter((ratio) => Math.abs(ratio / middle - 1) > CLEAR_CHANGE);
  return changed.length > CLEAR_SHARE * ratios.length;
}
