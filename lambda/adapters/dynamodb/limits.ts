import { packCalls as pack } from '../packCalls.ts';

/** @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html */
export const MAX_ITEM_BYTES = 409_600;

const KIBIBYTE = 1024;
const MAX_BATCH_ITEMS = 25;
/** 16 MiB, less what the request holds besides its items. */
const MAX_BATCH_BYTES = 16 * KIBIBYTE * KIBIBYTE - 4 * KIBIBYTE;

/** Packs items in order into calls of at most 25 items and 16 MiB. `bytes`: as the request is sent. */
export function packCalls<T extends { readonly bytes: number }>(items: readonly T[]): T[][] {
  return pack(items, { maxEntries: MAX_BATCH_ITEMS, maxBytes: MAX_BATCH_BYTES });
}
