import type { Cost, MeasuredRun } from '../contract/model.ts';

/**
 * The fixed cost of a run, counted in elements: entering the runtime, the kernel launches, the weights read from memory.
 * Small enough that a transformer's runs are cut by length, large enough that nothing is run row by row.
 */
export const OVERHEAD_ELEMENTS = 512;

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
    between(rows, paddedRows, (row) =>
      between(lengths, paddedLength, (length) => (table[row] as number[])[length] as number),
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
    `expected one measurement in milliseconds of ${rows} rows of length ${length}, got ${found.length === 1 ? ms : found.length}; ` +
      'measure every combination of rows and lengths once',
  );
}

/** The value at `size` on the line through the two nearest `sizes`; in proportion to size beyond them. */
function between(sizes: readonly number[], size: number, valueAt: (index: number) => number): number {
  const above = sizes.findIndex((known) => known >= size);
  if (above < 0) return (valueAt(sizes.length - 1) * size) / (sizes.at(-1) as number);
  const upper = sizes[above] as number;
  if (above === 0 || upper === size) return valueAt(above);
  const lower = sizes[above - 1] as number;
  const share = (size - lower) / (upper - lower);
  return valueAt(above - 1) * (1 - share) + valueAt(above) * share;
}
