import { type Failure, failure } from '../contract/failure.ts';
import type { MicroBatch } from '../plan/microBatch.ts';
import type { Invocation } from './invocation.ts';

/** The most rows of the first run of a model of which nothing was measured. */
const FIRST_ROWS = 8;

/** What makes room for runs that find none. */
const MORE_TIME = 'raise the timeout, or lower the batch size or maxBatchRows';

/** What is known of a run's time before it is started. */
export type Fit =
  | { readonly fits: true; readonly expectedMs: number }
  | { readonly fits: false; readonly failure: Failure<'DEADLINE'> };

/**
 * Whether a run, and the writes after it, is expected to end before the deadline, behind the runs of its model that are
 * under way. A run that does not fit is not started.
 *
 * @param mayBeSmaller whether a run that nothing was measured of begins small. @default true
 */
export function fitTime(
  { model, rows, paddedRows, paddedLength }: MicroBatch,
  invocation: Invocation,
  mayBeSmaller = true,
): Fit {
  const { deps, time, schedule } = invocation;
  if (time.signal.aborted) {
    const message = `model '${model.name}': expected a run to start before the deadline, got none of its time; ${MORE_TIME}`;
    return { fits: false, failure: failure('DEADLINE', message) };
  }
  const expectedMs = deps.latency.predictMs(model, paddedRows, paddedLength);
  const remainingMs = time.remainingMs();
  const neededMs = schedule.busyMs(model) + (expectedMs ?? 0) + deps.limits.deadlineMarginMs;
  const isSmallEnough = expectedMs !== undefined || !mayBeSmaller || rows <= Math.max(FIRST_ROWS, model.ladder[0] ?? 1);
  if (remainingMs >= neededMs && isSmallEnough) return { fits: true, expectedMs: expectedMs ?? 0 };
  const cure = rows === 1 ? 'one row takes that long: raise the timeout, or the memory' : MORE_TIME;
  const message =
    `model '${model.name}': expected ${Math.ceil(neededMs)} ms for a run of ${rows} ${rows === 1 ? 'row' : 'rows'} and its writes, ` +
    `got ${Math.max(0, Math.floor(remainingMs))}; ${cure}`;
  return { fits: false, failure: failure('DEADLINE', message) };
}
