import { deferred } from '../core/concurrency.ts';

/**
 * What `work` gives. The work itself goes on when the signal is aborted.
 *
 * @throws what `onAbort` gives, as soon as the signal is aborted
 */
export async function orAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  onAbort: () => Error,
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
