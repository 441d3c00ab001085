import type { ScoringDependencies, TimeLimit } from './dependencies.ts';
import { encodeError } from './encode.ts';
import { type Failure, failure, isFailure, isTransient } from './failure.ts';
import { roundsInGroupOrder } from './groupOrder.ts';
import type { Ledger, ReadyResult } from './ledger.ts';
import { type MessageRecord, orderingGroup } from './record.ts';
import type { WriteVerdict } from './result.ts';

/**
 * FIFO: of each message group nothing is written, nor acknowledged, after the first record that must be retried.
 *
 * @param ready the results of FIFO records, by record
 */
export async function writeInGroupOrder(
  records: readonly MessageRecord[],
  ready: ReadonlyMap<number, ReadyResult>,
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  const held = new Set<string | undefined>();
  const groupOf = (record: number) => orderingGroup(records[record] as MessageRecord);
  for (const round of roundsInGroupOrder(records)) {
    const open = round.filter((record) => !held.has(groupOf(record)));
    await writeResults(
      open.map((record) => ready.get(record)).filter((one) => one !== undefined),
      ledger,
      deps,
      time,
    );
    for (const record of round) {
      if (ledger.outcomeOf(record)?.status === 'answered') continue;
      const behind = failure('BEHIND_RETRY', 'an earlier message of this message group must be retried first');
      ledger.handBack(record, behind);
      held.add(groupOf(record));
    }
  }
}

/** Writes results and settles their records. What its store can never hold is answered with an error instead. */
export async function writeResults(
  ready: readonly ReadyResult[],
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  const refused: (ReadyResult & { readonly instead: Failure })[] = [];
  for (const [index, failed] of (await verdictsOn(ready, deps, time)).entries()) {
    const one = ready[index] as ReadyResult;
    if (failed === undefined) ledger.written(one.record);
    else if (isTransient(failed)) ledger.handBack(one.record, failed);
    else refused.push({ ...withError(one, failed), instead: failed });
  }
  for (const [index, failed] of (await verdictsOn(refused, deps, time)).entries()) {
    const { record, instead } = refused[index] as (typeof refused)[number];
    if (failed === undefined) ledger.written(record, instead);
    else ledger.handBack(record, failure('WRITE_FAILED', failed.message));
  }
}

function withError({ record, id, result }: ReadyResult, failed: Failure): ReadyResult {
  return { record, id, result: { ...result, body: encodeError(result.messageId, id, failed) } };
}

/** Why each result was not written, aligned with `ready`; undefined where it was. */
async function verdictsOn(
  ready: readonly ReadyResult[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<(Failure | undefined)[]> {
  if (ready.length === 0) return [];
  try {
    const results = ready.map(({ result }) => result);
    const verdicts = await deps.writer.write(results, time.signal);
    if (verdicts.length !== ready.length) {
      throw new Error(`expected ${ready.length} verdicts from the result writer, got ${verdicts.length}`);
    }
    return Array.from(verdicts, refusalIn);
  } catch (error) {
    deps.observer.problem(error);
    return ready.map(() => failure('WRITE_FAILED', 'expected verdicts from the result writer, it threw'));
  }
}

/** A verdict that is neither a failure nor says that the result was written is a failure too. */
function refusalIn(verdict: WriteVerdict | undefined): Failure | undefined {
  if (isFailure(verdict)) return verdict;
  if (verdict?.written === true) return undefined;
  return failure('WRITE_FAILED', 'expected a verdict from the result writer for every result, this one had none');
}
