import { type Failure, failure, isFailure, type Outage } from '../core/failure.ts';
import type { WriteVerdict } from '../core/record.ts';
import { untilAborted } from './untilAborted.ts';
import { type RetryOptions, untilDone } from './untilDone.ts';

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
  await untilAborted(Promise.all(deliveries), signal);
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
  await untilDone(batch, tryOnce, signal, retry);
}

function refused(store: string, { reason, outage }: Refusal<unknown>): Failure {
  return failure('WRITE_FAILED', `${store}: ${reason}`, outage && { of: store, kind: outage });
}

export interface Offloading<E> {
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
