import { deferred } from '../core/concurrency.ts';

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
