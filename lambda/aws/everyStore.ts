import { failure, isFailure, isTransient } from '../core/failure.ts';
import type { Result, ResultWriter, WriteVerdict } from '../core/record.ts';
import { describeError } from './awsError.ts';

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
