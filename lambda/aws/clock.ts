import { deferred } from '../core/concurrency.ts';

/** What tells the time, and lets it pass. */
export interface Clock {
  /** Milliseconds that only go forward. */
  now(): number;
  /** Calls back once `ms` milliseconds have passed. @returns what keeps it from doing so */
  after(ms: number, callback: () => void): () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};

/**
 * What `work` gives. The work itself goes on when the signal is aborted.
 *
 * @throws what `onAbort` gives, as soon as the signal is aborted: the signal's reason, if it is left out
 */
export async function orAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  onAbort: () => unknown = () => signal?.reason,
): Promise<T> {
  if (signal === undefined) return work;
  const aborted = deferred<never>();
  const abort = (): void => aborted.reject(onAbort());
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort);
  try {
    return await Promise.race([aborted.promise, work]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Waits for the work or for the signal, whichever comes first. What becomes of work left behind is nobody's concern. */
export async function untilAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const aborted = deferred();
  const onAbort = () => aborted.resolve();
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
