/** One equation: the values, each times its unknown, should come to 1. */
export interface Equation {
  readonly values: readonly number[];
  /** How much it counts. */
  readonly weight: number;
}

const MOST_SWEEPS = 300;
/** Of a typical equation: what a sweep changes less than that is there. */
const CLOSE_ENOUGH = 1e-5;

/**
 * The unknowns, none below 0, with which the equations come nearest to 1 in weighted least squares.
 *
 * As an equation is what its right side was divided by, differences are shares of it: one that is too large by far, such
 * as a run that something else held up, differs by 1 at most.
 *
 * @param doubts by unknown: the share of a typical equation that it must explain to be more than 0
 */
export function nonNegativeLeastSquares(equations: readonly Equation[], doubts: readonly number[]): number[] {
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
  for (let sweep = 0, change = 1; sweep < MOST_SWEEPS && change > CLOSE_ENOUGH; sweep++) {
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
