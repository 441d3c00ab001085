import type { Problem } from '../base/refuse.ts';

const MAX_VISIBILITY_SECONDS = 43_200;

/**
 * A message that becomes visible while it is still being scored is scored, and paid for, again.
 *
 * @param least what the compute needs
 * @param sum how `least` comes about, such as `6 × 60 s timeout + 1 s window`
 */
export function visibilityProblem(visibilityTimeoutSeconds: number, least: number, sum: string): Problem {
  if (visibilityTimeoutSeconds >= least && visibilityTimeoutSeconds <= MAX_VISIBILITY_SECONDS) return undefined;
  if (visibilityTimeoutSeconds > MAX_VISIBILITY_SECONDS) {
    return (
      `visibilityTimeoutSeconds: expected at most ${MAX_VISIBILITY_SECONDS}, which is what SQS allows, ` +
      `got ${visibilityTimeoutSeconds}, lower it`
    );
  }
  return (
    `visibilityTimeoutSeconds: expected at least ${least} = ${sum}, got ${visibilityTimeoutSeconds}, ` +
    "raise the queue's visibility timeout or lower timeoutSeconds"
  );
}
