import { messageOf } from '../../lambda/core/contract/failure.ts';
import type { Model } from '../../lambda/core/contract/model.ts';
import { type MicroBatch, microBatchOf, type Part } from '../../lambda/core/plan/microBatch.ts';
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

const LEAST_ROUNDS = 5;
const MOST_ROUNDS = 31;
/** After so many milliseconds no further round is begun, and after so slow a run no larger one is tried. */
const ENOUGH_MS = 1_500;
const SLOW_RUN_MS = 1_000;

/**
 * Medians of runs of each row count. The counts take turns, so that what else the machine does meanwhile slows all alike.
 *
 * @param rows one after the other, again and again
 * @throws what the run of the first count throws
 */
export async function timeRuns(model: Model, rows: readonly Part[], timing: Timing): Promise<RunCost[]> {
  const sizes = await sizesThatRun(model, rows, timing);
  const startedAt = performance.now();
  for (let round = 0; round < MOST_ROUNDS; round++) {
    if (round >= LEAST_ROUNDS && performance.now() - startedAt > ENOUGH_MS) break;
    for (const { batch, times } of sizes) times.push((await model.run(stack(batch))).runMs);
  }
  return sizes.map(({ batch, times, peakRssBytes }) => {
    const medianMs = times.toSorted((a, b) => a - b)[times.length >> 1] as number;
    const { rows, paddedLength: length } = batch;
    const { threads } = timing;
    return { rows, length, threads, medianMs, rowsPerSecond: (1000 * rows) / medianMs, peakRssBytes };
  });
}

interface Size {
  readonly batch: MicroBatch;
  readonly times: number[];
  readonly peakRssBytes: number;
}

/** Runs each row count once, which is slow and not counted, up to the first that fails or takes too long. */
async function sizesThatRun(model: Model, rows: readonly Part[], timing: Timing): Promise<Size[]> {
  const { counts, warn, done, onProgress } = timing;
  const sizes: Size[] = [];
  for (const [index, count] of counts.entries()) {
    const parts = Array.from({ length: count }, (_, row) => rows[row % rows.length] as Part);
    const batch = microBatchOf(model, parts, 'end');
    let runMs: number;
    try {
      ({ runMs } = await model.run(stack(batch)));
    } catch (error) {
      if (index === 0) throw error;
      warn(`a run of ${count} rows failed, so ${sizes.at(-1)?.batch.rows} are the most: ${messageOf(error)}`);
      break;
    }
    sizes.push({ batch, times: [], peakRssBytes: process.resourceUsage().maxRSS * 1024 });
    onProgress(done + index + 1);
    if (runMs > SLOW_RUN_MS) break;
  }
  return sizes;
}
