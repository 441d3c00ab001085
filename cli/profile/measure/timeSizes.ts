import { messageOf } from '../../../lambda/core/failure.ts';
import type { MicroBatch } from '../../../lambda/core/microBatch.ts';
import type { Size, Timed, TimeTask, Told } from './messages.ts';
import { openForTask, unchecked } from './openForTask.ts';
import { batchOf, runMsOf } from './runOf.ts';

/** Of each size that is not slow. */
const LEAST_RUNS = 7;
/** Are there more, every other one is let go of. */
const MOST_RUNS = 501;
/** Of slow ones, which have no more than their part of the time. */
const LEAST_SLOW_RUNS = 3;
/** What is left to do when the time is over may take so much of it again, for each size. */
const OVERTIME = 0.02;
/** A median is stable when its standard error is below this share of it. */
const STABLE = 0.02;
/** The first run of a shape is slow, and not counted where it is short. */
const SHORT_RUN_MS = 50;
const TELL_EVERY_MS = 100;
/** Whether medians are stable is looked at so often. */
const LOOK_EVERY_MS = 50;

interface Timing {
  readonly size: Size;
  readonly batch: MicroBatch;
  times: number[];
}

/**
 * Times runs of each size until their medians are stable or the time is over. The sizes take turns, so that what else
 * the machine does meanwhile slows all alike; up and down, so that none always follows a far larger one, which leaves
 * nothing of it in the caches. Slow ones have no more than their part of the time, so that it is not all theirs.
 */
export async function timeSizes(task: TimeTask, tell: (told: Told) => Promise<void>): Promise<void> {
  const { sizes, threads, enoughMs, limits } = task;
  const { model, rows: maker } = await openForTask(task, tell, { adapt: unchecked(limits.ladder, threads) });
  const startedAt = performance.now();
  let toldAt = startedAt;
  const timings: Timing[] = [];
  const tellProgress = async (): Promise<void> => {
    const now = performance.now();
    if (now - toldAt < TELL_EVERY_MS) return;
    toldAt = now;
    const done = timings.filter(({ times }) => isStable(times)).length / sizes.length;
    await tell({ kind: 'progress', share: Math.min(1, Math.max(done, (now - startedAt) / enoughMs)) });
  };
  for (const size of sizes) {
    try {
      const batch = batchOf(model, await maker.of(size.length), size.rows);
      const firstMs = await runMsOf(model, batch);
      timings.push({ size, batch, times: firstMs < SHORT_RUN_MS ? [] : [firstMs] });
    } catch (error) {
      // It ran in a process of its own: here runs of other sizes have taken memory before.
      await tell({ kind: 'failed', size, reason: messageOf(error).replace(/\s+/g, ' ').trim() });
    }
    await tellProgress();
  }
  // In each round those whose turn it is by their part of the time until now: so every median is of the whole time, in
  // which a shared machine is now faster, now slower.
  const isDue = ({ times }: Timing): boolean => {
    const elapsedMs = performance.now() - startedAt;
    const spentMs = times.reduce((sum, ms) => sum + ms, 0);
    if (times.length < LEAST_SLOW_RUNS && elapsedMs < enoughMs) return true;
    if (elapsedMs < enoughMs) return spentMs <= elapsedMs / sizes.length;
    return (
      times.length === 0 || (times.length < LEAST_RUNS && (LEAST_RUNS * spentMs) / times.length < OVERTIME * enoughMs)
    );
  };
  const isOver = (): boolean => {
    const isLate = performance.now() - startedAt >= enoughMs;
    return isLate ? !timings.some(isDue) : timings.every(({ times }) => isStable(times));
  };
  for (let round = 0, lookedAt = 0; timings.length > 0; round++) {
    for (const timing of round % 2 === 0 ? timings : timings.toReversed()) {
      if (!isDue(timing)) continue;
      timing.times.push(await runMsOf(model, timing.batch));
      if (timing.times.length > MOST_RUNS) timing.times = timing.times.filter((_, index) => index % 2 === 1);
      await tellProgress();
    }
    const now = performance.now();
    if (now - lookedAt < LOOK_EVERY_MS && now - startedAt < enoughMs) continue;
    lookedAt = now;
    if (isOver()) break;
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
