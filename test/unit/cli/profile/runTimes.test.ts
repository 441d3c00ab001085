import { describe, expect, it } from '@jest/globals';
import { peakBytes, type RunCost, runTimes } from '../../../../cli/profile/costs.ts';

const run = (rows: number, threads: number, medianMs: number): RunCost => ({
  rows,
  length: 1,
  threads,
  medianMs,
  rowsPerSecond: (1000 * rows) / medianMs,
  peakRssBytes: rows * 1e6,
});

describe('runTimes', () => {
  it('takes the fewest rows that cost nearly as little a row as any', () => {
    // 1.000, 0.625, 0.525, 0.520 ms a row.
    const table = [run(1, 1, 1), run(4, 1, 2.5), run(20, 1, 10.5), run(40, 1, 20.8)];
    const { rowsPerRun, gain } = runTimes(table, 1, 1);
    expect([rowsPerRun, gain]).toEqual([20, 20 / 10.5]);
  });

  it('cuts rows into full runs and one of the rest', () => {
    const { msOf, rowsPerRun } = runTimes([run(1, 1, 1), run(4, 1, 2)], 1, 1);
    expect(rowsPerRun).toBe(4);
    // Of two rows, between one and four: 1 + 1/3.
    expect([1, 4, 5, 8].map(msOf)).toEqual([1, 2, 3, 4]);
    expect(msOf(2)).toBeCloseTo(4 / 3, 10);
  });

  it.each([
    [0.5, 20],
    [1, 10],
    [2, 6],
    [4, 6],
  ])('with %d vCPUs takes the number of threads that is fastest there', (vcpus, ms) => {
    // Two threads on one core take 12 ms, on half of one 24 ms.
    const table = [run(1, 1, 10), run(1, 2, 6)];
    expect(runTimes(table, vcpus, 1).msOf(1)).toBe(ms);
  });
});

it('the peak is the most of all runs up to so many rows', () => {
  const table = [run(1, 1, 1), run(8, 1, 1), run(64, 1, 1), { ...run(4, 2, 1), peakRssBytes: 9e6 }];
  expect([1, 8, 64].map((rows) => peakBytes(table, rows))).toEqual([1e6, 9e6, 64e6]);
});
