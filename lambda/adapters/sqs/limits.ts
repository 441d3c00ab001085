import { packCalls as pack } from '../packCalls.ts';

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html */
export const MAX_BATCH_ENTRIES = 10;
/** Bodies and attributes of one message, and of one batch call together. */
export const MAX_MESSAGE_BYTES = 1_048_576;

/** Packs entries in order into calls of at most 10 entries and 1 MiB. */
export function packCalls<T extends { readonly bytes: number }>(entries: readonly T[]): T[][] {
  return pack(entries, { maxEntries: MAX_BATCH_ENTRIES, maxBytes: MAX_MESSAGE_BYTES });
}
