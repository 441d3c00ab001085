import { setTimeout } from 'node:timers/promises';

export interface RetryOptions {
  /** Most attempts in all. @default 6 */
  readonly attempts?: number;
  /** Longest pause before the second attempt; it doubles with each further one. @default 100 */
  readonly baseMs?: number;
  /** Longest pause before any attempt. @default 5000 */
  readonly capMs?: number;
  /** @default Math.random */
  readonly random?: () => number;
  /** Lets time pass; rejects once `signal` is aborted. @default a timer */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/**
 * Tries to get all of `items` done: each attempt is given what the one before left, and its number from 1 on, and returns
 * what is still left.
 * Pauses with exponential backoff and full jitter, and gives up when `signal` is aborted.
 *
 * @returns what is left undone
 * @see https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export async function untilDone<T>(
  items: readonly T[],
  attempt: (left: readonly T[], number: number) => Promise<readonly T[]>,
  signal: AbortSignal,
  { attempts = 6, baseMs = 100, capMs = 5000, random = Math.random, sleep = timer }: RetryOptions = {},
): Promise<readonly T[]> {
  const pause = (ms: number) => ranItsCourse(sleep(ms, signal), signal);
  let left = items;
  for (let tried = 0; left.length > 0 && tried < attempts; tried++) {
    if (tried > 0 && !(await pause(random() * Math.min(capMs, baseMs * 2 ** (tried - 1))))) break;
    if (signal.aborted) break;
    left = await attempt(left, tried + 1);
  }
  return left;
}

async function timer(ms: number, signal: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal });
}

/** False when `signal` cut the pause short. */
async function ranItsCourse(pause: Promise<void>, signal: AbortSignal): Promise<boolean> {
  try {
    await pause;
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  }
}
