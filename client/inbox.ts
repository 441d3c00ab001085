import { type FailedResult, messageIdsOf, placeOf, resultOf, type ScoringResult } from './readResult.ts';

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
type Standing = 'wanted' | 'full' | 'held' | 'dismissed' | 'unknown';

/** Most results held for one caller; others are left in their store until it takes some. */
const MAX_HELD = 200;

/**
 * Who waits for which result in this process; collectors fetch for them, message by message. Callers wait for messages or
 * for requests of packed ones: several may wait for requests of the same message.
 */
export class Inbox {
  readonly #waits = new Set<Wait>();
  /** By message ID: what is waited for of the message, and by whom. */
  readonly #claims = new Map<string, Map<string, Wait>>();
  readonly #finished = new Finished();
  readonly #listeners: ((messageIds: Iterable<string>) => void)[] = [];
  #moreWanted = Promise.withResolvers<void>();
  #closed: { readonly reason: unknown } | undefined;

  /**
   * Waits for the results of IDs that `submit` gave; `ended` ends the wait with its reason.
   *
   * @throws TypeError when an ID is none
   * @throws Error when an ID is waited for already
   */
  waitFor(ids: Iterable<string>, ended: AbortSignal) {
    const missing = new Set(ids);
    for (const id of missing) {
      if (this.#claimsOf(id).has(id)) throw new Error(`message ID ${id} is being collected already; collect it once`);
    }
    const wait = new Wait(missing);
    for (const id of missing) {
      const { messageId } = placeOf(id);
      this.#claims.set(messageId, this.#claimsOf(id).set(id, wait));
      const result = this.#finished.refusalOf(id);
      if (result === undefined) this.#finished.delete(id);
      else wait.hold(id, { result, accept() {}, giveBack() {} });
    }
    this.#waits.add(wait);
    const onEnd = (): void => this.#end(wait, ended.reason);
    if (this.#closed !== undefined) this.#end(wait, this.#closed.reason);
    if (ended.aborted) onEnd();
    ended.addEventListener('abort', onEnd, { once: true });
    this.#tellMoreWanted();
    for (const listener of this.#listeners) listener(messageIdsOf(missing));
    return {
      /** The next arrival: first what came before the wait ended, then it throws why the wait ended. */
      next: async (): Promise<Arrival> => {
        const arrival = await wait.next();
        this.#release(arrival.result.messageId);
        if (wait.held.size === MAX_HELD - 1) this.#tellMoreWanted();
        return arrival;
      },
      /** Ends the wait, and gives back what came and was not taken. */
      close: (): void => {
        ended.removeEventListener('abort', onEnd);
        this.#end(wait, new Error('the wait was closed'));
        for (const [id, arrival] of wait.held) {
          this.#release(id);
          arrival.giveBack();
        }
        wait.held.clear();
      },
    };
  }

  /** The message IDs that callers with room wait for, in the order in which they were asked for. */
  wanted(): string[] {
    return [...messageIdsOf([...this.#waits].flatMap((wait) => (wait.hasRoom() ? [...wait.missing] : [])))];
  }

  /** Returns true if any message ID is wanted. */
  isWanting(): boolean {
    return this.#waits.values().some((wait) => wait.hasRoom() && wait.missing.size > 0);
  }

  /** Resolves when a message ID is wanted. @returns whether it had to wait */
  async demand(): Promise<boolean> {
    if (this.isWanting()) return false;
    while (!this.isWanting()) await this.#moreWanted.promise;
    return true;
  }

  /** Resolves when the next caller starts to wait, or has room again. */
  moreWanted(): Promise<void> {
    return this.#moreWanted.promise;
  }

  /** `listener` is told of the message IDs that a caller starts to wait for. */
  onWanted(listener: (messageIds: Iterable<string>) => void): void {
    this.#listeners.push(listener);
  }

  stateOf(messageId: string): Standing {
    const claims = [...this.#claimsOf(messageId)];
    if (claims.length === 0) return this.#finished.has(messageId) ? 'dismissed' : 'unknown';
    const missing = claims.filter(([id, wait]) => wait.missing.has(id));
    if (missing.length === 0) return 'held';
    return missing.some(([, wait]) => wait.hasRoom()) ? 'wanted' : 'full';
  }

  /** @returns false when it is no longer wanted */
  deliver(arrival: Arrival): boolean {
    const missing = [...this.#claimsOf(arrival.result.messageId)].filter(([id, wait]) => wait.missing.has(id));
    const ids = missing.map(([id]) => id);
    const shares = sharesOf(arrival, ids, this.#finished);
    for (const [index, [id, wait]] of missing.entries()) wait.hold(id, shares[index] as Arrival);
    return missing.length > 0;
  }

  /** From now on the result of this ID is dropped. @param requests how many its message holds. @default not known */
  dismiss(id: string, requests?: number): void {
    this.#finished.add(id, requests);
  }

  /** No result can be fetched now: ends every wait with `reason`. */
  fail(reason: unknown): void {
    for (const wait of this.#waits) this.#end(wait, reason);
  }

  /** No result will be fetched any more: ends every wait, now and later, with `reason`. */
  close(reason: unknown): void {
    this.#closed ??= { reason };
    this.fail(reason);
  }

  #claimsOf(id: string): Map<string, Wait> {
    return this.#claims.get(placeOf(id).messageId) ?? new Map();
  }

  #release(id: string): void {
    const claims = this.#claimsOf(id);
    claims.delete(id);
    if (claims.size === 0) this.#claims.delete(placeOf(id).messageId);
  }

  #end(wait: Wait, reason: unknown): void {
    for (const id of wait.missing) this.#release(id);
    this.#waits.delete(wait);
    wait.end(reason);
  }

  #tellMoreWanted(): void {
    this.#moreWanted.resolve();
    this.#moreWanted = Promise.withResolvers<void>();
  }
}

/** One caller's wait. */
class Wait {
  readonly missing: Set<string>;
  readonly held = new Map<string, Arrival>();
  #ended: { readonly reason: unknown } | undefined;
  #news: PromiseWithResolvers<void> = Promise.withResolvers<void>();

  constructor(missing: Set<string>) {
    this.missing = missing;
  }

  hasRoom(): boolean {
    return this.held.size < MAX_HELD;
  }

  hold(id: string, arrival: Arrival): void {
    this.missing.delete(id);
    this.held.set(id, arrival);
    this.#tell();
  }

  end(reason: unknown): void {
    this.missing.clear();
    this.#ended ??= { reason };
    this.#tell();
  }

  async next(): Promise<Arrival> {
    for (;;) {
      const [first] = this.held.values();
      if (first !== undefined) {
        this.held.delete(first.result.messageId);
        return first;
      }
      if (this.#ended !== undefined) throw this.#ended.reason;
      await this.#news.promise;
    }
  }

  #tell(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers<void>();
  }
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

/** The oldest is forgotten first: its result is then taken for that of somebody else. */
const REMEMBERED_MESSAGES = 10_000;
const REMEMBERED_REFUSALS = 1_000;

const ALL = 'all';

/** The requests whose results nobody here will want any more, and so the messages that may go. */
class Finished {
  /** By message ID: the positions of its requests. */
  readonly #messages = new Map<string, Set<number> | typeof ALL>();
  /**
   * Errors of whole messages. Their store may drop them before each request of the message was asked for, as nobody can
   * tell how many there are; so they are remembered.
   */
  readonly #refused = new Map<string, FailedResult>();

  /** @param requests how many its message holds, where that is known */
  add(id: string, requests?: number): void {
    const { messageId, position } = placeOf(id);
    const before = this.#messages.get(messageId) ?? new Set();
    if (before === ALL) return;
    if (position !== undefined) before.add(position);
    this.#messages.set(messageId, position === undefined || before.size === requests ? ALL : before);
    forgetOldest(this.#messages, REMEMBERED_MESSAGES);
  }

  /** It is wanted again. */
  delete(id: string): void {
    const { messageId, position } = placeOf(id);
    const before = this.#messages.get(messageId);
    if (position === undefined || before === undefined || before === ALL) this.#messages.delete(messageId);
    else before.delete(position);
  }

  /** Returns true if that is so for all requests of a message. */
  has(messageId: string): boolean {
    return this.#messages.get(messageId) === ALL;
  }

  /** Takes note of a result that was delivered, if it is an error of a whole message and will be the same next time. */
  note(result: ScoringResult): void {
    if (!('error' in result) || result.error.retryable) return;
    this.#refused.set(result.messageId, result);
    forgetOldest(this.#refused, REMEMBERED_REFUSALS);
  }

  /** The result of a request of a packed message that is known to be refused as a whole. */
  refusalOf(id: string): ScoringResult | undefined {
    const { messageId, position } = placeOf(id);
    const refused = position === undefined ? undefined : this.#refused.get(messageId);
    return refused && resultOf(id, refused);
  }
}

function forgetOldest(remembered: Map<string, unknown>, max: number): void {
  const [oldest] = remembered.keys();
  if (remembered.size > max && oldest !== undefined) remembered.delete(oldest);
}
