import { outside, type Problem } from '../base/refuse.ts';
import type { Tuning } from '../environment/tuning.ts';

/** What the runtime keeps free before the deadline unless it is told otherwise. */
const DEFAULT_MARGIN_MS = 2_000;

/** The limits of the host's own configuration: it would refuse the rest when it starts. */
export function tuningProblems(tuning: Tuning, timeoutSeconds: number): Problem[] {
  return [
    outside('maxBatchRows', tuning.maxBatchRows, 1, 65_536),
    outside('maxBatchElements', tuning.maxBatchElements, 1, 1_073_741_824),
    outside('maxRequestRows', tuning.maxRequestRows, 1, 1_000_000),
    outside('deadlineMarginMs', tuning.deadlineMarginMs, 1, 60_000),
    outside('maxPayloadBytes', tuning.maxPayloadBytes, 1, 1_073_741_824),
    withinMargin(timeoutSeconds, tuning.deadlineMarginMs),
  ];
}

/** Nothing is started within the margin before the deadline: a timeout within it would start nothing at all. */
function withinMargin(timeoutSeconds: number, deadlineMarginMs = DEFAULT_MARGIN_MS): Problem {
  if (timeoutSeconds * 1000 > deadlineMarginMs) return undefined;
  return (
    `timeoutSeconds: expected more than the deadline margin of ${deadlineMarginMs} ms, ` +
    `got ${timeoutSeconds} s = ${timeoutSeconds * 1000} ms, raise it or lower deadlineMarginMs`
  );
}
