import { setTimeout } from 'node:timers/promises';
import type { BatchResultErrorEntry, SQSClient } from '@aws-sdk/client-sqs';
import { waitOrAbort } from '../core/concurrency.ts';
import { type Failure, failure, isFailure, isTransient, type Outage } from '../core/failure.ts';
import type { Result, ResultWriter, WriteVerdict } from '../core/record.ts';
import { describeError, isCallersFault, outageKind } from './awsError.ts';

/** Why a store did not take an entry. */
export interface Refusal<E> {
  readonly entry: E;
  readonly reason: string;
  /** Whether it is worth another try. */
  readonly again: boolean;
  /** What that says of the store; undefined where the entry may be at fault. */
  readonly outage?: Outage['kind'] | undefined;
}

export interface Delivery<E> {
  /** The store's name in messages. */
  readonly store: string;
  /** Packs entries, in order, into batch requests. @default one to each */
  readonly pack?: (entries: readonly E[]) => readonly (readonly E[])[];
  /** Makes one batch request, for the first time or again. What the answer does not refuse is taken. */
  readonly attempt: (batch: readonly E[], number: number) => Promise<readonly Refusal<E>[]>;
  readonly signal: AbortSignal;
  readonly retry?: RetryOptions | undefined;
}

/**
 * Hands entries to a store until it has taken each one or refused it for good, or until `signal` is aborted. Each batch
 * request is retried on its own: one that gets no answer holds up no other, and when the signal aborts, what the others
 * brought stays written.
 *
 * @returns verdicts aligned with `entries` by index; an entry without an answer counts as failed
 */
export async function deliver<E>(entries: readonly E[], delivery: Delivery<E>): Promise<WriteVerdict[]> {
  const { store, pack = oneToEach, signal } = delivery;
  const verdicts = new Map<E, WriteVerdict>();
  const wasAsked = !signal.aborted;
  const deliveries = pack(entries).map((batch) => deliverBatch(batch, verdicts, delivery));
  await waitOrAbort(Promise.all(deliveries), signal);
  const message = `${store}: expected an answer before the deadline, got none`;
  const unanswered = failure('WRITE_FAILED', message, wasAsked ? { of: store, kind: 'busy' } : undefined);
  return entries.map((entry) => verdicts.get(entry) ?? unanswered);
}

const WRITTEN: WriteVerdict = { written: true };

function oneToEach<E>(entries: readonly E[]): E[][] {
  return entries.map((entry) => [entry]);
}

/** Refusals that come after the abort tell of nothing but the abort: those before them tell more. */
async function deliverBatch<E>(
  batch: readonly E[],
  verdicts: Map<E, WriteVerdict>,
  { store, attempt, signal, retry }: Delivery<E>,
): Promise<void> {
  const tryOnce = async (left: readonly E[], number: number): Promise<E[]> => {
    const refusals = new Map((await attempt(left, number)).map((refusal) => [refusal.entry, refusal]));
    for (const entry of left) {
      const refusal = refusals.get(entry);
      if (refusal === undefined) verdicts.set(entry, WRITTEN);
      else if (!signal.aborted) verdicts.set(entry, refused(store, refusal));
    }
    return left.filter((entry) => refusals.get(entry)?.again);
  };
  await retryRemaining(batch, tryOnce, signal, retry);
}

function refused(store: string, { reason, outage }: Refusal<unknown>): Failure {
  return failure('WRITE_FAILED', `${store}: ${reason}`, outage && { of: store, kind: outage });
}

interface Offloading<E> {
  /** May become false for an entry once the store has refused some: those are offloaded then. */
  readonly fits: (entry: E) => boolean;
  /** A small entry that points to the large one's body, or why there can be none. */
  readonly offload: (entry: E) => Promise<E | Failure>;
  readonly deliver: (entries: readonly E[]) => Promise<readonly WriteVerdict[]>;
}

