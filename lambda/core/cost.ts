import type { Cost, MeasuredRun, Model } from './model.ts';

/**
 * Estimates what runs of each model take, from what this process has measured, its start included. One estimate serves
 * the plan and the deadline.
 *
 * @see docs/adr/0060-one-estimate-of-what-runs-take.md
 */
export interface CostEstimator {
  record(model: Model, rows: number, length: number, runMs: number): void;
  /** Returns the milliseconds that a run takes at the pace of the latest ones; undefined while nothing was measured. */
  predictMs(model: Model, rows: number, length: number): number | undefined;
  /**
   * Returns the cost of a run, for the plan; undefined if fewer than two row counts were measured, or if another axis
   * of the inputs is open, so that rows and length do not give the size. It stays the same until measurements clearly
   * differ.
   */
  costOf(model: Model): Cost | undefined;
}

/**
 * Parts of the time of a run, by its rows and length: the run itself, each element, each step along the length that all
 * rows take together, as in a recurrent layer, and each pair of elements, as in attention.
 */
const TERMS: readonly Cost[] = [
  () => 1,
  (rows, length) => rows * length,
  (_, length) => length,
  (rows, length) => rows * length * length,
];

/** Least gain of a run of twice as many rows, as a share of its cost. Less is within the error of the fit. */
const MIN_GAIN = 0.04;

/**
 * Milliseconds that a run takes of the pipeline outside of ONNX Runtime, however many rows it has: to its thread and
 * back, for its tensors, its report and its write. Without them runs of one row would look better than they are.
 */
const OUTSIDE_MS = 0.1;

/** Extra cost of elements beyond twice the largest run that was measured, as a factor: sizes grow by doubling. */
const CAUTION = 2;

/** Weight of a size that was measured at start, in runs. */
const START_RUNS = 8;
/** Number of latest runs that count most. */
const MEMORY_RUNS = 256;
/** Number of runs after which the cost is fitted again. */
const RUNS_TO_FIT = 16;
/** Change of the ratios between runs that makes a plan change. */
const CLEAR_CHANGE = 0.25;
/** Number of latest runs that tell how fast the machine is now. */
const PACE_RUNS = 7;

type Amounts = readonly [run: number, element: number, step: number, pair: number];

/** Amounts of the terms, and the largest run that they were fitted to. */
interface Fit {
  readonly amounts: Amounts;
  readonly largest: Size;
}

type Size = Omit<MeasuredRun, 'ms'>;

interface Estimate {
  /** Runs at start. They are never forgotten: they tell of sizes that are run seldom. */
  readonly start: Equations;
  readonly startAmounts: Amounts;
  readonly latest: Equations;
  readonly smallest: { rows: number; length: number };
  readonly most: { rows: number; length: number };
  largest: Size | undefined;
  fit: Fit | undefined;
  /** The fit that plans go by, and the cost that it gives. */
  planned: { readonly fit: Fit; readonly cost: Cost } | undefined;
  /** The latest runs: they tell how fast the machine is now. */
  recent: readonly MeasuredRun[];
  newRuns: number;
  /** True once a run has ended, or if runs were measured at start. The very first run has extra costs. */
  isWarm: boolean;
}

export function createCostEstimator(): CostEstimator {
  const models = new WeakMap<Model, Estimate>();
  const estimateOf = (model: Model): Estimate => {
    const known = models.get(model) ?? newEstimate(model);
    models.set(model, known);
    return known;
  };
  return {
    record(model, rows, length, runMs) {
      // An invalid time would spoil the fit of all sizes.
      if (!(runMs > 0 && runMs < Number.POSITIVE_INFINITY)) return;
      const estimate = estimateOf(model);
      if (estimate.isWarm) observe(estimate, { rows, length: Math.max(1, length), ms: runMs });
      estimate.isWarm = true;
    },
    predictMs(model, rows, length) {
      const { fit, recent } = estimateOf(model);
      return fit && paceOf(recent, fit) * longestMs(fit, rows, Math.max(1, length));
    },
    costOf: (model) => (isSizedByRowsAndLength(model) ? estimateOf(model).planned?.cost : undefined),
  };
}

/** Returns true if no other axis of the inputs is open. */
function isSizedByRowsAndLength({ inputs, ragged }: Model): boolean {
  return inputs.every(({ shape }, index) =>
    shape.every((dim, axis) => axis === 0 || typeof dim === 'number' || ragged?.inputs[index]?.axis === axis),
  );
}

