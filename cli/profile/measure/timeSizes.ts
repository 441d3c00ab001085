import type { MicroBatch } from '../../../lambda/core/plan/microBatch.ts';
import type { Size, Timed, TimeTask, Told } from './messages.ts';
import { openForTask, unchecked } from './openForTask.ts';
import { batchOf, runMsOf } from './runOf.ts';

/** Of each size. */
const LEAST_RUNS = 7;
const MOST_RUNS = 501;
/** A median is stable when its standard error is below this share of it. */
const STABLE = 0.02;
const TELL_EVERY_MS = 100;

interface Timing {
  readonly size: Size;
  readonly batch: MicroBatch;
  readonly times: number[];
}

/**
 * Times runs of each size until their medians are stable or the time is over. The sizes take turns, so that what else
 * the machine does meanwhile slows all alike; up and down, so that none always follows a far larger one, which leaves
 * nothing of it in the caches.
 */
export async function timeSizes(task: TimeTask, tell: (told: Told) => Promise<void>): Promise<void> {
  const { sizes, threads, enoughMs, limits } = task;
  const { model, rows: maker } = await openForTask(task, tell, { adapt: unchecked(limits.ladder, threads) });
  const timings: Timing[] = [];
  for (const size of sizes) {
    const batch = batchOf(model, await maker.of(size.length), size.rows);
    // The first run of a shape is slow, and not counted.
    await runMsOf(model, batch);
    timings.push({ size, batch, times: [] });
  }
  const startedAt = performance.now();
  const isOver = (): boolean => performance.now() - startedAt > enoughMs;
  let toldAt = startedAt;
  for (let round = 0; round < MOST_RUNS; round++) {
    const unstable = timings.filter(({ times }) => !isStable(times));
    if (unstable.length === 0) break;
    for (const { batch, times } of round % 2 === 0 ? unstable : unstable.toReversed()) {
      if (round > 0 && isOver()) break;
      times.push(await runMsOf(model, batch));
    }
    if (isOver()) break;
    if (performance.now() - toldAt < TELL_EVERY_MS) continue;
    toldAt = performance.now();
    const share = Math.max((toldAt - startedAt) / enoughMs, 1 - unstable.length / timings.length);
    await tell({ kind: 'progress', share });
  }
  await tell({ kind: 'timed', timed: timings.map(timedOf) });
}

function timedOf({ size, times }: Timing): Timed {
  const sorted = times.toSorted((a, b) => a - b);
  const medianMs = quantile(sorted, 0.5);
  const spread = (quantile(sorted, 0.9) - quantile(sorted, 0.1)) / medianMs;
  return { ...size, medianMs, spread, isStable: isStable(times) };
}

/** Of normally distributed times: their standard deviation is 0.741 of the middle half, a median's error 1.253 of it. */
function isStable(times: readonly number[]): boolean {
  if (times.length < LEAST_RUNS) return false;
  const sorted = times.toSorted((a, b) => a - b);
  const error = (1.253 * 0.741 * (quantile(sorted, 0.75) - quantile(sorted, 0.25))) / Math.sqrt(times.length);
  return error < STABLE * quantile(sorted, 0.5);
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.round(share * (sorted.length - 1))] as number;
}
