import { waitOrAbort } from '../core/concurrency.ts';
import { messageOf } from '../core/failure.ts';
import type { TimeLimit } from '../core/record.ts';
import type { OpenedModels } from './frames.ts';
import type { ScorerChild } from './scorerChild.ts';

/** Pauses before another attempt to start a process. */
const RETRY_MS = { first: 200, longest: 5_000 };

/** Start of a process in a lane: the `first` one, the `next` after a lost one, or one `beside` a working one. */
export type StartOf = 'first' | 'next' | 'beside';

/** Sequence of processes, one at a time. */
export interface Lane {
  /** Starts the first process. @throws Error if its models cannot be opened */
  first(): Promise<OpenedModels>;
  /**
   * Returns the process when its models are open. It retries a failed start as long as there is time.
   *
   * @returns undefined if the signal aborts, or the lane is closed
   */
  open(signal: AbortSignal): Promise<ScorerChild | undefined>;
  /** Starts the next process beside this one, which it replaces when its models are open. */
  replace(): Promise<void>;
  current(): ScorerChild | undefined;
  /** Returns the bytes that its process holds, or the last one held. */
  heldBytes(): number;
  close(): Promise<void>;
}

/**
 * @param start starts a process
 * @param warn takes the reason why a process cannot be started, except for the first one
 * @param rest idle time after which the lane ends its process, and starts a `first` one when it is used again.
 *   @default its process never ends, and is replaced when it is lost
 */
export function createLane(
  start: (how: StartOf) => ScorerChild,
  warn: (message: string) => void,
  rest?: { readonly afterMs: number; begins(): void },
): Lane {
  let current: ScorerChild | undefined;
  let isClosed = false;
  let wasOpen = rest !== undefined;
  let isFirst = true;
  let held = 0;
  let failures = 0;
  let retryAt = 0;
  let idle: NodeJS.Timeout | undefined;
  const failed = (error: unknown): void => {
    warn(`${messageOf(error)}; it is tried again`);
    failures += 1;
    retryAt = performance.now() + Math.min(RETRY_MS.longest, RETRY_MS.first * 2 ** (failures - 1));
  };
  const take = (child: ScorerChild): void => {
    current = child;
    const forget = (): void => {
      if (current === child) current = undefined;
    };
    child.opened.then(
      () => {
        wasOpen = true;
        failures = 0;
        held = child.heldBytes();
        void child.ended.then(() => {
          const wasCurrent = current === child;
          forget();
          if (wasCurrent && !isClosed && rest === undefined) tryNext();
        });
      },
      (error: unknown) => {
        forget();
        if (wasOpen) failed(error);
      },
    );
  };
  const tryNext = (): void => {
    try {
      take(start(isFirst ? 'first' : 'next'));
      isFirst = false;
    } catch (error) {
      failed(error);
    }
  };
  const end = (): Promise<void> | undefined => {
    isFirst = true;
    rest?.begins();
    return current?.end();
  };
  const endWhenIdle = (): void => {
    if (rest === undefined) return;
    idle = setTimeout(() => (current?.isBusy() ? endWhenIdle() : void end()), rest.afterMs).unref();
  };
  return {
    first() {
      take(start('first'));
      isFirst = false;
      return (current as ScorerChild).opened;
    },
    async open(signal) {
      clearTimeout(idle);
      while (!isClosed && !signal.aborted) {
        const waitMs = current === undefined ? retryAt - performance.now() : 0;
        if (waitMs > 0) await waitOrAbort(after(waitMs), signal);
        else if (current === undefined) tryNext();
        const child = current;
        if (child === undefined) continue;
        await waitOrAbort(Promise.allSettled([child.opened]), signal);
        if (current !== child || child.hasEnded() || signal.aborted) continue;
        endWhenIdle();
        return child;
      }
      return undefined;
    },
    async replace() {
      const before = current;
      const next = start('beside');
      await next.opened;
      if (current === before && !isClosed) take(next);
      else await next.end();
    },
    current: () => current,
    heldBytes() {
      held = Math.max(held, current?.heldBytes() ?? 0);
      return held;
    },
    async close() {
      isClosed = true;
      clearTimeout(idle);
      await end();
    },
  };
}

export type Turns = ReturnType<typeof createTurns>;

/** Creates turns on a resource that work shares or has exclusively. Exclusive work has priority. */
export function createTurns() {
  let sharing = 0;
  let having = 0;
  let isHad = false;
  let changed = Promise.withResolvers<void>();
  const change = (): void => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  return {
    async share<T>(work: () => Promise<T>): Promise<T> {
      while (having > 0) await changed.promise;
      sharing += 1;
      try {
        return await work();
      } finally {
        sharing -= 1;
        change();
      }
    },
    /** Waits for exclusive use, at most until the time is over. It renews renewable time meanwhile. */
    async have(time: TimeLimit, work: () => Promise<void>): Promise<void> {
      having += 1;
      try {
        while ((sharing > 0 || isHad) && !time.signal.aborted) {
          time.renew?.();
          await waitOrAbort(Promise.race([changed.promise, after(RENEW_MS)]), time.signal);
        }
        if (time.signal.aborted) return;
        isHad = true;
        try {
          await work();
        } finally {
          isHad = false;
        }
      } finally {
        having -= 1;
        change();
      }
    },
  };
}

const RENEW_MS = 500;

function after(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
