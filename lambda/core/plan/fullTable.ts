import type { MeasuredRun } from '../contract/model.ts';

/**
 * Measured runs with those that were too large to be measured: at each length, rows beyond the most that were run there
 * take as long in proportion.
 *
 * @param runs of some row counts at each of some lengths, once each
 */
export function fullTable(runs: readonly MeasuredRun[]): MeasuredRun[] {
  const counts = [...new Set(runs.map(({ rows }) => rows))];
  return [...Map.groupBy(runs, ({ length }) => length)].flatMap(([length, ofLength]) => {
    const largest = ofLength.reduce((most, run) => (run.rows > most.rows ? run : most));
    const beyond = counts.filter((rows) => rows > largest.rows);
    return [...ofLength, ...beyond.map((rows) => ({ rows, length, ms: (largest.ms * rows) / largest.rows }))];
  });
}
