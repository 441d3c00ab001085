import { messageIdsOf, placeOf, resultOf, type ScoringResult } from './readResult.ts';

/** A result that has reached this process. */
export interface Arrival {
  readonly result: ScoringResult;
  /** Its caller has it: nobody needs it any more. */
  accept(): void;
}

/** Results held for one caller above which no more are fetched for it. */
const MAX_HELD = 200;
/** Results held for one caller above which none is delivered, although others have results fetched. */
const MAX_HELD_BESIDE_OTHERS = 2_000;

/**
 * Who waits for which result in this process. Callers wait for messages, or for requests of packed messages: several may
 * wait for requests of the same message. Collectors fetch message by message.
 */
export class Inbox {
  readonly #waits = new Set<Wait>();
  /** By message ID: the IDs that are waited for, and by whom. */
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
      this.#claims.set(placeOf(id).messageId, this.#claimsOf(id).set(id, wait));
      this.#finished.delete(id);
    }
    this.#waits.add(wait);
    const onEnd = (): void => this.#end(wait, ended.reason);
    if (this.#closed !== undefined) this.#end(wait, this.#closed.reason);
    if (ended.aborted) onEnd();
    ended.addEventListener('abort', onEnd, { once: true });
    this.#tellMoreWanted(messageIdsOf(missing));
    return {
      /** Returns the next arrival: first those that came before the wait ended, then it throws why the wait ended. */
      next: async (): Promise<Arrival> => {
        const arrival = await wait.next();
        this.#release(arrival.result.messageId);
        if (wait.held.size === MAX_HELD - 1) this.#tellMoreWanted([]);
        return arrival;
      },
      /** Ends the wait. What came and was not taken stays where it came from. */
      close: (): void => {
        ended.removeEventListener('abort', onEnd);
        this.#end(wait, new Error('the wait was closed'));
        for (const id of wait.held.keys()) this.#release(id);
        wait.held.clear();
      },
    };
  }

  /** Returns the message IDs that callers with room wait for, in the order in which they were asked for. */
  wanted(): string[] {
    return [...messageIdsOf([...this.#waits].flatMap((wait) => (wait.hasRoom() ? [...wait.missing] : [])))];
  }

  /** Returns true if any message ID is wanted. */
  isWanting(): boolean {
    return this.#waits.values().some((wait) => wait.hasRoom() && wait.missing.size > 0);
  }

  /** Resolves when a message ID is wanted, with true if it had to wait. */
  async demand(): Promise<boolean> {
    if (this.isWanting()) return false;
    while (!this.isWanting()) await this.#moreWanted.promise;
    return true;
  }

  /** Resolves when the next caller starts to wait, or has room again. */
  moreWanted(): Promise<void> {
    return this.#moreWanted.promise;
  }

  /** Calls `listener` with the message IDs that a caller starts to wait for, and with none when a caller has room again. */
  onWanted(listener: (messageIds: Iterable<string>) => void): void {
    this.#listeners.push(listener);
  }

  /**
   * Returns what to do with the result of a message. `wanted`: deliver it. `held`: it came before, or its caller has no
   * room: leave it. `finished`: nobody will want it any more. `unclaimed`: nobody waits for it.
   */
  stateOf(messageId: string): 'wanted' | 'held' | 'finished' | 'unclaimed' {
    const claims = [...this.#claimsOf(messageId)];
    if (claims.length === 0) return this.#finished.has(messageId) ? 'finished' : 'unclaimed';
    const isWanted = ([id, wait]: [string, Wait]) => wait.missing.has(id) && wait.held.size < MAX_HELD_BESIDE_OTHERS;
    return claims.some(isWanted) ? 'wanted' : 'held';
  }

  /**
   * Delivers a result to each caller that waits for it, or for a request of its message.
   *
   * @param accepted told of each ID whose caller has accepted its result. Without it the result stays wanted.
   */
  deliver(result: ScoringResult, accepted?: (id: string) => void): void {
    const requests = 'results' in result ? result.results.length : undefined;
    for (const [id, wait] of this.#claimsOf(result.messageId)) {
      if (!wait.missing.has(id)) continue;
      const accept = (): void => {
        if (accepted === undefined) return;
        this.#finished.add(id, requests);
        accepted(id);
      };
      wait.hold(id, { result: resultOf(id, result), accept });
    }
  }

  /** Drops the result of this ID from now on. @param requests number of requests in its message. @default not known */
  dismiss(id: string, requests?: number): void {
    this.#finished.add(id, requests);
  }

  /** Ends every wait with `reason`, because no result can be fetched now. */
  fail(reason: unknown): void {
    for (const wait of this.#waits) this.#end(wait, reason);
  }

  /** Ends every wait, now and later, with `reason`. */
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

  #tellMoreWanted(messageIds: Iterable<string>): void {
    this.#moreWanted.resolve();
    this.#moreWanted = Promise.withResolvers<void>();
    for (const listener of this.#listeners) listener(messageIds);
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

/** The oldest is forgotten first: its result, if it comes again, is one that nobody waits for. */
const REMEMBERED_MESSAGES = 10_000;

const ALL = 'all';

/** The requests whose results nobody will want any more: those collected, and those whose callers have left. */
class Finished {
  /** By message ID: the positions of its requests. */
  readonly #messages = new Map<string, Set<number> | typeof ALL>();

  /** @param requests number of requests in its message, if that is known */
  add(id: string, requests = Number.POSITIVE_INFINITY): void {
    const { messageId, position } = placeOf(id);
    const before = this.#messages.get(messageId) ?? new Set();
    if (before === ALL) return;
    if (position !== undefined && position < requests) before.add(position);
    this.#messages.set(messageId, position === undefined || before.size === requests ? ALL : before);
    const [oldest] = this.#messages.keys();
    if (this.#messages.size > REMEMBERED_MESSAGES && oldest !== undefined) this.#messages.delete(oldest);
  }

  /** Notes that it is wanted again. */
  delete(id: string): void {
    const { messageId, position } = placeOf(id);
    const before = this.#messages.get(messageId);
    if (position === undefined || before === undefined || before === ALL) this.#messages.delete(messageId);
    else before.delete(position);
  }

  /** Returns true if nobody will want any request of the message. */
  has(messageId: string): boolean {
    return this.#messages.get(messageId) === ALL;
  }
}
