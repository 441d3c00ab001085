import { type Failure, failure } from '../contract/failure.ts';
import type { MicroBatch } from '../plan/microBatch.ts';
import type { Invocation } from './invocation.ts';

/** The most rows of the first run of a model of which nothing was measured. */
const FIRST_ROWS = 8;

/** What is known of a run's time before it is started. */
export type Fit =
  | { readonly fits: true; readonly expectedMs: number }
  | { readonly fits: false; readonly failure: Failure<'DEADLINE'> };

/**
 * Whether a run, and the writes after it, is expected to end before the deadline, behind the runs of its model that are
 * under way. A run that does not fit is not started.
 */
export function fitTime({ model, rows, paddedRows, paddedLength }: MicroBatch, invocation: Invocation): Fit {
  const { deps, time, schedule } = invocation;
  if (time.signal.aborted) return { fits: false, failure: failure('DEADLINE', 'the deadline came before the run') };
  const expectedMs = deps.latency.predictMs(model, paddedRows, paddedLength);
  const neededMs = schedule.busyMs(model) + (expectedMs ?? 0) + deps.limits.deadlineMarginMs;
  const isSmallEnough = expectedMs !== undefined || rows <= Math.max(FIRST_ROWS, model.ladder[0] ?? 1);
  if (time.remainingMs() >= neededMs && isSmallEnough) return { fits: true, expectedMs: expectedMs ?? 0 };
  const message = `expected ${Math.ceil(neededMs)} ms for a run and its writes; less than that is left`;
  return { fits: false, failure: failure('DEADLINE', message) };
}
