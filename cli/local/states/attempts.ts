import type { Catcher, Retrier } from '../../../infra/jobs/jobDefinition.ts';
import type { Clock } from '../../../lambda/aws/clock.ts';
import { means, StateError } from './stateError.ts';

export interface Patience {
  readonly clock: Clock;
  /** 0 to 1, for waits with jitter. */
  readonly random: () => number;
  readonly signal: AbortSignal;
}

interface Tried {
  readonly Retry?: readonly Retrier[];
  readonly Catch?: readonly Catcher[];
}

export type Outcome = { readonly result: unknown } | { readonly caught: Catcher; readonly error: StateError };

/**
 * Does what a state does until it is done, its retriers have no attempts left, or none means the error; then a catcher may
 * mean it. Each retrier counts for itself.
 *
 * @throws StateError that nothing caught
 */
export async function attempt(state: Tried, act: () => Promise<unknown>, patience: Patience): Promise<Outcome> {
  const tries = new Map<Retrier, number>();
  for (;;) {
    try {
      return { result: await act() };
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      const retrier = state.Retry?.find(({ ErrorEquals }) => means(ErrorEquals, error));
      const before = (retrier && tries.get(retrier)) ?? 0;
      if (retrier === undefined || before >= retrier.MaxAttempts) return caughtBy(state, error);
      tries.set(retrier, before + 1);
      await pause(waitSeconds(retrier, before, patience.random) * 1000, patience);
    }
  }
}

function caughtBy({ Catch: catchers = [] }: Tried, error: StateError): Outcome {
  const caught = catchers.find(({ ErrorEquals }) => means(ErrorEquals, error));
  if (caught === undefined) throw error;
  return { caught, error };
}

/** @see https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html */
function waitSeconds(retrier: Retrier, before: number, random: () => number): number {
  const { IntervalSeconds = 1, BackoffRate = 2, MaxDelaySeconds = Number.POSITIVE_INFINITY, JitterStrategy } = retrier;
  const seconds = Math.min(IntervalSeconds * BackoffRate ** before, MaxDelaySeconds);
  return JitterStrategy === 'FULL' ? seconds * random() : seconds;
}

/** @throws the signal's reason when it aborts before */
export async function pause(ms: number, { clock, signal }: Pick<Patience, 'clock' | 'signal'>): Promise<void> {
  const waited = Promise.withResolvers<void>();
  const cancel = clock.after(ms, waited.resolve);
  try {
    await untilAborted(waited.promise, signal);
  } finally {
    cancel();
  }
}

/** What is under way goes on when the signal aborts, but is waited for no longer. @throws the signal's reason */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // It may fail when nobody waits for it any more.
  work.catch(() => {});
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
