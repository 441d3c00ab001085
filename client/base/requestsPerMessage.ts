/** How many requests share a message: so many, or as many as fit into 64 KiB. */
export type RequestsPerMessage = number | 'fill';

/** What a deployment takes by default: BATCHSCORE_MAX_REQUESTS_PER_MESSAGE. */
export const MOST_REQUESTS_PER_MESSAGE = 10_000;

export const EXPECTED_PER_MESSAGE = `expected 'fill' or a whole number from 1 to ${MOST_REQUESTS_PER_MESSAGE}`;

export function isRequestsPerMessage(value: unknown): value is RequestsPerMessage {
  if (value === 'fill') return true;
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MOST_REQUESTS_PER_MESSAGE;
}
