import { deferred } from '../../core/concurrency.ts';
import { type Clock, SYSTEM_CLOCK } from '../clock.ts';

export interface PollerOptions<R> {
  /** One long poll. */
  receive: () => Promise<readonly R[]>;
  /** Records that a full poll returns. */
  recordsAPoll: number;
  /** Most polls in flight. */
  mostPolls: number;
  /** Whether another poll may start, when those in flight may bring `expected` records. */
  hasRoom: (expected: number) => boolean;
  take: (records: readonly R[]) => void;
  /** Told of a failed poll; the next one starts after a pause. */
  onError: (error: unknown) => void;
  /** Milliseconds of the pause after so many failures with no success between them, at least 1. */
  pauseMs: (failures: number) => number;
  /** @default the system's */
  clock?: Clock | undefined;
}

export interface Poller {
  /** Starts as many polls as are wanted and have room. To be called whenever room was made. */
  poll(): void;
  /** Starts no more polls, and resolves when those in flight have returned. */
  stop(): Promise<void>;
}

/**
 * Keeps as many polls in flight as come back half full or fuller: an idle queue is asked by one, a long one by all. A
 * failed poll never ends the polling.
 */
export function createPoller<R>(options: PollerOptions<R>): Poller {
  const { receive, recordsAPoll, mostPolls, hasRoom, take, onError, pauseMs, clock = SYSTEM_CLOCK } = options;
  const allReturned = deferred();
  let wanted = 1;
  let inFlight = 0;
  let failures = 0;
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
      failures = 0;
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
    if (2 * received >= recordsAPoll) return Math.min(wanted + 1, mostPolls);
    return received === 0 ? Math.max(wanted - 1, 1) : wanted;
  }

  /** Polls that fail while there is a pause failed for the same reason. */
  function startPause(): void {
    if (stopping || cancelPause !== undefined) return;
    failures += 1;
    cancelPause = clock.after(pauseMs(failures), endPause);
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
