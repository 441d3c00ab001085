import { messageIdsOf, placeOf, resultOf, type ScoringResult } from './readResult.ts';

/** Result that has reached this process. */
export interface Arrival {
  readonly result: ScoringResult;
  /** Notes that its caller has it, so it is no longer needed. */
  accept(): void;
}

/** Maximum results held for one caller before no more are fetched for it. */
const MAX_HELD = 200;
/** Maximum results held for one caller before none are delivered, even if they are fetched for others. */
const MAX_HELD_BESIDE_OTHERS = 2_000;

/**
 * Callers of this process and the results that they wait for. A caller waits for messages, or for requests of packed
 * messages. Several callers may wait for requests of the same message, while collectors fetch whole messages.
 */
export class Inbox {
  readonly #waits = new Set<Wait>();
  /** Waits by message ID, then by awaited ID. */
  readonly #claims = new Map<string, Map<string, Wait>>();
  readonly #finished = new Finished();
  #tellWanted: (messageIds: Iterable<string>) => void = () => {};
  #closed: { readonly reason: unknown } | undefined;

  /**
   * Waits for the results of IDs that `submit` returned. `ended` ends the wait with its reason.
   *
   * @throws TypeError if an ID is invalid
   * @throws Error if an ID is already waited for
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
    this.#tellWanted(messageIdsOf(missing));
    return {
      /**
       * Returns the next arrival. After those that arrived before the end of the wait, throws the reason of the end.
       */
      next: async (): Promise<Arrival> => {
        const arrival = await wait.next();
        this.#release(arrival.result.messageId);
        if (wait.held.size === MAX_HELD - 1) this.#tellWanted([]);
        return arrival;
      },
      /** Ends the wait. Results that were not accepted stay in their store. */
      close: (): void => {
        ended.removeEventListener('abort', onEnd);
        this.#end(wait, new Error('the wait was closed'));
        for (const id of wait.held.keys()) this.#release(id);
        wait.held.clear();
      },
    };
  }

  /** Returns the message IDs of callers with room, in the order of the requests for them. */
  wanted(): string[] {
    return [...messageIdsOf([...this.#waits].flatMap((wait) => (wait.hasRoom() ? [...wait.missing] : [])))];
  }

  isWanting(): boolean {
    return this.#waits.values().some((wait) => wait.hasRoom() && wait.missing.size > 0);
  }

  /**
   * Calls `listener` with the message IDs that a caller starts to wait for, and with none when a caller has room again.
   */
  onWanted(listener: (messageIds: Iterable<string>) => void): void {
    this.#tellWanted = listener;
  }

  /**
   * Returns the state of a message's result. `wanted`: deliver it. `held`: it arrived before, or its caller has no
   * room, so leave it. `finished`: it is no longer needed. `unclaimed`: no caller waits for it.
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
   * @param accepted called with each ID whose caller has accepted its result. Without it, the result stays wanted
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

  /**
   * Drops the result of this ID from now on.
   * @param requests number of requests in its message, if known
   */
  dismiss(id: string, requests?: number): void {
    this.#finished.add(id, requests);
  }

  /** Ends all current waits with `reason`, because no result can be fetched now. */
  fail(reason: unknown): void {
    for (const wait of this.#waits) this.#end(wait, reason);
  }

  /** Ends all current and later waits with `reason`. */
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
}

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

/** Maximum messages to remember. If a result of an older one arrives again, it is unclaimed. */
const REMEMBERED_MESSAGES = 10_000;

const ALL = 'all';

/** Requests whose results are no longer needed, because they were collected or their callers have left. */
class Finished {
  /** Positions of requests by message ID. */
  readonly #messages = new Map<string, Set<number> | typeof ALL>();

  /** @param requests number of requests in its message, if known */
  add(id: string, requests = Number.POSITIVE_INFINITY): void {
    const { messageId, position } = placeOf(id);
    const before = this.#messages.get(messageId) ?? new Set();
    if (before === ALL) return;
    if (position !== undefined && position < requests) before.add(position);
    this.#messages.set(messageId, position === undefined || before.size === requests ? ALL : before);
    const [oldest] = this.#messages.keys();
    if (this.#messages.size > REMEMBERED_MESSAGES && oldest !== undefined) this.#messages.delete(oldest);
  }

  delete(id: string): void {
    const { messageId, position } = placeOf(id);
    const before = this.#messages.get(messageId);
    if (position === undefined || before === undefined || before === ALL) this.#messages.delete(messageId);
    else before.delete(position);
  }

  /** Returns true if no request of the message is needed any more. */
  has(messageId: string): boolean {
    return this.#messages.get(messageId) === ALL;
  }
}
