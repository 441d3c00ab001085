import type { SQSRecord } from 'aws-lambda';
import { type Clock, SYSTEM_CLOCK } from './clock.ts';

export interface PollerOptions {
  /** One long poll. */
  receive: () => Promise<SQSRecord[]>;
  /** Records that a full poll returns. */
  recordsAPoll: number;
  /** Whether another poll may start, when those in flight may bring `expected` records. */
  hasRoom: (expected: number) => boolean;
  take: (records: readonly SQSRecord[]) => void;
  /** Told of a failed poll; the next one starts after a pause. */
  onError: (error: unknown) => void;
  /** @default the system's */
  clock?: Clock;
}

export interface Poller {
  /** Starts as many polls as are wanted and have room. To be called whenever room was made. */
  poll(): void;
  /** Starts no more polls, and resolves when those in flight have returned. */
  stop(): Promise<void>;
}

const MOST_POLLS = 8;
const PAUSE_AFTER_ERROR_MS = 1000;

/**
 * Keeps as many polls in flight as come back full: an idle queue is asked by one, a long one by all.
 *
 * No poll is ever aborted: a local server would give the next message to the dead one.
 */
export function createPoller(options: PollerOptions): Poller {
  const { receive, recordsAPoll, hasRoom, take, onError, clock = SYSTEM_CLOCK } = options;
  const allReturned = Promise.withResolvers<void>();
  let wanted = 1;
  let inFlight = 0;
  let cancelPause: (() => void) | undefined;
  let stopping = false;

  function poll(): void {
    if (cancelPause !== undefined) return;
    while (!stopping && inFlight < wanted && hasRoom(inFlight * recordsAPoll)) void pollOnce();
    if (stopping && inFlight === 0) allReturned.resolve();
  }

  async function pollOnce(): Promise<void> {
    inFlight += 1;
    try {
      const records = await receive();
      wanted = wantedAfter(records.length);
      take(records);
    } catch (error) {
      wanted = 1;
      startPause();
      onError(error);
    } finally {
      inFlight -= 1;
      poll();
    }
  }

  function wantedAfter(received: number): number {
    if (received === recordsAPoll) return Math.min(wanted + 1, MOST_POLLS);
    return received === 0 ? Math.max(wanted - 1, 1) : wanted;
  }

  function startPause(): void {
    cancelPause?.();
    cancelPause = stopping ? undefined : clock.after(PAUSE_AFTER_ERROR_MS, endPause);
  }

  function endPause(): void {
    cancelPause?.();
    cancelPause = undefined;
    poll();
  }

  return {
    poll,
    stop: () => {
      stopping = true;
      endPause();
      return allReturned.promise;
    },
  };
}
