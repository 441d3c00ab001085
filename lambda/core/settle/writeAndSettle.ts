import { type Failure, failure, isFailure, isTransient } from '../contract/failure.ts';
import type { Observer } from '../contract/observer.ts';
import type { ResultWriter, WriteVerdict } from '../contract/result.ts';
import type { TimeLimit } from '../contract/timeLimit.ts';
import { encodeError } from '../encode/encode.ts';
import type { Ledger, PendingWrite } from './ledger.ts';

export interface WriteDependencies {
  readonly writer: ResultWriter;
  readonly observer: Observer;
  /** A clock that never goes back, in milliseconds. */
  readonly now: () => number;
}

/**
 * Writes results together, and settles the records of what was written. What a store can never hold is answered with an
 * error instead. Never throws.
 */
export async function writeAndSettle(
  pending: readonly PendingWrite[],
  ledger: Ledger,
  deps: WriteDependencies,
  time: TimeLimit,
): Promise<void> {
  if (pending.length === 0) return;
  const startedAt = deps.now();
  const replaced = settle(await verdictsOn(pending, deps, time), pending, ledger);
  const verdicts = await verdictsOn(replaced, deps, time);
  for (const [index, { record, replacementError }] of replaced.entries()) {
    const failed = verdicts[index];
    if (failed === undefined) ledger.markWritten(record, replacementError);
    else ledger.markRetry(record, failure('WRITE_FAILED', failed.message, failed.outage));
  }
  const endedAt = deps.now();
  deps.observer.stage?.('write', startedAt, endedAt, { results: pending.length });
  deps.observer.written(endedAt - startedAt);
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
