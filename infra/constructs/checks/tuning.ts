import { outside, type Problem } from '../base/refuse.ts';
import type { Tuning } from '../environment.ts';

/** The limits of the host's own configuration: it would refuse the rest when it starts. */
export function tuningProblems(tuning: Tuning = {}): Problem[] {
  return [
    outside('maxBatchRows', tuning.maxBatchRows, 1, 65_536),
    outside('maxBatchElements', tuning.maxBatchElements, 1, 1_073_741_824),
    outside('maxRequestRows', tuning.maxRequestRows, 1, 1_000_000),
    outside('deadlineMarginMs', tuning.deadlineMarginMs, 1, 60_000),
    outside('maxPayloadBytes', tuning.maxPayloadBytes, 1, 1_073_741_824),
  ];
}
