import { plural } from './failure.ts';
import type { Cost, MeasuredRun } from './model.ts';

/**
 * The fixed cost of a run, counted in elements: entering the runtime, the kernel launches, the weights read from memory.
 * Small enough that a transformer's runs are cut by length, large enough that nothing is run row by row.
 */
const OVERHEAD_ELEMENTS = 512;

/** The cost of a model that was not measured: overhead and padded elements. */
export function affineCost(elementsPerRow: (paddedLength: number) => number): Cost {
  return (paddedRows, paddedLength) => OVERHEAD_ELEMENTS + paddedRows * elementsPerRow(paddedLength);
}

/**
 * Measured milliseconds: bilinear between the rows and lengths that were measured, and in proportion beyond them.
 *
 * @param runs every combination of some row counts and some lengths, once each
 * @throws Error when a combination is missing or a measurement is not a positive number
 */
export function tableCost(runs: readonly MeasuredRun[]): Cost {
  const rows = distinct(runs.map((run) => run.rows));
  const lengths = distinct(runs.map((run) => run.length));
  const table = rows.map((row) => lengths.map((length) => measurementOf(runs, row, length)));
  return (paddedRows, paddedLength) =>
    interpolate(rows, paddedRows, (row) =>
      interpolate(lengths, paddedLength, (length) => (table[row] as number[])[length] as number),
    );
}

function distinct(sizes: readonly number[]): number[] {
  return [...new Set(sizes)].toSorted((a, b) => a - b);
}

function measurementOf(runs: readonly MeasuredRun[], rows: number, length: number): number {
  const found = runs.filter((run) => run.rows === rows && run.length === length);
  const ms = found[0]?.ms;
  if (found.length === 1 && ms !== undefined && ms > 0 && Number.isFinite(ms)) return ms;
  throw new Error(
    `expected one measurement in milliseconds of ${plural(rows, 'row')} of length ${length}, got ${found.length === 1 ? ms : found.length}; ` +
      'measure every combination of rows and lengths once',
  );
}

/** The value at `size` on the line through the two nearest `sizes`; in proportion to size beyond them. */
export function interpolate(sizes: readonly number[], size: number, valueAt: (index: number) => number): number {
  const above = sizes.findIndex((known) => known >= size);
  if (above < 0) return (valueAt(sizes.length - 1) * size) / (sizes.at(-1) as number);
  const upper = sizes[above] as number;
  if (above === 0 || upper === size) return valueAt(above);
  const lower = sizes[above - 1] as number;
  const share = (size - lower) / (upper - lower);
  return valueAt(above - 1) * (1 - share) + valueAt(above) * share;
}

/**
 * Measured runs with those that were too large to be measured: at each length, rows beyond the most that were run there
 * take as long in proportion.
 *
 * @param runs of some row counts at each of some lengths, once each
 */
export function extrapolate(runs: readonly MeasuredRun[]): MeasuredRun[] {
  const counts = [...new Set(runs.map(({ rows }) => rows))];
  return [...Map.groupBy(runs, ({ length }) => length)].flatMap(([length, ofLength]) => {
    const largest = ofLength.reduce((max, run) => (run.rows > max.rows ? run : max));
    const beyond = counts.filter((rows) => rows > largest.rows);
    return [...ofLength, ...beyond.map((rows) => ({ rows, length, ms: (largest.ms * rows) / largest.rows }))];
  });
}

/** What runs of about one size took, and how many of them that is known from: one alone counts for less. */
export interface ObservedRuns extends MeasuredRun {
  readonly times: number;
}

/** A cost that was learnt: milliseconds of runs of any size, also of those that were never tried. */
export interface FittedCost {
  readonly costOf: Cost;
  /** Rows times length of the largest run that it was learnt from. */
  readonly maxElements: number;
}

/** What adds to the milliseconds of a run, by its rows and length. */
interface Term {
  at(rows: number, length: number): number;
  /** What it must explain to be taken, as a share of the time: of two that explain the same it is the likelier one. */
  readonly doubt: number;
}

/**
 * In the order in which `costWith` reads their amounts: the run itself, each element, steps along the length that all rows
 * take together, as in a recurrent layer, and pairs of elements, as in attention.
 */
const TERMS: readonly Term[] = [
  { doubt: 0.002, at: () => 1 },
  { doubt: 0.002, at: (rows, length) => rows * length },
  { doubt: 0.01, at: (_, length) => length },
  { doubt: 0.01, at: (rows, length) => rows * length * length },
];

/** More for each element beyond so many: what no longer fits into a cache. */
interface Knee {
  readonly elements: number;
  readonly amount: number;
}

const DOUBT_OF_KNEES = 0.02;

/**
 * Elements of runs larger than any that is known are taken to cost so much more, and so much more again beyond twice that,
 * four times, and so on: runs up to twice as large are tried if they gain a little, larger ones if they gain much.
 */
const CAUTIONS = [0.05, ...new Array<number>(10).fill(0.3)];

