import { writeSync } from 'node:fs';
import type { AggregatedResult, Reporter } from '@jest/reporters';

/** Closes a run with one plain line that any CI can read: `N passed, N failed[, N skipped]`. */
export default class SummaryReporter implements Pick<Reporter, 'onRunComplete'> {
  onRunComplete(_contexts: unknown, results: AggregatedResult): void {
    const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
    const skipped = results.numPendingTests + results.numTodoTests;
    const line = `${results.numPassedTests} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`;
    // Jest prints its own summary after every other reporter is done: only the exit comes later.
    process.once('exit', () => writeSync(1, line));
  }
}
