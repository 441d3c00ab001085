import type { SQSRecord } from 'aws-lambda';
import { type Clock, SYSTEM_CLOCK } from '../../lambda/aws/clock.ts';
import { MAX_EVENT_BYTES } from '../../lambda/core/limits.ts';
import { ENVELOPE_BYTES, recordBytes } from './sqsEvent.ts';

/**
 * Why a batch was closed. `poll`: there is no window to wait for the next poll. Its window was cut short by `update`, other
 * settings, or `stop`.
 */
export type ClosedBecause = 'full' | 'window' | 'bytes' | 'poll' | 'update' | 'stop';

export interface Batch {
  records: SQSRecord[];
  closedBecause: ClosedBecause;
}

export interface Gather {
  /** Takes what one poll returned, and hands over each batch that this closes. */
  add(records: readonly SQSRecord[]): void;
  /** Hands over the open batch, if it holds anything. @param because @default 'stop' */
  flush(because?: 'update' | 'stop'): void;
  /** Records in the open batch. */
  size(): number;
}

/** How batches are gathered. */
export interface GatherLimits {
  /** Records that fill a batch. */
  batchSize: number;
  /** Longest time from a batch's first record to its hand-over, in seconds; 0 keeps no record waiting. */
  windowSeconds: number;
}

export interface GatherOptions extends GatherLimits {
  /** @default the system's */
  clock?: Clock;
}

/**
 * Gathers records into batches as the event source mapping does: a batch is closed when it is full, when the
 * window since its first record has ended, or when the next record would overflow the event's 6 MB.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventsourcemapping.html#invocation-eventsourcemapping-batching
 */
export function createGather(options: GatherOptions, handOver: (batch: Batch) => void): Gather {
  const { batchSize, windowSeconds, clock = SYSTEM_CLOCK } = options;
  const windowMs = windowSeconds * 1000;
  let open: SQSRecord[] = [];
  let openBytes = ENVELOPE_BYTES;
  let cancelWindow = () => {};

  function close(closedBecause: ClosedBecause): void {
    if (open.length === 0) return;
    cancelWindow();
    const records = open;
    open = [];
    openBytes = ENVELOPE_BYTES;
    handOver({ records, closedBecause });
  }

  function addOne(record: SQSRecord): void {
    const bytes = recordBytes(record);
    if (openBytes + bytes > MAX_EVENT_BYTES) close('bytes');
    if (open.length === 0 && windowMs > 0) cancelWindow = clock.after(windowMs, () => close('window'));
    open.push(record);
    openBytes += bytes;
    if (open.length === batchSize) close('full');
  }

  return {
    add: (records) => {
      for (const record of records) addOne(record);
      if (windowMs === 0) close('poll');
    },
    flush: (because = 'stop') => close(because),
    size: () => open.length,
  };
}