function newEstimate({ measured = [] }: Model): Estimate {
  const runs = measured.filter(({ length, ms }) => length > 0 && ms > 0);
  const start = newEquations();
  for (const run of runs) add(start, run, START_RUNS);
  const estimate: Estimate = {
    start,
    startAmounts: nonNegativeLeastSquares(start),
    latest: newEquations(),
    smallest: { rows: Number.POSITIVE_INFINITY, length: Number.POSITIVE_INFINITY },
    most: { rows: 0, length: 0 },
    largest: undefined,
    fit: undefined,
    planned: undefined,
    recent: [],
    newRuns: 0,
    isWarm: measured.length > 0,
  };
  for (const run of runs) widen(estimate, run);
  fitAgain(estimate);
  return estimate;
}

function observe(estimate: Estimate, run: MeasuredRun): void {
  estimate.recent = [...estimate.recent, run].slice(-PACE_RUNS);
  scale(estimate.latest, 1 - 1 / MEMORY_RUNS);
  add(estimate.latest, run, 1);
  estimate.newRuns += 1;
  if (widen(estimate, run) || estimate.newRuns >= RUNS_TO_FIT) fitAgain(estimate);
}

/** @returns true if the run is larger than all before */
function widen(estimate: Estimate, { rows, length }: MeasuredRun): boolean {
  const { smallest, most, largest } = estimate;
  smallest.rows = Math.min(smallest.rows, rows);
  smallest.length = Math.min(smallest.length, length);
  most.rows = Math.max(most.rows, rows);
  most.length = Math.max(most.length, length);
  if (largest !== undefined && rows * length <= largest.rows * largest.length) return false;
  estimate.largest = { rows, length };
  return true;
}

/** Fits the amounts. Plans keep their cost until it clearly changes. */
function fitAgain(estimate: Estimate): void {
  const { largest, smallest, most, planned } = estimate;
  if (largest === undefined) return;
  const fit = { amounts: nonNegativeLeastSquares(equationsOf(estimate), estimate.fit?.amounts), largest };
  estimate.fit = fit;
  estimate.newRuns = 0;
  if (smallest.rows === most.rows || (planned && !differClearly(planned.fit, fit, estimate))) return;
  const cost: Cost = (rows, length) => (OUTSIDE_MS + msBy(fit, rows, length)) * (1 + MIN_GAIN * Math.log2(rows));
  estimate.planned = { fit, cost };
}

/**
 * Adds the runs at start to the latest ones, scaled to what they would take now. Otherwise sizes that were not run
 * since would look dear or cheap beside those that were.
 */
function equationsOf({ start, startAmounts, latest }: Estimate): Equations {
  const all = newEquations();
  addAll(all, start, timesAsLong(latest, startAmounts));
  addAll(all, latest, 1);
  return all;
}

/** Only ratios between runs matter to a plan: a machine that is slower at everything changes nothing. */
function differClearly(before: Fit, now: Fit, { smallest, most }: Estimate): boolean {
  if (elementsOf(now.largest) > (1 + CLEAR_CHANGE) * elementsOf(before.largest)) return true;
  const ratios = [smallest.rows, Math.sqrt(smallest.rows * most.rows), most.rows].flatMap((rows) =>
    [smallest.length, most.length].map((length) => msBy(now, rows, length) / msBy(before, rows, length)),
  );
  return Math.max(...ratios) > (1 + CLEAR_CHANGE) * Math.min(...ratios);
}

function elementsOf({ rows, length }: Size): number {
  return rows * length;
}

/** Returns the milliseconds of a run by a fit. They never fall with rows or length. */
function msBy({ amounts, largest }: Fit, rows: number, length: number): number {
  const [run, element, step, pair] = amounts;
  const ofElements = (element + pair * length) * rows * length;
  const unknown = Math.max(0, 1 - (2 * elementsOf(largest)) / (rows * length));
  return run + step * length + ofElements * (1 + CAUTION * unknown);
}

/** Returns the median time of runs as a multiple of what the fit says: one run that was held up changes nothing. */
function paceOf(runs: readonly MeasuredRun[], fit: Fit): number {
  const ratios = runs.map(({ rows, length, ms }) => ms / msBy(fit, rows, length)).toSorted((a, b) => a - b);
  return ratios[Math.floor((ratios.length - 1) / 2)] ?? 1;
}

