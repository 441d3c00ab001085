import type { SQSRecord } from 'aws-lambda';

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
export function createPoller({ receive, recordsAPoll, hasRoom, take, onError }: PollerOptions): Poller {
  const allReturned = Promise.withResolvers<void>();
  let wanted = 1;
  let inFlight = 0;
  let pause: NodeJS.Timeout | undefined;
  let stopping = false;

  function poll(): void {
    if (pause !== undefined) return;
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
    clearTimeout(pause);
    pause = stopping ? undefined : setTimeout(endPause, PAUSE_AFTER_ERROR_MS);
  }

  function endPause(): void {
    clearTimeout(pause);
    pause = undefined;
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
