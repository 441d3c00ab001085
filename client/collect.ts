import type { SQSClient } from '@aws-sdk/client-sqs';
import { sooner } from '../lambda/core/concurrency.ts';
import { CollectTimeoutError, type StoreTrouble } from './clientErrors.ts';
import type { Inbox } from './inbox.ts';
import type { ReadStored, ScoringResult } from './readResult.ts';

export interface CollectOptions {
  /** Maximum wait for all results in milliseconds, at least 1. */
  readonly timeoutMs: number;
  /** Ends the collection with its reason. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Message IDs whose results were collected before, for example by a run that crashed. If a result queue still
   * contains them, they are dropped. The last 10,000 are remembered.
   */
  readonly collected?: Iterable<string> | undefined;
}

interface CollectDependencies {
  readonly inbox: Inbox;
  readonly store: ResultStore;
}

/** Yields each message ID's result once, in order of arrival, until all have arrived. */
export async function* collect(
  messageIds: Iterable<string>,
  { timeoutMs, signal, collected = [] }: CollectOptions,
  dependencies: CollectDependencies,
): AsyncGenerator<ScoringResult, void, undefined> {
  const missing = new Set(messageIds);
  const expected = missing.size;
  const deadline = startDeadline(timeoutMs, signal);
  const { store, inbox } = dependencies;
  try {
    for (const id of collected) inbox.dismiss(id);
    yield* collectUntil(deadline.signal, missing, dependencies);
  } catch (error) {
    if (error !== TIMED_OUT) throw error;
    throw new CollectTimeoutError([...missing], expected, timeoutMs, await store.trouble());
  } finally {
    deadline.end();
  }
}

/** Removes results from `missing` as they arrive. A result is accepted unless its caller throws into the generator. */
async function* collectUntil(
  ended: AbortSignal,
  missing: Set<string>,
  { inbox, store }: CollectDependencies,
): AsyncGenerator<ScoringResult, void, undefined> {
  const waiting = inbox.waitFor(missing, ended);
  try {
    while (missing.size > 0) {
      const arrival = await waiting.next();
      missing.delete(arrival.result.messageId);
      let isTaken = true;
      try {
        yield arrival.result;
      } catch (error) {
        isTaken = false;
        throw error;
      } finally {
        if (isTaken) arrival.accept();
      }
    }
  } finally {
    waiting.close();
    await store.settled();
  }
}

/** Maximum delay of a Node timer. A longer one fires immediately. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;
const { signal: NEVER } = new AbortController();
/** Reason of a signal that aborted at its deadline. */
export const TIMED_OUT = Symbol('timed out');

/**
 * Starts a deadline. Unlike `AbortSignal.timeout`, it keeps the process alive.
 *
 * @returns a signal that aborts with `signal`, or at the deadline with `TIMED_OUT`, and a function that ends the timer
 * @throws RangeError if `timeoutMs` is outside the range of a timer
 */
export function startDeadline(timeoutMs: number, signal: AbortSignal | undefined): ReturnType<typeof sooner> {
  if (timeoutMs >= 1 && timeoutMs <= LONGEST_TIMEOUT_MS) return sooner(signal ?? NEVER, timeoutMs, TIMED_OUT);
  throw new RangeError(`timeoutMs: expected 1 to ${LONGEST_TIMEOUT_MS} milliseconds, got ${timeoutMs}`);
}

/** Result store as a client reads it. While a caller waits, it moves results to the inbox. */
export interface ResultStore {
  /** Clients that it calls. */
  readonly clients: readonly RegionalClient[];
  /** URL of the queue that requests ask for their results to be sent to. */
  readonly replyTo?: string;
  /** Looks for the result of one message. Undefined if the store cannot be asked for one. */
  readonly lookUp?: { readonly where: string; find(messageId: string): Promise<ScoringResult | undefined> };
  /** Resolves when all results accepted so far are acknowledged. */
  settled(): Promise<void>;
  /** Returns possible reasons for missing results. */
  trouble(): Promise<StoreTrouble>;
  /** Resolves when no call is active any more. Close the inbox first. */
  close(): Promise<void>;
}

/** AWS SDK client. It resolves its region on first use. */
export interface RegionalClient {
  readonly config: { region(): Promise<string> };
}

/** Parts of a client that its store uses. */
export interface StoreContext {
  readonly inbox: Inbox;
  readonly read: ReadStored;
  readonly sqs: SQSClient;
  /** Configuration of AWS clients that the store creates. */
  readonly config: { readonly region?: string };
  /** Registers a client that `close` destroys. */
  own<C extends { destroy(): void }>(client: C): C;
  warn(message: string): void;
  /** Aborts when the client is closed. It ends the retries of acknowledgements. */
  readonly closing: AbortSignal;
}
