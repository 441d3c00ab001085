import { type Deferred, deferred } from '../lambda/core/concurrency.ts';

import { type FailedResult, messageIdsOf, placeOf, resultOf, type ScoringResult } from './readResult.ts';

/**
 * What to do with a result of this message ID. `wanted`: deliver it. `held`: it came before and waits for its caller.
 * `full`: its caller has no room for it now. `dismissed`: nobody will ever want it, drop it. `unknown`: it belongs to
 * somebody else.
 */
type Standing = 'wanted' | 'full' | 'held' | 'dismissed' | 'unknown';

/**
 * Who waits for which result in this process; collectors fetch for them, message by message. Callers wait for messages or
 * for requests of packed ones: several may wait for requests of the same message.
 */
export interface Inbox {
  /**
   * Waits for the results of IDs that `submit` gave; `ended` ends the wait with its reason.
   *
   * @throws TypeError when an ID is none
   * @throws Error when an ID is waited for already
   */
  waitFor(ids: Iterable<string>, ended: AbortSignal): Waiting;
  /** The message IDs that callers with room wait for, in the order in which they were asked for. */
  wanted(): string[];
  stateOf(messageId: string): Standing;
  /** @returns false when it is no longer wanted */
  deliver(arrival: Arrival): boolean;
  /** From now on the result of this ID is dropped. @param requests how many its message holds. @default not known */
  dismiss(id: string, requests?: number): void;
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
interface Waiting {
  /** The next arrival: first what came before the wait ended, then it throws why the wait ended. */
  next(): Promise<Arrival>;
  /** Ends the wait, and gives back what came and was not taken. */
  close(): void;
}

/** Most results held for one caller; others are left in their store until it takes some. */
const MAX_HELD = 200;

interface Waiter {
  readonly missing: Set<string>;
  readonly held: Map<string, Arrival>;
  ended: { readonly reason: unknown } | undefined;
  news: Deferred<void>;
}

export function createInbox(): Inbox {
  const waiters = new Set<Waiter>();
  const claims = createClaims<Waiter>();
  const finished = createFinished();
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
    for (const id of waiter.missing) claims.delete(id);
    waiter.missing.clear();
    waiters.delete(waiter);
    waiter.ended ??= { reason };
    tell(waiter);
  };

