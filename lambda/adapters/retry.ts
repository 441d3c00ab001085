import { setTimeout as sleep } from 'node:timers/promises';

export interface RetryOptions {
  /** Most attempts in all. @default 6 */
  readonly attempts?: number;
  /** Longest pause before the second attempt; it doubles with each further one. @default 100 */
  readonly baseMs?: number;
  /** Longest pause before any attempt. @default 5000 */
  readonly capMs?: number;
  /** @default Math.random */
  readonly random?: () => number;
}

/**
 * Tries to get all of `items` done: each attempt is given what the one before left and returns what is still left.
 * Pauses with exponential backoff and full jitter, and gives up when `signal` is aborted.
 *
 * @returns what is left undone
 * @see https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export async function untilDone<T>(
  items: readonly T[],
  attempt: (left: readonly T[]) => Promise<readonly T[]>,
  signal: AbortSignal,
  { attempts = 6, baseMs = 100, capMs = 5000, random = Math.random }: RetryOptions = {},
): Promise<readonly T[]> {
  let left = items;
  for (let tried = 0; left.length > 0 && tried < attempts; tried++) {
    if (tried > 0 && !(await pause(random() * Math.min(capMs, baseMs * 2 ** (tried - 1)), signal))) break;
    if (signal.aborted) break;
    left = await attempt(left);
  }
  return left;
}

/** Whether the pause ran its course; false when `signal` cut it short. */
async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ms, undefined, { signal });
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  }
}
