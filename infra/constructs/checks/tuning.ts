import { outside, RANGES, RANGES_BY_MEMORY } from '../../../lambda/core/limits.ts';
import type { Problem } from '../base/refuse.ts';
import type { TuningNumbers } from '../environment/tuning.ts';

/** What the host would refuse when it starts, or could never work with. */
export function tuningProblems(tuning: TuningNumbers, timeoutSeconds: number): Problem[] {
  return [
    outside('maxBatchRows', tuning.maxBatchRows, RANGES.maxBatchRows),
    outside('maxBatchElements', tuning.maxBatchElements, RANGES.maxBatchElements),
    outside('maxRequestRows', tuning.maxRequestRows, RANGES.maxRequestRows),
    outside('maxRequestsPerMessage', tuning.maxRequestsPerMessage, RANGES.maxRequestsPerMessage),
    outside('maxAnswerCharacters', tuning.maxAnswerCharacters, RANGES_BY_MEMORY.maxAnswerCharacters),
    outside('deadlineMarginMs', tuning.deadlineMarginMs, RANGES.deadlineMarginMs),
    outside('checkPercent', tuning.checkPercent, RANGES.checkPercent),
    outside('maxPayloadBytes', tuning.maxPayloadBytes, RANGES_BY_MEMORY.maxPayloadBytes),
    withinMargin(timeoutSeconds, tuning.deadlineMarginMs),
  ];
}

/** Nothing is started within the margin before the deadline, so within a shorter timeout nothing would ever start. */
function withinMargin(timeoutSeconds: number, deadlineMarginMs = RANGES.deadlineMarginMs.default): Problem {
  if (timeoutSeconds * 1000 > deadlineMarginMs) return undefined;
  return (
    `timeoutSeconds: expected more than the deadline margin of ${deadlineMarginMs} ms, ` +
    `got ${timeoutSeconds} s = ${timeoutSeconds * 1000} ms; raise it or lower deadlineMarginMs`
  );
}
