import { decodeBody } from './decode.ts';
import { deferred } from './deferred.ts';
import type { ScoringDependencies, TimeLimit } from './dependencies.ts';
import { failure } from './failure.ts';
import { horizonsOf } from './horizon.ts';
import { type Ledger, openLedger, type ReadyResult } from './ledger.ts';
import type { MessageRecord } from './record.ts';
import type { DecodedBody } from './request.ts';
import type { Outcome } from './result.ts';
import { MICRO_BATCHES_IN_THE_PIPE, scoreMicroBatch } from './scoreMicroBatch.ts';
import { writeInGroupOrder, writeResults } from './writeResults.ts';

export type { MicroBatchReport, Observer, ScoringDependencies, ScoringLimits, TimeLimit } from './dependencies.ts';

/**
 * Scores records and writes one result per message ID.
 *
 * Outcomes align with `records` by index. A record is `answered` only after every store has taken its result;
 * everything else is `retry`. Never throws for a record's sake, and returns when `time.signal` is aborted.
 */
export async function scoreRecords(
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const horizon of horizonsOf(records)) outcomes.push(...(await scoreHorizon(horizon, deps, time)));
  return outcomes;
}

/** Records that are decoded and planned together. */
async function scoreHorizon(
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<Outcome[]> {
  if (time.signal.aborted) return records.map(() => OUT_OF_TIME);
  let ledger: Ledger | undefined;
  const work = async (): Promise<void> => {
    ledger = openLedger(records, await decodeAll(records, deps, time.signal));
    await scoreAll(records, ledger, deps, time);
  };
  await untilAborted(work(), time.signal);
  return records.map((_, record) => ledger?.outcomeOf(record) ?? (time.signal.aborted ? OUT_OF_TIME : UNSETTLED));
}

async function scoreAll(
  records: readonly MessageRecord[],
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  const microBatches = deps.plan(ledger.requests, deps.limits);
  const pipe = { running: 0 };
  const inGroupOrder = new Map<number, ReadyResult>();
  const write = async (ready: readonly ReadyResult[]): Promise<void> => {
    for (const one of ready) if (isOrdered(one)) inGroupOrder.set(one.record, one);
    await writeResults(
      ready.filter((one) => !isOrdered(one)),
      ledger,
      deps,
      time,
    );
  };
  await Promise.all([
    write(ledger.refused),
    inLanes(microBatches, MICRO_BATCHES_IN_THE_PIPE, async (batch) => {
      await write(await scoreMicroBatch(batch, ledger, deps, time, pipe));
    }),
  ]);
  await writeInGroupOrder(records, inGroupOrder, ledger, deps, time);
}

/** Waits for the work, or for the signal: a run that outlasts the deadline must not take the answered down with it. */
async function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = deferred();
  const onAbort = () => aborted.resolve();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** What is still at work when the signal is aborted is handed back; nothing more is written of it. */
const OUT_OF_TIME: Outcome = {
  status: 'retry',
  failure: failure('DEADLINE', 'expected the record to be settled before the deadline, it was not'),
};

/** The outcome of a record that nothing else has settled: a missing verdict is a failure, never an answer. */
const UNSETTLED: Outcome = {
  status: 'retry',
  failure: failure('INTERNAL', 'expected every record to be settled, this one was not; it is handed back'),
};

function isOrdered({ result }: ReadyResult): boolean {
  return result.messageGroupId !== undefined;
}

/** Bodies decoded at the same time: enough for S3 and transforms, few enough that parsed JSON dies young. */
const DECODED_TOGETHER = 64;

async function decodeAll(
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
  signal: AbortSignal,
): Promise<DecodedBody[]> {
  const bodies: DecodedBody[] = [];
  for (let from = 0; from < records.length; from += DECODED_TOGETHER) {
    const together = records.slice(from, from + DECODED_TOGETHER);
    bodies.push(...(await Promise.all(together.map((record) => decodeOne(record, deps, signal)))));
  }
  return bodies;
}

async function decodeOne(record: MessageRecord, deps: ScoringDependencies, signal: AbortSignal): Promise<DecodedBody> {
  try {
    return await decodeBody(record.body, deps, signal);
  } catch (error) {
    deps.observer.problem(error);
    const failed = failure('INTERNAL', 'expected the decoder to answer, it threw; the record is handed back');
    return { packed: false, requests: [{ id: undefined, failure: failed }] };
  }
}

/** Runs `work` on every item in order, on at most `lanes` at once. */
async function inLanes<T>(items: readonly T[], lanes: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const lane = async (): Promise<void> => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
