import type { Messages, RunCost } from '../../../../cli/profile/costs.ts';

/** Requests of 512 bytes, one to a message, each with a result of 450 bytes in a message of its own. */
export const SINGLE: Messages = { requestsPerMessage: 1, messageBytes: 512, resultBytes: 450 };

/** A table of runs of 1, 2, 4, … 256 rows of one length on one thread. */
export function tableOf(msOf: (rows: number) => number, peakRssBytes = 150e6): RunCost[] {
  return Array.from({ length: 9 }, (_, power) => 2 ** power).map((rows) => ({
    rows,
    length: 1,
    threads: 1,
    medianMs: msOf(rows),
    rowsPerSecond: (1000 * rows) / msOf(rows),
    peakRssBytes,
  }));
}
