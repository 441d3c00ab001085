import { packBatchRequests as pack } from '../packBatchRequests.ts';

/** @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html */
export const MAX_ITEM_BYTES = 409_600;

const KIBIBYTE = 1024;
const MAX_BATCH_ITEMS = 25;
/** 16 MiB, less what a batch request holds besides its items. */
const MAX_BATCH_BYTES = 16 * KIBIBYTE * KIBIBYTE - 4 * KIBIBYTE;

/** Packs items, in order, into batch requests of at most 25 items and 16 MiB. `bytes`: an item's size as sent. */
export function packBatchRequests<T extends { readonly bytes: number }>(items: readonly T[]): T[][] {
  return pack(items, { maxEntries: MAX_BATCH_ITEMS, maxBytes: MAX_BATCH_BYTES });
}
