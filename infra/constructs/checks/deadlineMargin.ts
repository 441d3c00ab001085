import type { Problem } from '../base/refuse.ts';

/** What the runtime keeps free before the deadline unless it is told otherwise. */
const DEFAULT_MARGIN_MS = 2_000;

/** Nothing is started within the margin before the deadline: a timeout within it would start nothing at all. */
export function deadlineMarginProblem(timeoutSeconds: number, deadlineMarginMs = DEFAULT_MARGIN_MS): Problem {
  if (timeoutSeconds * 1000 > deadlineMarginMs) return undefined;
  return (
    `timeoutSeconds: expected more than the deadline margin of ${deadlineMarginMs} ms, ` +
    `got ${timeoutSeconds} s = ${timeoutSeconds * 1000} ms, raise it or lower deadlineMarginMs`
  );
}
