import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { S3Client } from '@aws-sdk/client-s3';
import type { MaybePromise } from '../core/concurrency.ts';
import { type Failure, failure, isFailure, isTransient } from '../core/failure.ts';
import type { PayloadPointer, Result, ResultWriter, WriteStatus } from '../core/record.ts';
import type { SETTINGS, Store, ValuesOf } from '../settings.ts';
import type { SqsCaller } from './sqsMessages.ts';

/** AWS clients of a host. */
export interface Clients {
  readonly sqs: SqsCaller;
  /** Loads and creates the client on first use. */
  readonly s3: () => MaybePromise<S3Client>;
  /** Client of the result table. @default one for the service that the environment names */
  readonly dynamodb?: DynamoDBClient | undefined;
}

interface StoreContext {
  readonly clients: Clients;
  /** Store for results that are too large for a message or an item. @default none: such a result is refused */
  readonly payloads: PayloadUploader | undefined;
}

/** Opens the writer of a result store. @throws Error if the settings do not say where the store is */
export type OpenStore = (settings: ValuesOf<typeof SETTINGS>, context: StoreContext) => MaybePromise<ResultWriter>;

/** Returns the place of a store. The configuration requires it if results go there. */
export function placeOf(store: Store, place: string | undefined): string {
  if (place === undefined) throw new Error(`expected the configuration to say where the ${store} of results is`);
  return place;
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

const WRITTEN: WriteStatus = { written: true };

function inAgreement(statuses: readonly WriteStatus[]): WriteStatus {
  const failures = statuses.filter(isFailure);
  const permanent = failures.find((failed) => !isTransient(failed));
  return permanent ?? failures.find(({ outage }) => outage !== undefined) ?? failures[0] ?? WRITTEN;
}
