import type { ScoringLimits } from '../../lambda/core/scoreRecords.ts';
import { SETTINGS } from '../../lambda/settings.ts';

/** Of files: no queue and no store sets others. */
export const OFFLINE_LIMITS: ScoringLimits = {
  maxRequestRows: SETTINGS.maxRequestRows.most,
  maxRequestsPerMessage: SETTINGS.maxRequestsPerMessage.most,
  maxAnswerCharacters: SETTINGS.maxAnswerCharacters.most,
  maxBatchElements: SETTINGS.maxBatchElements.default,
  deadlineMarginMs: 0,
};