/** Returns the milliseconds of a run, beyond the largest that was measured at least in proportion. */
function longestMs(fit: Fit, rows: number, length: number): number {
  const { largest } = fit;
  const times = (rows * length) / elementsOf(largest);
  const ms = msBy(fit, rows, length);
  if (times <= 1) return ms;
  return Math.max(ms, times * msBy(fit, largest.rows, largest.length) * (times > 2 ? CAUTION : 1));
}

/**
 * Sums over runs. Each run is an equation: its terms, each times its amount and divided by the milliseconds of the run,
 * come to 1. Differences are shares, so a run that took five times too long differs by 0.8 only.
 */
interface Equations {
  /** Sums of the products of two terms, row-major. */
  readonly products: Float64Array;
  readonly values: Float64Array;
}

function newEquations(): Equations {
  return { products: new Float64Array(TERMS.length ** 2), values: new Float64Array(TERMS.length) };
}

function add({ products, values }: Equations, { rows, length, ms }: MeasuredRun, weight: number): void {
  const terms = TERMS.map((term) => term(rows, length) / ms);
  for (const [k, one] of terms.entries()) {
    values[k] = (values[k] as number) + weight * one;
    for (const [m, other] of terms.entries()) {
      const at = k * TERMS.length + m;
      products[at] = (products[at] as number) + weight * one * other;
    }
  }
}

function scale({ products, values }: Equations, weight: number): void {
  for (const sums of [products, values])
    for (let at = 0; at < sums.length; at++) sums[at] = (sums[at] as number) * weight;
}

/** Adds equations of runs as if each had taken `times` as long. */
function addAll(to: Equations, { products, values }: Equations, times: number): void {
  for (const [at, sum] of products.entries()) to.products[at] = (to.products[at] as number) + sum / times ** 2;
  for (const [at, sum] of values.entries()) to.values[at] = (to.values[at] as number) + sum / times;
}

/** Returns the time of runs as a multiple of what the amounts say; 1 if there are no runs or no amounts. */
function timesAsLong({ products, values }: Equations, amounts: Amounts): number {
  let square = 0;
  let sum = 0;
  for (const [k, amount] of amounts.entries()) {
    sum += amount * (values[k] as number);
    for (const [m, other] of amounts.entries()) square += amount * other * (products[k * TERMS.length + m] as number);
  }
  return sum > 0 ? sum / square : 1;
}

const MAX_SWEEPS = 300;
/** Sweeps end once no amount changes by more than this share. */
const CLOSE_ENOUGH = 1e-4;

/**
 * Returns the amounts, none below 0, that solve the equations in least squares, by coordinate descent.
 *
 * @param before amounts to begin with. Amounts that no equation determines stay
 */
function nonNegativeLeastSquares({ products, values }: Equations, before: Amounts = [0, 0, 0, 0]): Amounts {
  const amounts: [...Amounts] = [...before];
  for (let sweep = 0, change = 1; sweep < MAX_SWEEPS && change > CLOSE_ENOUGH; sweep++) {
    change = 0;
    for (const k of TERMS.keys()) {
      const own = products[k * TERMS.length + k] as number;
      if (own === 0) continue;
      let left = values[k] as number;
      for (const m of TERMS.keys())
        if (m !== k) left -= (products[k * TERMS.length + m] as number) * (amounts[m] as number);
      const amount = Math.max(0, left / own);
      const known = amounts[k] as number;
      if (amount !== known) change = Math.max(change, Math.abs(amount - known) / Math.max(amount, known));
      amounts[k] = amount;
    }
  }
  return amounts;
}

/**
 * The fixed cost of a run, counted in elements: entering the runtime, the kernel launches, the weights read from
 * memory. Small enough that a transformer's runs are cut by length, large enough that nothing is run row by row.
 */
const OVERHEAD_ELEMENTS = 512;

/** The cost of a model that was not measured: overhead and padded elements. */
export function affineCost(elementsPerRow: (paddedLength: number) => number): Cost {
  return (paddedRows, paddedLength) => OVERHEAD_ELEMENTS + paddedRows * elementsPerRow(paddedLength);
}
