import { messageOf } from '../../lambda/core/contract/failure.ts';
import type { Model } from '../../lambda/core/contract/model.ts';
import { microBatchOf, type Part } from '../../lambda/core/plan/microBatch.ts';
import { stack } from '../../lambda/core/stack/stack.ts';
import type { RunCost } from './settings/runTimes.ts';

export interface Timing {
  readonly counts: readonly number[];
  readonly threads: number;
  readonly warn: (message: string) => void;
  /** Sizes that were timed before. */
  readonly done: number;
  readonly onProgress: (done: number) => void;
}

const LEAST_RUNS = 3;
const MOST_RUNS = 31;
/** Runs of one size together, and one run after which no larger one is tried. */
const MOST_MS = 200;
const SLOW_RUN_MS = 1_000;

/**
 * Medians of runs of each row count.
 *
 * @param rows one after the other, again and again
 * @throws what the run of the first count throws
 */
export async function timeRuns(model: Model, rows: readonly Part[], timing: Timing): Promise<RunCost[]> {
  const { counts, threads, warn, onProgress } = timing;
  const table: RunCost[] = [];
  for (const [index, count] of counts.entries()) {
    const parts = Array.from({ length: count }, (_, row) => rows[row % rows.length] as Part);
    const batch = microBatchOf(model, parts, 'end');
    let medianMs: number;
    try {
      medianMs = await medianOfRuns(async () => (await model.run(stack(batch))).runMs);
    } catch (error) {
      if (index === 0) throw error;
      warn(`a run of ${count} rows failed, so ${table.at(-1)?.rows} are the most: ${messageOf(error)}`);
      break;
    }
    table.push({
      rows: count,
      length: batch.paddedLength,
      threads,
      medianMs,
      rowsPerSecond: (1000 * count) / medianMs,
      peakRssBytes: process.resourceUsage().maxRSS * 1024,
    });
    onProgress(timing.done + index + 1);
    if (medianMs > SLOW_RUN_MS) break;
  }
  return table;
}

/** The first run of a shape is slow, and not counted. */
async function medianOfRuns(run: () => Promise<number>): Promise<number> {
  await run();
  const times: number[] = [];
  for (let sum = 0; times.length < MOST_RUNS && (times.length < LEAST_RUNS || sum < MOST_MS); ) {
    const ms = await run();
    sum += ms;
    times.push(ms);
  }
  return times.toSorted((a, b) => a - b)[times.length >> 1] as number;
}
