import type { Batching } from '../base/batching.ts';

/**
 * A heartbeat extends what is held once a third of its time is over, and has a third for a call's three tries of 7 s each.
 */
const LEAST_SECONDS = 60;

/**
 * Records stay hidden by heartbeats; without one they still do while they are gathered and scored. So long, too, it takes
 * for the records of a worker that was lost to come back.
 */
export function leastWorkerVisibility(
  timeoutSeconds: number,
  { windowSeconds }: Batching,
): { readonly seconds: number; readonly sum: string } {
  const seconds = timeoutSeconds + windowSeconds;
  if (seconds >= LEAST_SECONDS) return { seconds, sum: `${timeoutSeconds} s timeout + ${windowSeconds} s window` };
  return { seconds: LEAST_SECONDS, sum: '3 × 20 s, in which a heartbeat is tried three times' };
}
