import { RANGES, RANGES_BY_MEMORY } from '../../lambda/core/limits.ts';
import type { ScoringLimits } from '../../lambda/core/scoreRecords.ts';

/** Of files: no queue and no store sets others. */
export const OFFLINE_LIMITS: ScoringLimits = {
  maxRequestRows: RANGES.maxRequestRows.most,
  maxRequestsPerMessage: RANGES.maxRequestsPerMessage.most,
  maxAnswerCharacters: RANGES_BY_MEMORY.maxAnswerCharacters.most,
  maxBatchElements: RANGES.maxBatchElements.default,
  deadlineMarginMs: 0,
};
