import { setTimeout as sleep } from 'node:timers/promises';
import pLimit from 'p-limit';
import { raceAbort } from '../../lambda/core/concurrency.ts';
import { messageOf } from '../../lambda/core/failure.ts';
import type { ControlEvent } from '../../lambda/jobs/finishJob.ts';
import { JOB_CODES, type JobStorage } from '../../lambda/jobs/jobFiles.ts';
import { planKey, readParts } from '../../lambda/jobs/jobObjects.ts';
import { FAILURE, type JobStart, type Part } from '../../lambda/jobs/jobTypes.ts';
import type { JobEvent, ScoreEvent } from '../../lambda/jobs/scorePart.ts';

/** The two functions that a job calls, and the bucket with its plan. */
export interface JobCalls {
  readonly score: (event: JobEvent) => Promise<unknown>;
  readonly control: (event: ControlEvent) => Promise<unknown>;
  readonly storage: JobStorage;
  /** Waits before a call is retried. @default a timer */
  readonly wait?: (ms: number, value: undefined, options: { readonly signal: AbortSignal }) => Promise<unknown>;
}

/** Outcome of an execution, as in `DescribeExecution`. */
export type Ended =
  | { readonly status: 'SUCCEEDED' /** JSON */; readonly output: string }
  | { readonly status: 'FAILED'; readonly error: string; readonly cause: string }
  | { readonly status: 'ABORTED' };

const ATTEMPTS = 3;
const FIRST_WAIT_MS = 1000;

/**
 * Runs the steps of the state machine in `infra/jobs/jobDefinition.ts`: plans the job, scores its parts with limited
 * concurrency, and finishes it. If a step fails, it explains the failure. After the signal aborts, it makes no further
 * call.
 *
 * @throws the error of the explain call
 */
export async function runJob(start: JobStart, calls: JobCalls, signal: AbortSignal): Promise<Ended> {
  try {
    await tried(() => calls.score({ action: 'plan', start }), calls, signal);
    await scoreParts(start, calls, signal);
    const output = await tried(() => calls.control({ action: 'finish', start }), calls, signal);
    return { status: 'SUCCEEDED', output: JSON.stringify(output) };
  } catch (error) {
    if (signal.aborted) return { status: 'ABORTED' };
    const explain = { action: 'explain' as const, start: { ...start, error: described(error) } };
    const { code, message } = FAILURE.parse(await tried(() => calls.control(explain), calls, signal));
    return { status: 'FAILED', error: code, cause: message };
  }
}

/** Scores all parts. The first part that fails stops the others. */
async function scoreParts(start: JobStart, calls: JobCalls, signal: AbortSignal): Promise<void> {
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const parts = await readParts(calls.storage, planKey(start.folder, start.run));
  await pLimit(start.concurrency).map(parts, (part) =>
    scorePart(start, part, calls, either).catch((error: unknown) => failed.abort(error)),
  );
  either.throwIfAborted();
}

/** Scores a part until an answer names no next piece. It skips a piece whose calls keep failing. */
async function scorePart(
  { bucket, folder }: JobStart,
  part: Part,
  calls: JobCalls,
  signal: AbortSignal,
): Promise<void> {
  let event: ScoreEvent = { action: 'score', bucket, folder, part };
  do {
    const asked = event;
    const answer = await tried(() => calls.score(asked), calls, signal).catch((error: unknown) => {
      if (signal.aborted || isPermanent(error)) throw error;
      const call = { ...asked, error: described(error) };
      return tried(() => calls.score({ action: 'skip', call }), calls, signal);
    });
    // Both actions return a ScoreEvent.
    event = answer as ScoreEvent;
  } while (event.next !== undefined);
}

/** Makes a call and retries it if it fails, unless the error says that the job cannot continue. */
async function tried(call: () => Promise<unknown>, { wait = sleep }: JobCalls, signal: AbortSignal): Promise<unknown> {
  for (let attempt = 1; ; attempt++) {
    signal.throwIfAborted();
    try {
      return await raceAbort(call(), signal);
    } catch (error) {
      if (signal.aborted || attempt === ATTEMPTS || isPermanent(error)) throw error;
    }
    await wait(FIRST_WAIT_MS * attempt, undefined, { signal });
  }
}

function isPermanent(error: unknown): boolean {
  return error instanceof Error && JOB_CODES.some((code) => code === error.name);
}

/** Formats an error as Step Functions does. */
function described(error: unknown): { readonly Error: string; readonly Cause: string } {
  const errorType = error instanceof Error ? error.name : 'Error';
  return { Error: errorType, Cause: JSON.stringify({ errorType, errorMessage: messageOf(error) }) };
}
