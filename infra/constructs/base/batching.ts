import type { MappingSettings } from '../../../lambda/core/limits.ts';

/** How SQS hands records over, stated once: mapping, visibility timeout and environment derive from it. */
export interface Batching extends MappingSettings {
  /** Request queues, each with its mapping. */
  readonly shards: number;
}

/** A FIFO queue hands over at most ten records and has no window. */
const DEFAULTS = { standard: { batchSize: 100, windowSeconds: 1 }, fifo: { batchSize: 10, windowSeconds: 0 } };

/** The settings that were given, and the defaults of the queue's kind for the others. */
export function withDefaults(given: Partial<Batching>): Batching {
  const { fifo = false, shards = 1 } = given;
  const { batchSize, windowSeconds } = fifo ? DEFAULTS.fifo : DEFAULTS.standard;
  return {
    fifo,
    shards,
    batchSize: given.batchSize ?? batchSize,
    windowSeconds: given.windowSeconds ?? windowSeconds,
  };
}