/**
 * Delivers the entries that fit their store together, and the others one by one, once their bodies lie elsewhere: a
 * slow upload holds up no other entry. An entry that is given more than once is delivered once.
 *
 * @returns verdicts aligned with `entries` by index
 */
export async function deliverOrOffload<E>(
  entries: readonly E[],
  { fits, offload, deliver }: Offloading<E>,
): Promise<WriteVerdict[]> {
  const verdicts = new Map<E, WriteVerdict | undefined>();
  const alone = async (entry: E): Promise<void> => {
    const pointing = await offload(entry);
    verdicts.set(entry, isFailure(pointing) ? pointing : (await deliver([pointing]))[0]);
  };
  const together = async (fitting: readonly E[]): Promise<void> => {
    const taken = await deliver(fitting);
    for (const [index, entry] of fitting.entries()) verdicts.set(entry, taken[index]);
    await Promise.all(fitting.filter((entry) => isFailure(verdicts.get(entry)) && !fits(entry)).map(alone));
  };
  const distinct = [...new Set(entries)];
  await Promise.all([together(distinct.filter(fits)), ...distinct.filter((entry) => !fits(entry)).map(alone)]);
  return entries.map((entry) => verdicts.get(entry) ?? NO_VERDICT);
}

const NO_VERDICT: WriteVerdict = failure('WRITE_FAILED', 'expected a verdict on every entry, got none on this one');

