import type { Clock } from '../../lambda/core/concurrency.ts';
import { MAX_EVENT_BYTES } from '../../lambda/core/limits.ts';

/** Maximum number of messages that SQS returns for one receive. */
export const MESSAGES_A_POLL = 10;
/** Bytes of an event around its records: `{"Records":[]}`, minus the comma that the last record lacks. */
export const ENVELOPE_BYTES = 13;

export type EndReason = 'full' | 'window' | 'bytes' | 'poll' | 'stop';

/** Reasons as text for users. */
export const BATCH_ENDED: Readonly<Record<EndReason, string>> = {
  full: 'the batch was full',
  window: 'its window ended',
  bytes: 'the next message did not fit',
  poll: 'there is no window',
  stop: 'gathering stopped',
};

export interface GatherLimits {
  /** Maximum number of records in an event, 1–10,000. */
  readonly batchSize: number;
  /** Maximum time from a batch's first record until the batch is closed, in whole seconds, 0–300. 0 means no wait. */
  readonly windowSeconds: number;
}

interface GatherOptions<T> extends GatherLimits {
  readonly clock: Clock;
  /** Returns the bytes that a record adds to an event, with its comma. */
  readonly bytesOf: (record: T) => number;
}

export interface Gathered<T> {
  readonly records: T[];
  readonly endedBecause: EndReason;
}

/**
 * Gathers records into batches as the event source mapping does, for the running mapping and for the simulation of
 * `profile`. A batch is closed when it is full, when the window since its first record has ended, or when the next
 * record would exceed the event limit of 6 MB.
 *
 * @see
 * https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventsourcemapping.html#invocation-eventsourcemapping-batching
 */
export function createGather<T>(options: GatherOptions<T>, handOver: (batch: Gathered<T>) => void) {
  const { batchSize, windowSeconds, clock, bytesOf } = options;
  const windowMs = windowSeconds * 1000;
  let open: T[] = [];
  let openBytes = ENVELOPE_BYTES;
  let cancelWindow = () => {};

  function close(endedBecause: EndReason): void {
    if (open.length === 0) return;
    cancelWindow();
    const records = open;
    open = [];
    openBytes = ENVELOPE_BYTES;
    handOver({ records, endedBecause });
  }

  function addOne(record: T): void {
    const bytes = bytesOf(record);
    if (openBytes + bytes > MAX_EVENT_BYTES) close('bytes');
    if (open.length === 0 && windowMs > 0) cancelWindow = clock.after(windowMs, () => close('window'));
    open.push(record);
    openBytes += bytes;
    if (open.length === batchSize) close('full');
  }

  return {
    /** Adds the records of one poll, and hands over each batch that becomes closed. */
    add(records: readonly T[]): void {
      for (const record of records) addOne(record);
      if (windowMs === 0) close('poll');
    },
    /** Hands over the open batch if it is not empty. */
    flush: () => close('stop'),
    size: () => open.length,
  };
}
