import { type Failure, failure, isFailure, isTransient } from '../contract/failure.ts';
import { type MessageRecord, orderingGroup } from '../contract/record.ts';
import type { WriteVerdict } from '../contract/result.ts';
import type { ScoringDependencies, TimeLimit } from '../dependencies.ts';
import { encodeError } from '../encode/encode.ts';
import { roundsInGroupOrder } from './groupOrder.ts';
import type { Ledger, ReadyResult } from './ledger.ts';

/** The results of one call on their way to the store. */
export interface Results {
  /** Writes results and settles their records; those of FIFO records are kept until the end. Never throws. */
  write(ready: readonly ReadyResult[]): Promise<void>;
  /** FIFO: of each message group nothing is written, nor acknowledged, after the first record that must be retried. */
  writeInGroupOrder(): Promise<void>;
}

export function openResults(
  records: readonly MessageRecord[],
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): Results {
  const rounds = roundsInGroupOrder(records);
  const kept = new Map<number, ReadyResult>();
  return {
    async write(ready) {
      if (rounds.length === 0) await writeNow(ready, ledger, deps, time);
      else for (const one of ready) kept.set(one.record, one);
    },
    async writeInGroupOrder() {
      const held = new Set<string | undefined>();
      const groupOf = (record: number) => orderingGroup(records[record] as MessageRecord);
      for (const round of rounds) {
        const open = round.filter((record) => !held.has(groupOf(record)));
        await writeNow(
          open.map((record) => kept.get(record)).filter((one) => one !== undefined),
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
    },
  };
}

/** What a store can never hold is answered with an error instead. */
async function writeNow(
  ready: readonly ReadyResult[],
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  const refused = settle(await verdictsOn(ready, deps, time), ready, ledger);
  if (refused.length === 0) return;
  const verdicts = await verdictsOn(refused, deps, time);
  for (const [index, { record, instead }] of refused.entries()) {
    const failed = verdicts[index];
    if (failed === undefined) ledger.written(record, instead);
    else ledger.handBack(record, failure('WRITE_FAILED', failed.message));
  }
}

interface RefusedResult extends ReadyResult {
  /** The error that is written in its place. */
  readonly instead: Failure;
}

/** @returns the results that their store refused for good, as errors */
function settle(
  verdicts: readonly (Failure | undefined)[],
  ready: readonly ReadyResult[],
  ledger: Ledger,
): RefusedResult[] {
  const refused: RefusedResult[] = [];
  for (let index = 0; index < ready.length; index++) {
    const one = ready[index] as ReadyResult;
    const failed = verdicts[index];
    if (failed === undefined) ledger.written(one.record);
    else if (isTransient(failed)) ledger.handBack(one.record, failed);
    else refused.push({ ...withError(one, failed), instead: failed });
  }
  return refused;
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