export interface RetryOptions {
  /** Most attempts in all. @default 6 */
  readonly attempts?: number;
  /** Longest pause before the second attempt; it doubles with each further one. @default 100 */
  readonly baseMs?: number;
  /** Longest pause before any attempt. @default 5000 */
  readonly capMs?: number;
  /** @default Math.random */
  readonly random?: () => number;
  /** Lets time pass; rejects once `signal` is aborted. @default a timer */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/**
 * Tries to get all of `items` done: each attempt is given what the one before left, and its number from 1 on, and returns
 * what is still left.
 * Pauses with exponential backoff and full jitter, and gives up when `signal` is aborted.
 *
 * @returns what is left undone
 * @see https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export async function retryRemaining<T>(
  items: readonly T[],
  attempt: (left: readonly T[], number: number) => Promise<readonly T[]>,
  signal: AbortSignal,
  { attempts = 6, baseMs = 100, capMs = 5000, random = Math.random, sleep = timer }: RetryOptions = {},
): Promise<readonly T[]> {
  const pause = (ms: number) => ranItsCourse(sleep(ms, signal), signal);
  let left = items;
  for (let tried = 0; left.length > 0 && tried < attempts; tried++) {
    if (tried > 0 && !(await pause(random() * Math.min(capMs, baseMs * 2 ** (tried - 1))))) break;
    if (signal.aborted) break;
    left = await attempt(left, tried + 1);
  }
  return left;
}

async function timer(ms: number, signal: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal });
}

/** False when `signal` cut the pause short. */
async function ranItsCourse(pause: Promise<void>, signal: AbortSignal): Promise<boolean> {
  try {
    await pause;
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  }
}

/** What one batch request of a service may hold. */
interface BatchRequestLimits {
  readonly maxEntries: number;
  /** Bytes of all entries together. */
  readonly maxBytes: number;
}

/** Packs entries, in order, into as few batch requests as hold them. An entry that is too large gets one to itself. */
export function packBatches<T extends { readonly bytes: number }>(
  entries: readonly T[],
  { maxEntries, maxBytes }: BatchRequestLimits,
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

/**
 * Writes every result to all stores at once; a result is written when each of them has taken it.
 *
 * Where stores disagree, a permanent failure outweighs a transient one: a result that is too large would be too large
 * again after a retry. This hides no transient failure, because the error result that replaces such a result is itself
 * written only once every store has taken it. A store that cannot be reached outweighs a refusal of this result.
 *
 * @throws Error when there is no store
 */
export function writeToEvery(writers: readonly ResultWriter[]): ResultWriter {
  if (writers.length === 0) throw new Error('expected at least one store for results, got none');
  return {
    async write(results, signal) {
      const byStore = await Promise.all(writers.map((writer, store) => verdictsOf(writer, store, results, signal)));
      return results.map((_, index) => inAgreement(byStore.map((verdicts) => verdicts[index])));
    },
    writtenAsOne: (results) => Math.min(...writers.map(({ writtenAsOne }) => writtenAsOne?.(results) ?? 1)),
  };
}

/** A store that throws fails all its own verdicts, and no other store's. */
async function verdictsOf(
  writer: ResultWriter,
  store: number,
  results: readonly Result[],
  signal: AbortSignal,
): Promise<readonly WriteVerdict[]> {
  try {
    const verdicts = await writer.write(results, signal);
    if (verdicts.length === results.length) return verdicts;
    throw new Error(`expected ${results.length} verdicts, got ${verdicts.length}`);
  } catch (error) {
    const broken = failure('WRITE_FAILED', `result store ${store} threw: ${describeError(error)}`);
    return results.map(() => broken);
  }
}

/** The verdict of all stores on one result. */
function inAgreement(verdicts: readonly (WriteVerdict | undefined)[]): WriteVerdict {
  const failures = verdicts.filter(isFailure);
  const permanent = failures.find((failed) => !isTransient(failed));
  return permanent ?? failures.find(({ outage }) => outage !== undefined) ?? failures[0] ?? { written: true };
}

/** What makes calls of SQS: the SDK's client, or the host's own. */
export type SqsCaller = Pick<SQSClient, 'send'>;

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html */
export const MAX_BATCH_ENTRIES = 10;
/** Bodies and attributes of one message, and of one batch request together. */
export const MAX_MESSAGE_BYTES = 1_048_576;

/** Packs entries, in order, into batch requests of at most 10 entries and 1 MiB, or as many bytes as a queue takes. */
export function packBatchRequests<T extends { readonly bytes: number }>(
  entries: readonly T[],
  maxBytes = MAX_MESSAGE_BYTES,
): T[][] {
  return packBatches(entries, { maxEntries: MAX_BATCH_ENTRIES, maxBytes });
}

/** What SQS answers to any batch request; real answers hold both lists. */
export interface BatchAnswer {
  readonly Successful?: readonly { readonly Id?: string | undefined }[] | undefined;
  readonly Failed?: readonly BatchResultErrorEntry[] | undefined;
}

/**
 * The entries that a 200 answer does not report done, and why. The ID of an entry is its position in `batch`; one that
 * the answer does not name failed too.
 */
export function refusalsIn<E>(batch: readonly E[], { Successful = [], Failed = [] }: BatchAnswer): Refusal<E>[] {
  const done = new Set(Successful.map(({ Id }) => Id));
  const failed = new Map(Failed.map((one) => [one.Id, one]));
  const refusals: Refusal<E>[] = [];
  for (const [position, entry] of batch.entries()) {
    const refused = failed.get(String(position));
    if (refused !== undefined) {
      const again = refused.SenderFault !== true;
      refusals.push({ entry, reason: describe(refused), again, outage: again ? 'busy' : undefined });
    } else if (!done.has(String(position))) {
      refusals.push({ entry, reason: 'no answer for this entry', again: true, outage: 'busy' });
    }
  }
  return refusals;
}

function describe({ Code, Message }: BatchResultErrorEntry): string {
  return Message ? `${Code}: ${Message}` : String(Code);
}

/** Every entry of a batch request that failed as a whole. */
export function allRefused<E>(batch: readonly E[], error: unknown): Refusal<E>[] {
  const [reason, again, outage] = [describeError(error), !isCallersFault(error), outageKind(error)];
  return batch.map((entry) => ({ entry, reason, again, outage }));
}
