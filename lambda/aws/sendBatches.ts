import { setTimeout } from 'node:timers/promises';
import { waitOrAbort } from '../core/concurrency.ts';
import { type Failure, failure, type Outage } from '../core/failure.ts';
import type { WriteStatus } from '../core/record.ts';
import { describeError, isCallersFault, outageKind } from './awsError.ts';

export interface Refusal<E> {
  readonly entry: E;
  readonly reason: string;
  readonly again: boolean;
  /** Kind of outage. Undefined if the entry may be at fault. */
  readonly outage?: Outage['kind'] | undefined;
  /** Error of the whole request. */
  readonly cause?: unknown;
}

export interface Sending<E> {
  readonly store: string;
  /** Packs entries, in order, into batch requests. @default one entry in each */
  readonly pack?: (entries: readonly E[]) => readonly (readonly E[])[];
  /** Makes one batch request. Returns the entries that the store refuses; an error refuses all. */
  readonly attempt: (batch: readonly E[]) => Promise<readonly Refusal<E>[]>;
  readonly signal: AbortSignal;
  readonly retry?: RetryOptions | undefined;
}

/**
 * Sends entries to a store until it takes or permanently refuses each, or until `signal` aborts. Each batch request is
 * retried independently, so a slow one delays no other, and entries that were written count as written after an abort.
 *
 * @returns statuses aligned with `entries` by index; an entry without an answer counts as failed
 */
export async function sendBatches<E>(entries: readonly E[], sending: Sending<E>): Promise<WriteStatus[]> {
  const { store, pack = oneToEach, signal } = sending;
  const statuses = new Map<E, WriteStatus>();
  const wasAsked = !signal.aborted;
  const sends = pack(entries).map((batch) => sendBatch(batch, statuses, sending));
  await waitOrAbort(Promise.all(sends), signal);
  const message = `${store}: expected an answer before the deadline, got none`;
  const unanswered = failure('WRITE_FAILED', message, wasAsked ? { of: store, kind: 'busy' } : undefined);
  return entries.map((entry) => statuses.get(entry) ?? unanswered);
}

const WRITTEN: WriteStatus = { written: true };

function oneToEach<E>(entries: readonly E[]): E[][] {
  return entries.map((entry) => [entry]);
}

/** The refusal before an abort is more informative than the abort itself. */
async function sendBatch<E>(
  batch: readonly E[],
  statuses: Map<E, WriteStatus>,
  { store, attempt, signal, retry }: Sending<E>,
): Promise<void> {
  const tryOnce = async (left: readonly E[]): Promise<E[]> => {
    const refused = await attempt(left).catch((error: unknown) => allRefused(left, error));
    const refusals = new Map(refused.map((refusal) => [refusal.entry, refusal]));
    for (const entry of left) {
      const refusal = refusals.get(entry);
      if (refusal === undefined) statuses.set(entry, WRITTEN);
      else if (!signal.aborted) statuses.set(entry, refusedBy(store, refusal));
    }
    return left.filter((entry) => refusals.get(entry)?.again);
  };
  await retryRemaining(batch, tryOnce, signal, retry);
}

function refusedBy(store: string, { reason, outage }: Refusal<unknown>): Failure {
  return failure('WRITE_FAILED', `${store}: ${reason}`, outage && { of: store, kind: outage });
}

export interface RetryOptions {
  /** Maximum number of attempts. @default 6 */
  readonly attempts?: number;
  /** Maximum pause before the second attempt. It doubles with each further one. @default 100 */
  readonly baseMs?: number;
  /** Maximum pause before any attempt. @default 5000 */
  readonly capMs?: number;
  /** @default Math.random */
  readonly random?: () => number;
}

/**
 * Repeats an attempt until no items remain, with pauses in between. It gives up when `signal` aborts.
 *
 * @param attempt takes the remaining items and its number from 1 on, and returns the items that still remain
 * @returns remaining items
 */
export async function retryRemaining<T>(
  items: readonly T[],
  attempt: (left: readonly T[], number: number) => Promise<readonly T[]>,
  signal: AbortSignal,
  retry: RetryOptions = {},
): Promise<readonly T[]> {
  const { attempts = 6 } = retry;
  let left = items;
  for (let number = 1; left.length > 0 && number <= attempts; number++) {
    // It rejects only if the signal aborts.
    if (number > 1) await setTimeout(pauseMs(number, retry), undefined, { signal }).catch(() => {});
    if (signal.aborted) break;
    left = await attempt(left, number);
  }
  return left;
}

/**
 * Returns the pause before the second or a later attempt: exponential backoff with full jitter.
 *
 * @see https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export function pauseMs(attempt: number, { baseMs = 100, capMs = 5000, random = Math.random }: RetryOptions): number {
  return random() * Math.min(capMs, baseMs * 2 ** (attempt - 2));
}

/**
 * Repeats a request until it succeeds or the error is final.
 *
 * @throws the error of the last attempt
 */
export async function untilAnswered<T>(
  ask: (attempt: number) => Promise<T>,
  isFinal: (error: unknown) => boolean,
  signal: AbortSignal,
  retry?: RetryOptions,
): Promise<T> {
  let answer: { readonly value: T } | undefined;
  let met: unknown = signal.reason;
  const attempt = async (left: readonly undefined[], number: number): Promise<readonly undefined[]> => {
    try {
      answer = { value: await ask(number) };
      return [];
    } catch (error) {
      met = error;
      return isFinal(error) ? [] : left;
    }
  };
  await retryRemaining([undefined], attempt, signal, retry);
  if (answer === undefined) throw met;
  return answer.value;
}

/** Packs entries, in order, into as few batch requests as possible. An entry that is too large gets its own request. */
export function packBatches<T extends { readonly bytes: number }>(
  entries: readonly T[],
  maxEntries: number,
  maxBytes: number,
): T[][] {
  const batches: T[][] = [];
  let bytes = 0;
  for (const entry of entries) {
    const last = batches.at(-1);
    if (last === undefined || last.length === maxEntries || bytes + entry.bytes > maxBytes) {
      batches.push([entry]);
      bytes = entry.bytes;
    } else {
      last.push(entry);
      bytes += entry.bytes;
    }
  }
  return batches;
}

/** Maximum number of concurrent calls of a writer, or of an action on messages. */
export const CALLS_IN_FLIGHT = 16;

export function allRefused<E>(batch: readonly E[], error: unknown): Refusal<E>[] {
  const [reason, again, outage] = [describeError(error), !isCallersFault(error), outageKind(error)];
  return batch.map((entry) => ({ entry, reason, again, outage, cause: error }));
}
