import { deferred } from '../../lambda/core/concurrency.ts';

/** `promise`, unless `signal` aborts first: then it rejects with the signal's reason. Leaves no listener behind. */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await promise;
  const { promise: aborted, reject } = deferred<never>();
  const onAbort = (): void => reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** When a caller stops waiting. */
export interface Deadline {
  /** Aborts at the deadline, or with the caller's signal and its reason. */
  readonly signal: AbortSignal;
  /** Whether `error` says that the time ran out. */
  isTimeout(error: unknown): boolean;
  /** Ends the timer. */
  clear(): void;
}

/** Node fires a longer timer at once. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * Unlike `AbortSignal.timeout`, it keeps the process alive: someone is waiting.
 *
 * @throws RangeError when `timeoutMs` is not a time that a timer can take
 */
export function startDeadline(timeoutMs: number, signal: AbortSignal | undefined): Deadline {
  if (!(timeoutMs >= 1 && timeoutMs <= LONGEST_TIMEOUT_MS)) {
    throw new RangeError(`timeoutMs: expected 1 to ${LONGEST_TIMEOUT_MS} milliseconds, got ${timeoutMs}`);
  }
  const time = new AbortController();
  const timer = setTimeout(() => time.abort(), timeoutMs);
  return {
    signal: signal === undefined ? time.signal : AbortSignal.any([signal, time.signal]),
    isTimeout: (error) => time.signal.aborted && error === time.signal.reason,
    clear: () => clearTimeout(timer),
  };
}
