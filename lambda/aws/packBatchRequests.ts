/** What one batch request of a service may hold. */
export interface BatchRequestLimits {
  readonly maxEntries: number;
  /** Bytes of all entries together. */
  readonly maxBytes: number;
}

/** Packs entries, in order, into as few batch requests as hold them. An entry that is too large gets one to itself. */
export function packBatchRequests<T extends { readonly bytes: number }>(
  entries: readonly T[],
  { maxEntries, maxBytes }: BatchRequestLimits,
): T[][] {
  const batches: T[][] = [];
  let bytes = 0;
  for (const entry of entries) {
    const last = batches.at(-1);
    if (last === undefined || last.length === maxEntries || bytes + entry.bytes > maxBytes) {
      batches.push([entry]);
      bytes = entry.bytes;
    } else {
      last.push(entry);
      bytes += entry.bytes;
    }
  }
  return batches;
}
