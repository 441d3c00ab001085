import { setTimeout } from 'node:timers/promises';
import type { BatchResultErrorEntry, MessageAttributeValue, SQSClient } from '@aws-sdk/client-sqs';
import { waitOrAbort } from '../core/concurrency.ts';
import { type Failure, failure, isFailure, isTransient, type Outage } from '../core/failure.ts';
import type { PayloadPointer, Result, ResultWriter, WriteStatus } from '../core/record.ts';
import { describeError, isCallersFault, outageKind } from './awsError.ts';

export interface Refusal<E> {
  readonly entry: E;
  readonly reason: string;
  readonly again: boolean;
  /** Kind of outage. Undefined if the entry may be at fault. */
  readonly outage?: Outage['kind'] | undefined;
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

export interface PayloadUploader {
  /** Puts a result's body under its own key. @returns a pointer, or WRITE_FAILED if S3 did not take it in time */
  put(body: string, signal: AbortSignal): Promise<PayloadPointer | Failure>;
}

/** Size limits of a store's entries. */
export interface Container<E> {
  /** Name of an entry's container for messages: `a DynamoDB item`. */
  readonly container: string;
  readonly bytesOf: (entry: E) => number;
  /** Maximum size of an entry. It may shrink when the store refuses entries, which are then offloaded. */
  readonly maxBytes: () => number;
  /** Store for larger bodies. If it is missing, a large entry is refused permanently. */
  readonly payloads: PayloadUploader | undefined;
}

interface Offloading<E> extends Container<E> {
  /** Returns a small entry that points to the body of a large one. */
  readonly toPointer: (entry: E, pointer: PayloadPointer) => E;
  readonly signal: AbortSignal;
  readonly sendBatches: (entries: readonly E[]) => Promise<readonly WriteStatus[]>;
}

/**
 * Sends the entries that fit the store together. Each other entry is sent when its body is in the payload bucket, so a
 * slow upload delays no other entry. An entry that occurs several times is sent once.
 *
 * @returns statuses aligned with `entries` by index
 */
export async function sendOrOffload<E extends { readonly result: Result }>(
  entries: readonly E[],
  offloading: Offloading<E>,
): Promise<WriteStatus[]> {
  const { bytesOf, maxBytes, payloads, toPointer, signal, sendBatches } = offloading;
  const statuses = new Map<E, WriteStatus | undefined>();
  const isTooLarge = (entry: E): boolean => bytesOf(entry) > maxBytes();
  const offload = async (entry: E): Promise<WriteStatus | undefined> => {
    if (payloads === undefined) return resultTooLarge(entry, offloading);
    const pointer = await payloads.put(entry.result.body, signal);
    return isFailure(pointer) ? pointer : (await sendBatches([toPointer(entry, pointer)]))[0];
  };
  const alone = async (entry: E): Promise<void> => void statuses.set(entry, await offload(entry));
  const together = async (fitting: readonly E[]): Promise<void> => {
    const taken = await sendBatches(fitting);
    for (const [index, entry] of fitting.entries()) statuses.set(entry, taken[index]);
    await Promise.all(fitting.filter((entry) => isFailure(statuses.get(entry)) && isTooLarge(entry)).map(alone));
  };
  const distinct = [...new Set(entries)];
  const large = distinct.filter(isTooLarge);
  await Promise.all([together(distinct.filter((entry) => !isTooLarge(entry))), ...large.map(alone)]);
  return entries.map((entry) => statuses.get(entry) ?? NO_STATUS);
}

export const NO_STATUS: WriteStatus = failure(
  'WRITE_FAILED',
  'expected a status on every result, got none on this one',
);

/** Returns a failure if an entry that cannot be offloaded is too large. */
export function refusedForSize<E>(entry: E, container: Container<E>): Failure | undefined {
  return container.bytesOf(entry) > container.maxBytes() ? resultTooLarge(entry, container) : undefined;
}

function resultTooLarge<E>(entry: E, { container, bytesOf, maxBytes }: Container<E>): Failure {
  return failure(
    'RESULT_TOO_LARGE',
    `expected a result of at most ${maxBytes()} bytes, the size of ${container}, got ${bytesOf(entry)}; ` +
      'ask for fewer outputs, send fewer rows in a request, or deploy a payload bucket',
  );
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

/**
 * Writes every result to all stores concurrently. A result is written when each store has taken it. A result that one
 * store can never hold is written to none: otherwise the other stores would hold both its scores and the error.
 *
 * If stores disagree, a permanent failure outweighs a transient one: a result that is too large stays too large after a
 * retry. This hides no transient failure, because the error result that replaces it must itself be written to every
 * store. An unreachable store outweighs both.
 *
 * @throws Error if there is no store
 */
export function writeToEvery(writers: readonly ResultWriter[]): ResultWriter {
  if (writers.length === 0) throw new Error('expected at least one store for results, got none');
  return {
    async write(results, signal) {
      const refusals = results.map((result) => refusedByOne(result, writers));
      const fitting = results.filter((_, index) => refusals[index] === undefined);
      const byStore = await Promise.all(writers.map((writer) => writer.write(fitting, signal)));
      let next = 0;
      return refusals.map((refused) => {
        if (refused !== undefined) return refused;
        const index = next++;
        return inAgreement(byStore.map((statuses) => statuses[index] ?? NO_STATUS));
      });
    },
    writtenAsOne: (results) => Math.min(...writers.map(({ writtenAsOne }) => writtenAsOne?.(results) ?? 1)),
  };
}

/** A single store reports a refusal itself. */
function refusedByOne(result: Result, writers: readonly ResultWriter[]): Failure | undefined {
  if (writers.length === 1) return undefined;
  for (const writer of writers) {
    const refused = writer.refuses?.(result);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

function inAgreement(statuses: readonly WriteStatus[]): WriteStatus {
  const failures = statuses.filter(isFailure);
  const permanent = failures.find((failed) => !isTransient(failed));
  return permanent ?? failures.find(({ outage }) => outage !== undefined) ?? failures[0] ?? WRITTEN;
}

/** Maximum number of concurrent calls of a writer, or of an action on messages. */
export const CALLS_IN_FLIGHT = 16;

/** Makes SQS calls: the SDK's client, or the host's own. */
export type SqsCaller = Pick<SQSClient, 'send'>;

/** Maximum number of messages in one SQS call. @see the page of `MAX_MESSAGE_BYTES` */
export const MAX_BATCH_ENTRIES = 10;

/** Response to an SQS batch request. Real responses have both lists. */
export interface BatchAnswer {
  readonly Successful?: readonly { readonly Id?: string | undefined }[] | undefined;
  readonly Failed?: readonly BatchResultErrorEntry[] | undefined;
}

/**
 * Returns the entries that a 200 response does not report as done, with the reasons. The ID of an entry is its position
 * in `batch`. An entry that the response does not name has failed, too.
 */
export function refusalsIn<E>(batch: readonly E[], { Successful = [], Failed = [] }: BatchAnswer): Refusal<E>[] {
  const done = new Set(Successful.map(({ Id }) => Id));
  const failed = new Map(Failed.map((one) => [String(one.Id), one]));
  // If a response names unknown entries as failed, any entry may have failed.
  const isOdd = batch.filter((_, position) => failed.has(String(position))).length < failed.size;
  const refusals: Refusal<E>[] = [];
  for (const [position, entry] of batch.entries()) {
    const refused = failed.get(String(position));
    if (refused !== undefined) {
      const again = refused.SenderFault !== true;
      refusals.push({ entry, reason: describe(refused), again, outage: again ? 'busy' : undefined });
    } else if (isOdd || !done.has(String(position))) {
      const reason = isOdd ? 'an answer that names entries that were not sent' : 'no answer for this entry';
      refusals.push({ entry, reason, again: true, outage: 'busy' });
    }
  }
  return refusals;
}

function describe({ Code, Message }: { readonly Code?: unknown; readonly Message?: unknown }): string {
  const code = typeof Code === 'string' ? Code : 'no code';
  return typeof Message === 'string' && Message !== '' ? `${code}: ${Message}` : code;
}

export function allRefused<E>(batch: readonly E[], error: unknown): Refusal<E>[] {
  const [reason, again, outage] = [describeError(error), !isCallersFault(error), outageKind(error)];
  return batch.map((entry) => ({ entry, reason, again, outage }));
}

/** Returns the bytes of message attributes, as SQS counts them. */
export function bytesOf(attributes: Readonly<Record<string, MessageAttributeValue>>): number {
  let bytes = 0;
  for (const [name, { DataType = '', StringValue = '' }] of Object.entries(attributes)) {
    bytes += Buffer.byteLength(name + DataType + StringValue);
  }
  return bytes;
}

/** Minimum of a size limit of a queue. */
const LEAST_LIMIT = 1_024;
/** Matches `Message must be shorter than 262144 bytes.` and `Batch requests cannot be longer than 262144 bytes. …`. */
const SIZE_REFUSAL = /\b(?:shorter|longer) than (\d+) bytes/;

/** Returns the queue's size limit, if the reason for its refusal states it. */
export function limitIn(reason: string): number | undefined {
  const max = SIZE_REFUSAL.exec(reason)?.[1];
  return max === undefined || Number(max) < LEAST_LIMIT ? undefined : Number(max);
}
