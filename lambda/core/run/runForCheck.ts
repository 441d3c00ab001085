import { isFailure } from '../contract/failure.ts';
import type { MicroBatch } from '../plan/microBatch.ts';
import type { Invocation } from './invocation.ts';
import { type Ran, runMicroBatch } from './runMicroBatch.ts';
import { startStopwatch } from './stopwatch.ts';

/** A check takes no more of the time that is left, so that answers never wait for the deadline because of it. */
const SHARE_OF_TIME_LEFT = 1 / 8;

export interface CheckRuns {
  /** What a run gave, or undefined where there was no time for it or it failed: that says nothing of its rows. */
  run(batch: MicroBatch): Promise<Ran | undefined>;
  /** How many runs there were, and how many milliseconds they took. */
  readonly runs: number;
  readonly spentMs: number;
}

/**
 * Runs whose outputs are compared, and not written.
 *
 * @param card where they all run: no two cards are compared, as they may round differently
 */
export function createCheckRuns(invocation: Invocation, card = 0): CheckRuns {
  // A run that hangs leaves half of the time to the answers that wait behind it.
  const leavingTime: Invocation = { ...invocation, hasMoreToDo: true };
  let runs = 0;
  let spentMs = 0;
  return {
    async run(batch) {
      const expectedMs = expectedCheckMs(batch, invocation);
      if (!fits(expectedMs, batch, invocation)) return undefined;
      runs += 1;
      const stopwatch = startStopwatch(invocation.deps.now);
      const ran = await runMicroBatch(batch, expectedMs, leavingTime, card);
      spentMs += isFailure(ran) ? stopwatch.lap() : ran.runMs;
      return isFailure(ran) ? undefined : ran;
    },
    get runs() {
      return runs;
    },
    get spentMs() {
      return spentMs;
    },
  };
}

/** Milliseconds that a run is expected to take; 0 while nothing was measured. */
export function expectedCheckMs({ model, paddedRows, paddedLength }: MicroBatch, { deps }: Invocation): number {
  return deps.latency.predictMs(model, paddedRows, paddedLength) ?? 0;
}

function fits(expectedMs: number, { model }: MicroBatch, { deps, time, schedule }: Invocation): boolean {
  if (time.signal.aborted) return false;
  const leftMs = time.remainingMs();
  const neededMs = schedule.busyMs(model) + expectedMs;
  return neededMs <= leftMs * SHARE_OF_TIME_LEFT && leftMs >= 2 * deps.limits.deadlineMarginMs;
}
