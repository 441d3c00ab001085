import { type Failure, failure, isFailure } from '../core/contract/failure.ts';
import type { WriteVerdict } from '../core/contract/result.ts';
import { type RetryOptions, untilDone } from './retry.ts';

/** Why a store did not take an entry. */
export interface Refusal<E> {
  readonly entry: E;
  readonly reason: string;
  /** Whether it is worth another try. */
  readonly again: boolean;
}

export interface Delivery<E> {
  /** The store's name in messages. */
  readonly store: string;
  /** Hands entries to the store once. What the answer does not refuse is taken. */
  readonly attempt: (entries: readonly E[]) => Promise<readonly Refusal<E>[]>;
  readonly signal: AbortSignal;
  readonly retry?: RetryOptions | undefined;
}

/**
 * Hands entries to a store until it has taken each one or refused it for good, or until `signal` is aborted.
 *
 * @returns verdicts aligned with `entries` by index; an entry that was never tried counts as failed
 */
export async function deliver<E>(
  entries: readonly E[],
  { store, attempt, signal, retry }: Delivery<E>,
): Promise<WriteVerdict[]> {
  const untried: WriteVerdict = failure(
    'WRITE_FAILED',
    `${store}: expected time to write before the deadline, got none`,
  );
  const verdicts = new Map<E, WriteVerdict>();
  await untilDone(
    entries,
    async (left) => {
      const refusals = await attempt(left);
      for (const entry of left) verdicts.set(entry, { written: true });
      for (const { entry, reason } of refusals) verdicts.set(entry, failure('WRITE_FAILED', `${store}: ${reason}`));
      return refusals.filter(({ again }) => again).map(({ entry }) => entry);
    },
    signal,
    retry,
  );
  return entries.map((entry) => verdicts.get(entry) ?? untried);
}

export interface Offloading<E> {
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
  const together = async (fitting: readonly E[]): Promise<void> => {
    const taken = await deliver(fitting);
    for (const [index, entry] of fitting.entries()) verdicts.set(entry, taken[index]);
  };
  const alone = async (entry: E): Promise<void> => {
    const pointing = await offload(entry);
    verdicts.set(entry, isFailure(pointing) ? pointing : (await deliver([pointing]))[0]);
  };
  const distinct = [...new Set(entries)];
  await Promise.all([together(distinct.filter(fits)), ...distinct.filter((entry) => !fits(entry)).map(alone)]);
  return entries.map((entry) => verdicts.get(entry) ?? NO_VERDICT);
}

const NO_VERDICT: WriteVerdict = failure('WRITE_FAILED', 'expected a verdict on every entry, got none on this one');
