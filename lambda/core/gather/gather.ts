/** What waits for a dispatch. */
export interface Pending {
  readonly records: number;
  /** Of their bodies. */
  readonly bytes: number;
  /** Milliseconds since the first of them came. */
  readonly oldestAgeMs: number;
}

export interface GatherLimits {
  /** Records that fill a batch, at least 1. */
  readonly batchSize: number;
  /** Bytes of bodies that fill a batch. */
  readonly batchBytes: number;
  /** Longest wait of a record for others. 0: it waits for none. */
  readonly windowMs: number;
}

/** Dispatch, and why; or wait, and for how long if nothing else comes. */
export type GatherDecision =
  | { readonly dispatch: true; readonly because: 'full' | 'bytes' | 'window' }
  | { readonly dispatch: false; readonly waitMs: number };

/**
 * Whether what is pending makes a batch: size or window, whichever comes first. A lone record is never kept for longer
 * than the window, and with a window of 0 not at all. Nothing pending waits for ever.
 */
export function gather({ records, bytes, oldestAgeMs }: Pending, limits: GatherLimits): GatherDecision {
  const { batchSize, batchBytes, windowMs } = limits;
  if (records === 0) return { dispatch: false, waitMs: Number.POSITIVE_INFINITY };
  if (records >= batchSize) return { dispatch: true, because: 'full' };
  if (bytes >= batchBytes) return { dispatch: true, because: 'bytes' };
  if (oldestAgeMs >= windowMs) return { dispatch: true, because: 'window' };
  return { dispatch: false, waitMs: windowMs - oldestAgeMs };
}
