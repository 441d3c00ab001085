import type { MappingSettings } from '../../../lambda/limits/eventSourceMapping.ts';

/** The one statement of how SQS hands records over; mapping, visibility timeout and environment derive from it. */
export type Batching = MappingSettings;

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
