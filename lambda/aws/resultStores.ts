import { type Failure, isFailure, isTransient } from '../core/failure.ts';
import type { Result, ResultWriter, WriteStatus } from '../core/record.ts';
import type { SETTINGS, Store, ValuesOf } from '../settings.ts';
import { openQueueStore } from './resultQueue.ts';
import { NO_STATUS, type OpenStore, type StoreContext } from './storeEntries.ts';

/** Result stores by name. The code of a store that results do not go to is not loaded. */
const OPEN: Readonly<Record<Store, OpenStore>> = {
  queue: openQueueStore,
  table: async (...given) => (await import('./resultTable.ts')).openTableStore(...given),
  bucket: async (...given) => (await import('./resultBucket.ts')).openBucketStore(...given),
};

/**
 * Opens the stores that results go to.
 *
 * @throws Error if there is none, or the settings do not say where one is
 */
export async function openResultStores(
  stores: readonly Store[],
  settings: ValuesOf<typeof SETTINGS>,
  context: StoreContext,
): Promise<ResultWriter> {
  return writeToEvery(await Promise.all(stores.map((store) => OPEN[store](settings, context))));
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