/**
 * The cost that agrees best with what was observed: an overhead and something for each element, and, where that explains
 * it better, more for each step, each pair of elements, and for what is beyond a cache. None of them is less than
 * nothing, so cost grows with rows and length. Few and noisy observations do no harm: what they do not show is not taken.
 * With these terms the partition of an encoder's texts takes at most 2 % longer than the best there is; without those for
 * a cache it takes up to 14 % longer, and without that for steps a recurrent model's takes 20 % longer.
 *
 * @param runs at least one
 * @see docs/adr/0029-costs-that-are-learnt.md
 */
export function fitCost(runs: readonly ObservedRuns[]): FittedCost {
  const largest = runs.reduce((max, run) => (elementsOf(run) > elementsOf(max) ? run : max));
  const maxElements = elementsOf(largest);
  const limits = powersOfTwo(Math.min(...runs.map(elementsOf)), maxElements);
  const terms = [...TERMS, ...limits.map(beyond)];
  const amounts = nonNegativeLeastSquares(
    runs.map(({ rows, length, ms, times }) => ({
      values: terms.map(({ at }) => at(rows, length) / ms),
      weight: times / (times + 2),
    })),
    terms.map(({ doubt }) => doubt),
  );
  const knees = limits.map((elements, index) => ({ elements, amount: amounts[TERMS.length + index] as number }));
  const known = costWith(amounts, knees);
  const { rows, length } = largest;
  const perElement = (known(2 * rows, length) - known(rows, length)) / maxElements;
  const unknown = CAUTIONS.map((caution, doublings) => ({
    elements: maxElements * 2 ** doublings,
    amount: caution * perElement,
  }));
  return { maxElements, costOf: costWith(amounts, [...knees, ...unknown]) };
}

function elementsOf({ rows, length }: MeasuredRun): number {
  return rows * length;
}

function powersOfTwo(min: number, max: number): number[] {
  const powers: number[] = [];
  for (let power = 2 ** Math.ceil(Math.log2(min)); power < max; power *= 2) powers.push(power);
  return powers;
}

function beyond(elements: number): Term {
  return { doubt: DOUBT_OF_KNEES, at: (rows, length) => Math.max(0, rows * length - elements) };
}

/** @param amounts of the terms @param knees ascending */
function costWith(amounts: readonly number[], knees: readonly Knee[]): Cost {
  const [run, element, step, pair] = amounts as readonly [number, number, number, number];
  const bends = knees.filter(({ amount }) => amount > 0);
  return (rows, length) => {
    const elements = rows * length;
    let ms = run + step * length + (element + pair * length) * elements;
    for (const knee of bends) {
      if (knee.elements >= elements) break;
      ms += knee.amount * (elements - knee.elements);
    }
    return ms;
  };
}

/** One equation: the values, each times its unknown, should come to 1. */
interface Equation {
  readonly values: readonly number[];
  readonly weight: number;
}

const MAX_SWEEPS = 300;
/** Sweeping ends once a sweep changes less than this share of a typical equation. */
const CLOSE_ENOUGH = 1e-5;

/**
 * The unknowns, none below 0, with which the equations come nearest to 1 in weighted least squares.
 *
 * As an equation is what its right side was divided by, differences are shares of it: one that is too large by far, such
 * as a run that something else held up, differs by 1 at most.
 *
 * @param doubts by unknown: the share of a typical equation that it must explain to be more than 0
 */
function nonNegativeLeastSquares(equations: readonly Equation[], doubts: readonly number[]): number[] {
  const total = equations.reduce((sum, { weight }) => sum + weight, 0);
  const means = doubts.map((_, k) => mean(equations, total, ({ values }) => values[k] as number));
  // Unknowns in units of what each explains of a typical equation, so that doubts compare.
  const scaled = equations.map(({ values, weight }) => ({
    weight,
    values: values.map((value, k) => (means[k] === 0 ? 0 : value / (means[k] as number))),
  }));
  const products = doubts.map((_, k) =>
    doubts.map((_, m) => mean(scaled, total, ({ values }) => (values[k] as number) * (values[m] as number))),
  );
  const shares = new Array<number>(doubts.length).fill(0);
  for (let sweep = 0, change = 1; sweep < MAX_SWEEPS && change > CLOSE_ENOUGH; sweep++) {
    change = 0;
    for (const [k, row] of products.entries()) {
      const own = row[k] as number;
      if (own === 0) continue;
      // The mean of a scaled unknown's values is 1.
      let left = 1 - (doubts[k] as number);
      for (let m = 0; m < row.length; m++) if (m !== k) left -= (row[m] as number) * (shares[m] as number);
      const share = Math.max(0, left / own);
      change = Math.max(change, Math.abs(share - (shares[k] as number)));
      shares[k] = share;
    }
  }
  return shares.map((share, k) => (means[k] === 0 ? 0 : share / (means[k] as number)));
}

function mean(equations: readonly Equation[], total: number, termOf: (equation: Equation) => number): number {
  return equations.reduce((sum, equation) => sum + equation.weight * termOf(equation), 0) / total;
}
