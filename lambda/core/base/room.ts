import { type Deferred, deferred } from './deferred.ts';

/** Memory that is shared out among owners, which are numbered. Bytes of one owner add up. */
export interface Room {
  /**
   * Waits for room for so many bytes, in the order of asking. What is larger than all there is gets it once nothing else
   * is held. Waits no longer when `signal` is aborted.
   */
  take(owner: number, bytes: number, signal: AbortSignal): Promise<void>;
  /** Takes what is in memory already, whether there is room or not. */
  occupy(owner: number, bytes: number): void;
  /** Gives back all that an owner holds. */
  release(owner: number): void;
  /** Whether more is held or asked for than there is. */
  isCrowded(): boolean;
  /** Resolves when someone has to wait who did not when this was last asked. */
  nextWaiter(): Promise<void>;
  /** Resolves when it is no longer crowded, or `signal` is aborted. */
  spare(signal: AbortSignal): Promise<void>;
}

interface Waiter {
  readonly owner: number;
  readonly bytes: number;
  readonly admitted: Deferred<void>;
}

/** @param total bytes that may be held together */
export function createRoom(total: number): Room {
  const held: (number | undefined)[] = [];
  let used = 0;
  let waiting: Waiter[] = [];
  let newWaiter: Deferred<void> = deferred();
  let relief: Deferred<void> | undefined;

  const occupy = (owner: number, bytes: number): void => {
    held[owner] = (held[owner] ?? 0) + bytes;
    used += bytes;
  };
  const hasRoom = (bytes: number): boolean => used === 0 || used + bytes <= total;
  const isCrowded = (): boolean => waiting.length > 0 || used > total;
  const admitNext = (): void => {
    for (let next = waiting[0]; next !== undefined && hasRoom(next.bytes); next = waiting[0]) {
      waiting.shift();
      occupy(next.owner, next.bytes);
      next.admitted.resolve();
    }
    if (isCrowded()) return;
    relief?.resolve();
    relief = undefined;
  };
  return {
    async take(owner, bytes, signal) {
      if (signal.aborted) return;
      if (waiting.length === 0 && hasRoom(bytes)) {
        occupy(owner, bytes);
        return;
      }
      const asking: Waiter = { owner, bytes, admitted: deferred() };
      const leave = (): void => {
        waiting = waiting.filter((other) => other !== asking);
        asking.admitted.resolve();
        admitNext();
      };
      waiting.push(asking);
      newWaiter.resolve();
      signal.addEventListener('abort', leave, { once: true });
      await asking.admitted.promise;
      signal.removeEventListener('abort', leave);
    },
    occupy,
    release(owner) {
      const bytes = held[owner];
      if (bytes === undefined) return;
      used -= bytes;
      held[owner] = undefined;
      admitNext();
    },
    isCrowded,
    async nextWaiter() {
      await newWaiter.promise;
      newWaiter = deferred();
    },
    async spare(signal) {
      if (!isCrowded() || signal.aborted) return;
      relief ??= deferred();
      const { promise, resolve } = relief;
      const stop = (): void => resolve();
      signal.addEventListener('abort', stop, { once: true });
      await promise;
      signal.removeEventListener('abort', stop);
    },
  };
}
