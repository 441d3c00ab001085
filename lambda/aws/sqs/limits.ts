import { packBatchRequests as pack } from '../packBatchRequests.ts';

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html */
export const MAX_BATCH_ENTRIES = 10;
/** Bodies and attributes of one message, and of one batch request together. */
export const MAX_MESSAGE_BYTES = 1_048_576;

/** Packs entries, in order, into batch requests of at most 10 entries and 1 MiB, or as many bytes as a queue takes. */
export function packBatchRequests<T extends { readonly bytes: number }>(
  entries: readonly T[],
  maxBytes = MAX_MESSAGE_BYTES,
): T[][] {
  return pack(entries, { maxEntries: MAX_BATCH_ENTRIES, maxBytes });
}