  return {
    waitFor(ids, ended) {
      const missing = new Set(ids);
      for (const id of missing) {
        if (claims.has(id)) throw new Error(`message ID ${id} is being collected already; collect it once`);
      }
      const waiter: Waiter = { missing, held: new Map(), ended: undefined, news: deferred() };
      for (const id of missing) {
        claims.set(id, waiter);
        const result = finished.resultOf(id);
        if (result === undefined) finished.delete(id);
        else if (missing.delete(id)) waiter.held.set(id, { result, accept() {}, giveBack() {} });
      }
      waiters.add(waiter);
      const onEnd = (): void => end(waiter, ended.reason);
      if (closed !== undefined) end(waiter, closed.reason);
      if (ended.aborted) onEnd();
      ended.addEventListener('abort', onEnd, { once: true });
      nextToJoin.resolve();
      nextToJoin = deferred();
      meetDemands();
      for (const listener of listeners) listener(messageIdsOf(missing));
      return {
        async next() {
          const arrival = await firstOf(waiter);
          claims.delete(arrival.result.messageId);
          meetDemands();
          return arrival;
        },
        close() {
          ended.removeEventListener('abort', onEnd);
          end(waiter, new Error('the wait was closed'));
          for (const [id, arrival] of waiter.held) {
            claims.delete(id);
            arrival.giveBack();
          }
          waiter.held.clear();
        },
      };
    },
    wanted: () => [...messageIdsOf(waitersWithRoom().flatMap(({ missing }) => [...missing]))],
    stateOf(messageId) {
      const claimed = claims.ofMessage(messageId);
      if (claimed.size === 0) return finished.has(messageId) ? 'dismissed' : 'unknown';
      const missing = [...claimed].filter(([id, waiter]) => !waiter.held.has(id));
      if (missing.length === 0) return 'held';
      return missing.some(([, waiter]) => hasRoom(waiter)) ? 'wanted' : 'full';
    },
    deliver(arrival) {
      const missing = [...claims.ofMessage(arrival.result.messageId)].filter(([id, waiter]) => waiter.missing.has(id));
      const ids = missing.map(([id]) => id);
      const shares = sharesOf(arrival, ids, finished);
      for (const [index, [id, waiter]] of missing.entries()) {
        waiter.missing.delete(id);
        waiter.held.set(id, shares[index] as Arrival);
        tell(waiter);
      }
      return missing.length > 0;
    },
    dismiss: finished.add,
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

/** Who waits for what, by ID and by message. */
interface Claims<T> {
  set(id: string, owner: T): void;
  has(id: string): boolean;
  delete(id: string): void;
  /** The IDs of a message, or of its requests, that are waited for, and by whom. */
  ofMessage(messageId: string): ReadonlyMap<string, T>;
}

function createClaims<T>(): Claims<T> {
  const byMessage = new Map<string, Map<string, T>>();
  const ofMessage = (messageId: string): ReadonlyMap<string, T> => byMessage.get(messageId) ?? NONE;
  return {
    set(id, owner) {
      const { messageId } = placeOf(id);
      const claims = byMessage.get(messageId);
      if (claims === undefined) byMessage.set(messageId, new Map([[id, owner]]));
      else claims.set(id, owner);
    },
    has: (id) => ofMessage(placeOf(id).messageId).has(id),
    delete(id) {
      const { messageId } = placeOf(id);
      const claims = byMessage.get(messageId);
      claims?.delete(id);
      if (claims?.size === 0) byMessage.delete(messageId);
    },
    ofMessage,
  };
}

const NONE = new Map<string, never>();

/** A result, and what to tell its store. */
export interface Arrival {
  readonly result: ScoringResult;
  /** It reached its caller: the store may drop it. */
  accept(): void;
  /** Its caller no longer wants it: it stays in the store. */
  giveBack(): void;
}

/**
 * What each of those who wait for `ids` gets of an arrival, in their order. Its store may drop it once every request of
 * the message has reached its caller or is dismissed; until then the store keeps it, for those who come later.
 */
function sharesOf(arrival: Arrival, ids: readonly string[], finished: Finished): Arrival[] {
  const { result } = arrival;
  const { messageId } = result;
  if (ids.length === 1 && ids[0] === messageId) return [arrival];
  finished.note(result);
  const requests = 'results' in result ? result.results.length : 0;
  let open = ids.length;
  let isWanted = false;
  // Nobody can tell how many requests there are behind the error of a whole message.
  let isDone = 'error' in result;
  const settle = (): void => {
    open -= 1;
    if (open > 0) return;
    if (isDone && !isWanted) arrival.accept();
    else arrival.giveBack();
  };
  return ids.map((id) => ({
    result: resultOf(id, result),
    accept() {
      const { position = 0 } = placeOf(id);
      if (id === messageId) isDone = true;
      else if (position < requests) {
        finished.add(id, requests);
        isDone ||= finished.has(messageId);
      }
      settle();
    },
    giveBack() {
      isWanted = true;
      settle();
    },
  }));
}

/** The requests whose results nobody here will want any more, and so the messages that may go. */
interface Finished extends Refused {
  /** @param requests how many its message holds, where that is known */
  add(id: string, requests?: number): void;
  /** It is wanted again. */
  delete(id: string): void;
  /** Whether that is so for all requests of a message. */
  has(messageId: string): boolean;
}

/** The oldest is forgotten first: its result is then taken for that of somebody else. */
const REMEMBERED_MESSAGES = 10_000;

const ALL = 'all';

function createFinished(): Finished {
  const messages = new Map<string, Set<number> | typeof ALL>();
  return {
    ...createRefused(),
    add(id, requests) {
      const { messageId, position } = placeOf(id);
      const before = messages.get(messageId) ?? new Set();
      if (before === ALL) return;
      if (position !== undefined) before.add(position);
      messages.set(messageId, position === undefined || before.size === requests ? ALL : before);
      const [oldest] = messages.keys();
      if (messages.size > REMEMBERED_MESSAGES && oldest !== undefined) messages.delete(oldest);
    },
    delete(id) {
      const { messageId, position } = placeOf(id);
      const before = messages.get(messageId);
      if (position === undefined || before === undefined || before === ALL) messages.delete(messageId);
      else before.delete(position);
    },
    has: (messageId) => messages.get(messageId) === ALL,
  };
}

/**
 * Errors of whole messages. Their store may drop them before each request of the message was asked for, as nobody can
 * tell how many there are; so they are remembered.
 */
interface Refused {
  /** Takes note of a result that was delivered, if it is such an error and will be the same next time. */
  note(result: ScoringResult): void;
  /** What is known of a request of a packed message. */
  resultOf(id: string): ScoringResult | undefined;
}

/** The oldest is forgotten first. */
const REMEMBERED_REFUSED = 1_000;

function createRefused(): Refused {
  const messages = new Map<string, FailedResult>();
  return {
    note(result) {
      if (!('error' in result) || result.error.retryable) return;
      messages.set(result.messageId, result);
      const [oldest] = messages.keys();
      if (messages.size > REMEMBERED_REFUSED && oldest !== undefined) messages.delete(oldest);
    },
    resultOf(id) {
      const { messageId, position } = placeOf(id);
      const refused = position === undefined ? undefined : messages.get(messageId);
      return refused === undefined ? undefined : resultOf(id, refused);
    },
  };
}
