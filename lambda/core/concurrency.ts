/**
 * A value, or a promise of it if something has to be waited for. Promises of available values would cost half as much
 * as decoding: 3 ms for ten thousand bodies, which take 6 ms to read from a template (two cores, Node 24).
 */
export type MaybePromise<T> = T | Promise<T>;

/** Calls `next` with the value, synchronously if it is available. */
export function whenThere<T, U>(soon: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return soon instanceof Promise ? soon.then(next) : next(soon);
}

/** Works like `Promise.all`, but synchronously if all values are available. */
export function allThere<T>(soon: MaybePromise<T>[]): MaybePromise<T[]> {
  return soon.some((one) => one instanceof Promise) ? Promise.all(soon) : (soon as T[]);
}

/** @see https://nodejs.org/api/timers.html#settimeoutcallback-delay-args */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Returns a signal that aborts after `ms` milliseconds, or the maximum of a timer. */
export function timeoutSignal(ms: number): AbortSignal {
  return AbortSignal.timeout(Math.min(Math.max(0, Math.ceil(ms)), MAX_TIMER_MS));
}

/**
 * Returns a signal that aborts with `signal`, or after `ms` milliseconds with `reason`. `AbortSignal.timeout` would not
 * do: Node 22.12 collects one that is used only by `AbortSignal.any`, so that it never aborts.
 *
 * @returns the signal, and a function that ends its timer, to be called in any case
 */
export function sooner(signal: AbortSignal, ms: number, reason?: unknown): { signal: AbortSignal; end(): void } {
  const overdue = new AbortController();
  const timer = setTimeout(() => overdue.abort(reason), Math.min(Math.max(0, Math.ceil(ms)), MAX_TIMER_MS));
  return { signal: AbortSignal.any([signal, overdue.signal]), end: () => clearTimeout(timer) };
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/**
 * Waits for `work`, or until the signal aborts. The work continues after an abort.
 *
 * @throws the result of `onAbort` when the signal aborts. @default the signal's reason
 */
export async function raceAbort<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  onAbort: () => unknown = () => signal?.reason,
): Promise<T> {
  if (signal === undefined) return work;
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(onAbort());
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort);
  try {
    return await Promise.race([aborted.promise, work]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/**
 * Waits for the work or for the signal, whichever comes first. Abandoned work continues, and its errors are ignored.
 *
 * @param graceMs additional wait after the signal. @default 0
 */
export async function waitOrAbort(work: Promise<unknown>, signal: AbortSignal, graceMs = 0): Promise<void> {
  const overdue = Promise.withResolvers<void>();
  const onAbort = (): void => (graceMs === 0 ? overdue.resolve() : void setTimeout(overdue.resolve, graceMs));
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([work, overdue.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

export async function withTimeout(work: Promise<unknown>, ms: number): Promise<void> {
  const overdue = Promise.withResolvers<void>();
  const timer = setTimeout(overdue.resolve, ms);
  try {
    await Promise.race([work, overdue.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Memory shared by numbered owners. The bytes of one owner add up. */
export interface MemoryBudget {
  /**
   * Waits for `bytes` bytes of room, in the order of the calls, or returns synchronously if there is room. A request
   * larger than the budget is granted when nothing else is held. The wait ends if `signal` aborts.
   */
  acquire(owner: number, bytes: number, signal: AbortSignal): MaybePromise<void>;
  /** Takes memory that is already in use, even if there is no room. */
  hold(owner: number, bytes: number): void;
  release(owner: number): void;
  /** Returns true if more is held or requested than the budget. */
  isFull(): boolean;
  /** Resolves when a new waiter exists since the last call. */
  nextWaiter(): Promise<void>;
  /** Resolves when the budget is not full, or `signal` aborts. */
  available(signal: AbortSignal): Promise<void>;
}

interface Waiter {
  readonly owner: number;
  readonly bytes: number;
  readonly admitted: PromiseWithResolvers<void>;
}

export function createMemoryBudget(total: number): MemoryBudget {
  const held: (number | undefined)[] = [];
  let used = 0;
  let waiting: Waiter[] = [];
  let newWaiter: PromiseWithResolvers<void> = Promise.withResolvers<void>();
  let relief: PromiseWithResolvers<void> | undefined;

  const hold = (owner: number, bytes: number): void => {
    held[owner] = (held[owner] ?? 0) + bytes;
    used += bytes;
  };
  const hasRoom = (bytes: number): boolean => used === 0 || used + bytes <= total;
  const isFull = (): boolean => waiting.length > 0 || used > total;
  const admitNext = (): void => {
    for (let next = waiting[0]; next !== undefined && hasRoom(next.bytes); next = waiting[0]) {
      waiting.shift();
      hold(next.owner, next.bytes);
      next.admitted.resolve();
    }
    if (isFull()) return;
    relief?.resolve();
    relief = undefined;
  };
  const wait = async (asking: Waiter, signal: AbortSignal): Promise<void> => {
    waiting.push(asking);
    newWaiter.resolve();
    await waitOrAbort(asking.admitted.promise, signal);
    if (!waiting.includes(asking)) return;
    waiting = waiting.filter((other) => other !== asking);
    admitNext();
  };
  return {
    acquire(owner, bytes, signal) {
      if (signal.aborted) return undefined;
      if (waiting.length === 0 && hasRoom(bytes)) return hold(owner, bytes);
      return wait({ owner, bytes, admitted: Promise.withResolvers<void>() }, signal);
    },
    hold,
    release(owner) {
      const bytes = held[owner];
      if (bytes === undefined) return;
      used -= bytes;
      held[owner] = undefined;
      admitNext();
    },
    isFull,
    async nextWaiter() {
      await newWaiter.promise;
      newWaiter = Promise.withResolvers<void>();
    },
    async available(signal) {
      if (!isFull() || signal.aborted) return;
      relief ??= Promise.withResolvers<void>();
      await waitOrAbort(relief.promise, signal);
    },
  };
}

export interface Clock {
  /** Monotonic time in milliseconds. */
  now(): number;
  /** Calls back after `ms` milliseconds. @returns a function that cancels the call */
  after(ms: number, callback: () => void): () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};
