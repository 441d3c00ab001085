import { type Failure, failure, isFailure, isTransient } from '../contract/failure.ts';
import type { Observer } from '../contract/observer.ts';
import { type MessageRecord, orderingGroup } from '../contract/record.ts';
import type { ResultWriter, WriteVerdict } from '../contract/result.ts';
import type { TimeLimit } from '../contract/timeLimit.ts';
import { encodeError } from '../encode/encode.ts';
import { passesInGroupOrder } from './groupOrder.ts';
import type { Ledger, PendingWrite } from './ledger.ts';

export interface WriteDependencies {
  readonly writer: ResultWriter;
  readonly observer: Observer;
}

/** The results of one invocation on their way to the store. */
export interface ResultsOut {
  /** Takes results that are complete. Never throws. */
  write(pending: readonly PendingWrite[]): Promise<void>;
  /** There are no more results: writes what was kept back. */
  finish(): Promise<void>;
  /** Whether results are kept back until then. */
  readonly writesLater: boolean;
}

/** Writes at once, and settles the records of what was written. */
export function writeAtOnce(ledger: Ledger, deps: WriteDependencies, time: TimeLimit): ResultsOut {
  return {
    write: (pending) => writeAndSettle(pending, ledger, deps, time),
    finish: async () => {},
    writesLater: false,
  };
}

/**
 * FIFO: keeps results back until all are there, and writes them in the order of their message groups. Of each group
 * nothing is written, nor acknowledged, after the first record that must be retried.
 */
export function writeInGroupOrder(
  records: readonly MessageRecord[],
  ledger: Ledger,
  deps: WriteDependencies,
  time: TimeLimit,
): ResultsOut {
  const deferredWrites = new Map<number, PendingWrite>();
  const groupOf = (record: number) => orderingGroup(records[record] as MessageRecord);
  return {
    writesLater: true,
    async write(pending) {
      for (const one of pending) deferredWrites.set(one.record, one);
    },
    async finish() {
      const blockedGroups = new Set<string | undefined>();
      for (const fifoPass of passesInGroupOrder(records)) {
        const open = fifoPass.filter((record) => !blockedGroups.has(groupOf(record)));
        const pending = open.map((record) => deferredWrites.get(record)).filter((one) => one !== undefined);
        await writeAndSettle(pending, ledger, deps, time);
        for (const record of fifoPass) {
          if (ledger.outcomeOf(record)?.status === 'answered') continue;
          ledger.markRetry(record, BEHIND_RETRY);
          blockedGroups.add(groupOf(record));
        }
      }
    },
  };
}

const BEHIND_RETRY = failure('BEHIND_RETRY', 'an earlier message of this message group must be retried first');

/** What a store can never hold is answered with an error instead. */
async function writeAndSettle(
  pending: readonly PendingWrite[],
  ledger: Ledger,
  deps: WriteDependencies,
  time: TimeLimit,
): Promise<void> {
  const replaced = settle(await verdictsOn(pending, deps, time), pending, ledger);
  if (replaced.length === 0) return;
  const verdicts = await verdictsOn(replaced, deps, time);
  for (const [index, { record, replacementError }] of replaced.entries()) {
    const failed = verdicts[index];
    if (failed === undefined) ledger.markWritten(record, replacementError);
    else ledger.markRetry(record, failure('WRITE_FAILED', failed.message));
  }
}

interface ReplacedWrite extends PendingWrite {
  readonly replacementError: Failure;
}

/** @returns the results that their store refused for good, each replaced by an error */
function settle(
  verdicts: readonly (Failure | undefined)[],
  pending: readonly PendingWrite[],
  ledger: Ledger,
): ReplacedWrite[] {
  const replaced: ReplacedWrite[] = [];
  for (let index = 0; index < pending.length; index++) {
    const one = pending[index] as PendingWrite;
    const failed = verdicts[index];
    if (failed === undefined) ledger.markWritten(one.record);
    else if (isTransient(failed)) ledger.markRetry(one.record, failed);
    else replaced.push(replacedBy(failed, one));
  }
  return replaced;
}

function replacedBy(replacementError: Failure, { record, id, result }: PendingWrite): ReplacedWrite {
  const body = encodeError(result.messageId, id, replacementError);
  return { record, id, result: { ...result, body }, replacementError };
}

/** Why each result was not written, aligned with `pending`; undefined where it was. */
async function verdictsOn(
  pending: readonly PendingWrite[],
  { writer, observer }: WriteDependencies,
  time: TimeLimit,
): Promise<(Failure | undefined)[]> {
  if (pending.length === 0) return [];
  try {
    const results = pending.map(({ result }) => result);
    const verdicts = await writer.write(results, time.signal);
    if (verdicts.length !== pending.length) {
      throw new Error(`expected ${pending.length} verdicts from the result writer, got ${verdicts.length}`);
    }
    return Array.from(verdicts, refusalIn);
  } catch (error) {
    observer.problem(error);
    return pending.map(() => failure('WRITE_FAILED', 'expected verdicts from the result writer; it threw'));
  }
}

/** A verdict that is neither a failure nor says that the result was written is a failure too. */
function refusalIn(verdict: WriteVerdict | undefined): Failure | undefined {
  if (isFailure(verdict)) return verdict;
  if (verdict?.written === true) return undefined;
  return failure('WRITE_FAILED', 'expected a verdict from the result writer for every result; this one had none');
}
