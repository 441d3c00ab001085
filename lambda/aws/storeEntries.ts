import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { S3Client } from '@aws-sdk/client-s3';
import type { MaybePromise } from '../core/concurrency.ts';
import { type Failure, failure, isFailure } from '../core/failure.ts';
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

export interface StoreContext {
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
