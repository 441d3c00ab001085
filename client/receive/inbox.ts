import { type Deferred, deferred } from '../../lambda/core/base/deferred.ts';
import type { ScoringResult } from '../result/result.ts';

/** A result, and what to tell its store. */
export interface Arrival {
  readonly result: ScoringResult;
  /** It reached its caller: the store may drop it. */
  accept(): void;
  /** Its caller no longer wants it: it stays in the store. */
  giveBack(): void;
}

/**
 * What to do with a result of this message ID. `wanted`: deliver it. `held`: it came before and waits for its caller.
 * `full`: its caller has no room for it now. `dismissed`: nobody will ever want it, drop it. `unknown`: it belongs to
 * somebody else.
 */
export type Standing = 'wanted' | 'full' | 'held' | 'dismissed' | 'unknown';

/** Who waits for which message ID in this process; collectors fetch for them. */
export interface Inbox {
  /** Waits for results; `ended` ends the wait with its reason. @throws Error when an ID is waited for already */
  waitFor(messageIds: Iterable<string>, ended: AbortSignal): Waiting;
  /** The message IDs that callers with room wait for, in the order in which they were asked for. */
  wanted(): string[];
  standing(messageId: string): Standing;
  /** @returns false when it is no longer wanted */
  deliver(arrival: Arrival): boolean;
  /** From now on results of this message ID are dropped. */
  dismiss(messageId: string): void;
  /** Whether any message ID is wanted. */
  isWanting(): boolean;
  /** Resolves when a message ID is wanted. @returns whether it had to wait */
  demand(): Promise<boolean>;
  /** `listener` is told of the message IDs that a caller starts to wait for. */
  onWanted(listener: (messageIds: Iterable<string>) => void): void;
  /** Resolves when the next caller starts to wait. */
  joined(): Promise<void>;
  /** No result can be fetched now: ends every wait with `reason`. */
  fail(reason: unknown): void;
  /** No result will be fetched any more: ends every wait, now and later, with `reason`. */
  close(reason: unknown): void;
}

/** One caller's wait. */
export interface Waiting {
  /** The next arrival: first what came before the wait ended, then it throws why the wait ended. */
  next(): Promise<Arrival>;
  /** Ends the wait, and gives back what came and was not taken. */
  close(): void;
}

/** Most results held for one caller; others are left in their store until it takes some. */
const MAX_HELD = 200;
const REMEMBERED_IDS = 10_000;

interface Waiter {
  readonly missing: Set<string>;
  readonly held: Map<string, Arrival>;
  ended: { readonly reason: unknown } | undefined;
  news: Deferred<void>;
}

export function createInbox(): Inbox {
  const waiters = new Set<Waiter>();
  const byId = new Map<string, Waiter>();
  const dismissed = new Set<string>();
  const demands = new Set<(waited: boolean) => void>();
  const listeners: ((messageIds: Iterable<string>) => void)[] = [];
  let nextToJoin = deferred();
  let closed: { readonly reason: unknown } | undefined;

  const waitersWithRoom = (): Waiter[] => [...waiters].filter(hasRoom);
  const isWanting = (): boolean => waiters.values().some((waiter) => hasRoom(waiter) && waiter.missing.size > 0);
  const meetDemands = (): void => {
    if (demands.size === 0 || !isWanting()) return;
    for (const met of demands) met(true);
    demands.clear();
  };
  const endAll = (reason: unknown): void => {
    for (const waiter of waiters) end(waiter, reason);
  };
  const end = (waiter: Waiter, reason: unknown): void => {
    for (const messageId of waiter.missing) byId.delete(messageId);
    waiter.missing.clear();
    waiters.delete(waiter);
    waiter.ended ??= { reason };
    tell(waiter);
  };

  return {
    waitFor(messageIds, ended) {
      const missing = new Set(messageIds);
      for (const messageId of missing) {
        if (byId.has(messageId)) throw new Error(`message ID ${messageId} is being collected already; collect it once`);
      }
      const waiter: Waiter = { missing, held: new Map(), ended: undefined, news: deferred() };
      for (const messageId of missing) {
        byId.set(messageId, waiter);
        dismissed.delete(messageId);
      }
      waiters.add(waiter);
      const onEnd = (): void => end(waiter, ended.reason);
      if (closed !== undefined) end(waiter, closed.reason);
      if (ended.aborted) onEnd();
      ended.addEventListener('abort', onEnd, { once: true });
      nextToJoin.resolve();
      nextToJoin = deferred();
      meetDemands();
      for (const listener of listeners) listener(missing);
      return {
        async next() {
          const arrival = await firstOf(waiter);
          byId.delete(arrival.result.messageId);
          meetDemands();
          return arrival;
        },
        close() {
          ended.removeEventListener('abort', onEnd);
          end(waiter, new Error('the wait was closed'));
          for (const [messageId, arrival] of waiter.held) {
            byId.delete(messageId);
            arrival.giveBack();
          }
          waiter.held.clear();
        },
      };
    },
    wanted: () => waitersWithRoom().flatMap(({ missing }) => [...missing]),
    standing(messageId) {
      const waiter = byId.get(messageId);
      if (waiter === undefined) return dismissed.has(messageId) ? 'dismissed' : 'unknown';
      if (waiter.held.has(messageId)) return 'held';
      return hasRoom(waiter) ? 'wanted' : 'full';
    },
    deliver(arrival) {
      const waiter = byId.get(arrival.result.messageId);
      if (waiter?.missing.delete(arrival.result.messageId) !== true) return false;
      waiter.held.set(arrival.result.messageId, arrival);
      tell(waiter);
      return true;
    },
    dismiss(messageId) {
      dismissed.add(messageId);
      const [oldest] = dismissed;
      if (dismissed.size > REMEMBERED_IDS && oldest !== undefined) dismissed.delete(oldest);
    },
    isWanting,
    demand: () =>
      new Promise((met) => {
        if (isWanting()) met(false);
        else demands.add(met);
      }),
    onWanted(listener) {
      listeners.push(listener);
    },
    joined: () => nextToJoin.promise,
    fail: endAll,
    close(reason) {
      closed ??= { reason };
      endAll(reason);
    },
  };
}

function hasRoom({ held }: Waiter): boolean {
  return held.size < MAX_HELD;
}

function tell(waiter: Waiter): void {
  waiter.news.resolve();
  waiter.news = deferred();
}

async function firstOf(waiter: Waiter): Promise<Arrival> {
  for (;;) {
    const [first] = waiter.held.values();
    if (first !== undefined) {
      waiter.held.delete(first.result.messageId);
      return first;
    }
    if (waiter.ended !== undefined) throw waiter.ended.reason;
    await waiter.news.promise;
  }
}
