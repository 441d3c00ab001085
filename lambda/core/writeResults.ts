import { createRoom } from './concurrency.ts';
import { encodeError } from './encode.ts';
import { type Failure, failure, isFailure, isTransient } from './failure.ts';
import type { Ledger, PendingWrite } from './ledger.ts';
import type { Observer } from './observer.ts';
import {
  type MessageRecord,
  orderingGroup,
  type Result,
  type ResultWriter,
  type TimeLimit,
  type WriteVerdict,
} from './record.ts';

/** The results of one invocation on their way to the store. */
export interface ResultsOut {
  /** Takes results that are complete. Resolves once there is memory for more of them. Never throws. */
  write(pending: readonly PendingWrite[]): Promise<void>;
  /** Resolves when what was taken so far is written, unless it is kept back, and its records are settled. */
  settled(): Promise<void>;
  /** There are no more results: writes what was kept back. */
  finish(): Promise<void>;
  /** Whether results are kept back until then. */
  readonly writesLater: boolean;
}

/** Characters of results that are not written yet. While there are more, no further ones are asked for. */
const UNWRITTEN_CHARACTERS = 4 * 1024 * 1024;
/** What fills a batch request of any store need not wait for company. */
const CHARACTERS_ENOUGH = 1024 * 1024;
/** About one write of SQS. A write that gets no answer holds up the results after it for no longer. */
const LONGEST_GATHERING_MS = 20;

/**
 * Results that become ready while others are being written share the next write, so that a model that runs one row at a
 * time does not cost a batch request for each. With nothing under way they are written at once.
 */
export function writeTogether(ledger: Ledger, deps: WriteDependencies, time: TimeLimit): ResultsOut {
  const room = createRoom(UNWRITTEN_CHARACTERS);
  const underWay = new Set<Promise<void>>();
  let gathered: PendingWrite[] = [];
  let characters = 0;
  let timer: NodeJS.Timeout | undefined;

  const writeGathered = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (gathered.length === 0) return;
    const pending = gathered;
    gathered = [];
    characters = 0;
    const writing = writeAndSettle(pending, ledger, deps, time)
      .catch((error) => deps.observer.problem(error))
      .then(() => {
        underWay.delete(writing);
        for (const { record } of pending) room.release(record);
        writeGathered();
      });
    underWay.add(writing);
  };
  return {
    writesLater: false,
    async write(pending) {
      for (const one of pending) {
        const { length } = one.result.body;
        gathered.push(one);
        characters += length;
        room.occupy(one.record, length);
      }
      if (underWay.size === 0 || characters >= CHARACTERS_ENOUGH) writeGathered();
      else timer ??= setTimeout(writeGathered, LONGEST_GATHERING_MS);
      await room.spare(time.signal);
    },
    async settled() {
      writeGathered();
      while (underWay.size > 0) await Promise.all(underWay);
    },
    finish: async () => {},
  };
}

/**
 * FIFO: keeps results back until all are there, and writes them in the order of their message groups. Of each group
 * nothing is written, nor acknowledged, after the first record that must be retried. Results of a group that their store
 * takes all or not at all are written together, any others one after the other.
 */
export function writeInGroupOrder(
  records: readonly MessageRecord[],
  ledger: Ledger,
  deps: WriteDependencies,
  time: TimeLimit,
): ResultsOut {
  const keptBack = new Map<number, PendingWrite>();
  return {
    writesLater: true,
    async write(pending) {
      for (const one of pending) keptBack.set(one.record, one);
    },
    settled: async () => {},
    async finish() {
      let groups = inMessageGroups(records);
      while (groups.length > 0) {
        const pending = groups.flatMap((group) => firstTogether(group, keptBack, deps.writer));
        await writeAndSettle(pending, ledger, deps, time);
        groups = groups.map((group) => leftOf(group, keptBack, ledger)).filter((group) => group.length > 0);
      }
    },
  };
}

/** The results of a group's first records that may be written now: the first, and what is written with it or not at all. */
function firstTogether(
  group: readonly number[],
  keptBack: ReadonlyMap<number, PendingWrite>,
  { writtenAsOne = () => 1 }: ResultWriter,
): PendingWrite[] {
  const ready: PendingWrite[] = [];
  for (const record of group) {
    const one = keptBack.get(record);
    if (one === undefined) break;
    ready.push(one);
  }
  const results = ready.map(({ result }): Result => result);
  return ready.slice(0, Math.max(1, writtenAsOne(results)));
}

const BEHIND_RETRY = failure('BEHIND_RETRY', 'an earlier message of this message group must be retried first');

/** What is left of a group behind its answered records: nothing where the next one must be retried, and so all behind it. */
function leftOf(group: readonly number[], keptBack: ReadonlyMap<number, PendingWrite>, ledger: Ledger): number[] {
  const firstOpen = group.findIndex((record) => ledger.outcomeOf(record)?.status !== 'answered');
  const left = firstOpen < 0 ? [] : group.slice(firstOpen);
  const [next] = left;
  if (next === undefined || (keptBack.has(next) && ledger.outcomeOf(next) === undefined)) return left;
  for (const record of left) ledger.markRetry(record, BEHIND_RETRY);
  return [];
}

/** FIFO records by message group, each group in its order. Standard records are in none. Entries are indexes into `records`. */
export function inMessageGroups(records: readonly MessageRecord[]): number[][] {
  const groups = new Map<string, number[]>();
  for (const [index, record] of records.entries()) {
    const name = orderingGroup(record);
    if (name === undefined) continue;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [index]);
    else group.push(index);
  }
  return [...groups.values()];
}

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
async function writeAndSettle(
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
