export interface CallLimits {
  readonly maxEntries: number;
  /** What the entries of one call may hold together. */
  readonly maxBytes: number;
}

/** Packs entries in order into as few calls as hold them. An entry larger than a call gets a call to itself. */
export function packCalls<T extends { readonly bytes: number }>(
  entries: readonly T[],
  { maxEntries, maxBytes }: CallLimits,
): T[][] {
  const calls: T[][] = [];
  let bytes = 0;
  for (const entry of entries) {
    const last = calls.at(-1);
    if (last === undefined || last.length === maxEntries || bytes + entry.bytes > maxBytes) {
      calls.push([entry]);
      bytes = entry.bytes;
    } else {
      last.push(entry);
      bytes += entry.bytes;
    }
  }
  return calls;
}
