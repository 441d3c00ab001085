import { type Failure, failure, isFailure } from '../core/failure.ts';
import type { WriteVerdict } from '../core/result.ts';
import { type RetryOptions, untilDone } from './retry.ts';

/** Why a store did not take an entry. `again`: worth another try. */
export interface Refusal<E> {
  readonly entry: E;
  readonly reason: string;
  readonly again: boolean;
}

export interface Delivery<E> {
  /** The store's name in messages. */
  readonly store: string;
  /** Hands entries to the store once. What the answer does not refuse was taken. */
  readonly attempt: (entries: readonly E[]) => Promise<readonly Refusal<E>[]>;
  readonly signal: AbortSignal;
  readonly retry?: RetryOptions | undefined;
}

/**
 * Hands entries to a store until it has taken each, refused it for good, or `signal` is aborted.
 *
 * @returns verdicts aligned with `entries` by index; an entry that was never tried counts as failed
 */
export async function deliver<E>(
  entries: readonly E[],
  { store, attempt, signal, retry }: Delivery<E>,
): Promise<WriteVerdict[]> {
  const untried: WriteVerdict = failure('WRITE_FAILED', `${store}: expected time to write, the deadline had passed`);
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
 * Delivers what fits its store together, and what does not one by one, once its body lies elsewhere: a slow upload
 * holds up no other entry.
 *
 * @returns verdicts aligned with `entries` by index
 */
export async function deliverOrOffload<E>(
  entries: readonly E[],
  { fits, offload, deliver }: Offloading<E>,
): Promise<WriteVerdict[]> {
  const fitting = deliver(entries.filter(fits));
  let taken = 0;
  return Promise.all(
    entries.map(async (entry) => {
      if (fits(entry)) {
        const index = taken++;
        return verdictAt(await fitting, index);
      }
      const pointing = await offload(entry);
      return isFailure(pointing) ? pointing : verdictAt(await deliver([pointing]), 0);
    }),
  );
}

function verdictAt(verdicts: readonly WriteVerdict[], index: number): WriteVerdict {
  const verdict = verdicts[index];
  if (verdict === undefined) throw new Error(`expected a verdict at ${index} of ${verdicts.length}`);
  return verdict;
}
