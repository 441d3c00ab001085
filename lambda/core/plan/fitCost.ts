import type { Cost, MeasuredRun } from '../contract/model.ts';
import { nonNegativeLeastSquares } from './leastSquares.ts';

/** What runs of about one size took, and how many of them that is known from: one alone counts for less. */
export interface ObservedRuns extends MeasuredRun {
  readonly times: number;
}

/** A cost that was learnt: milliseconds of runs of any size, also of those that were never tried. */
export interface FittedCost {
  readonly costOf: Cost;
  /** Rows times length of the largest run that it was learnt from. */
  readonly mostElements: number;
}

/** What adds to the milliseconds of a run, by its rows and length. */
interface Term {
  at(rows: number, length: number): number;
  /** What it must explain to be taken, as a share of the time: of two that explain the same it is the likelier one. */
  readonly doubt: number;
}

/** In the order in which `costOf` reads their amounts. */
const TERMS: readonly Term[] = [
  { doubt: 0.002, at: () => 1 },
  { doubt: 0.002, at: (rows, length) => rows * length },
  // Rows that are not alone: some kernels take another way for one.
  { doubt: 0.02, at: (rows) => (rows > 1 ? 1 : 0) },
  { doubt: 0.02, at: (rows, length) => (rows > 1 ? rows * length : 0) },
  // Steps along the length that all rows take together, as in a recurrent layer.
  { doubt: 0.01, at: (_, length) => length },
  { doubt: 0.01, at: (rows) => rows },
  // Attention.
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
 * it better, more for each row, each step, each pair of elements, and for what is beyond a cache. None of them is less
 * than nothing, so cost grows with rows and length, and a further row costs no less in a run that is larger or longer,
 * save for the second. Few and noisy observations do no harm: what they do not show is not taken.
 *
 * @param runs at least one
 * @see docs/adr/0029-costs-that-are-learnt.md
 */
export function fitCost(runs: readonly ObservedRuns[]): FittedCost {
  const largest = runs.reduce((most, run) => (elementsOf(run) > elementsOf(most) ? run : most));
  const mostElements = elementsOf(largest);
  const limits = powersOfTwo(Math.min(...runs.map(elementsOf)), mostElements);
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
  const perElement = (known(2 * rows, length) - known(rows, length)) / mostElements;
  const unknown = CAUTIONS.map((caution, doublings) => ({
    elements: mostElements * 2 ** doublings,
    amount: caution * perElement,
  }));
  return { mostElements, costOf: costWith(amounts, [...knees, ...unknown]) };
}

function elementsOf({ rows, length }: MeasuredRun): number {
  return rows * length;
}

/** Those from `least` up to, not including, `most`. */
function powersOfTwo(least: number, most: number): number[] {
  const powers: number[] = [];
  for (let power = 2 ** Math.ceil(Math.log2(least)); power < most; power *= 2) powers.push(power);
  return powers;
}

function beyond(elements: number): Term {
  return { doubt: DOUBT_OF_KNEES, at: (rows, length) => Math.max(0, rows * length - elements) };
}

/** @param amounts of the terms @param knees ascending */
function costWith(amounts: readonly number[], knees: readonly Knee[]): Cost {
  const [run, element, company, elementInCompany, step, row, pair] = amounts as Amounts;
  const bends = knees.filter(({ amount }) => amount > 0);
  return (rows, length) => {
    const elements = rows * length;
    let ms = run + step * length + row * rows + (element + pair * length) * elements;
    if (rows > 1) ms += company + elementInCompany * elements;
    for (const knee of bends) {
      if (knee.elements >= elements) break;
      ms += knee.amount * (elements - knee.elements);
    }
    return ms;
  };
}

type Amounts = readonly [number, number, number, number, number, number, number];
