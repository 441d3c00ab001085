/** The one statement of how SQS hands records over; mapping, visibility timeout and environment derive from it. */
export interface Batching {
  readonly fifo: boolean;
  /** Most records of one call: 1 to 10,000, on a FIFO queue to 10. */
  readonly batchSize: number;
  /** Longest wait for a batch to fill, in whole seconds: 0 to 300, on a FIFO queue 0. */
  readonly windowSeconds: number;
}

/** A FIFO queue takes ten at most and has no window. */
const DEFAULTS = { standard: { batchSize: 100, windowSeconds: 1 }, fifo: { batchSize: 10, windowSeconds: 0 } };

export function withDefaults(given: Partial<Batching>): Batching {
  const { fifo = false } = given;
  const { batchSize, windowSeconds } = fifo ? DEFAULTS.fifo : DEFAULTS.standard;
  return {
    fifo,
    batchSize: given.batchSize ?? batchSize,
    windowSeconds: given.windowSeconds ?? windowSeconds,
  };
}
