/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html */
export const MAX_BATCH_ENTRIES = 10;
/** Bodies and attributes of one message, and of one batch call together. */
export const MAX_MESSAGE_BYTES = 1_048_576;

/** Packs entries in order into calls of at most 10 entries and 1 MiB. */
export function packCalls<T extends { readonly bytes: number }>(entries: readonly T[]): T[][] {
  const calls: T[][] = [];
  let bytes = 0;
  for (const entry of entries) {
    const last = calls.at(-1);
    if (last === undefined || last.length === MAX_BATCH_ENTRIES || bytes + entry.bytes > MAX_MESSAGE_BYTES) {
      calls.push([entry]);
      bytes = entry.bytes;
    } else {
      last.push(entry);
      bytes += entry.bytes;
    }
  }
  return calls;
}
