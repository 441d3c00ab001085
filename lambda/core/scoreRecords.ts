import { deferred } from './base/deferred.ts';
import { openPipe } from './base/pipe.ts';
import { failure } from './contract/failure.ts';
import type { MessageRecord } from './contract/record.ts';
import { type DecodedBody, type DecodedRequest, isPacked, isRefused } from './contract/request.ts';
import type { Outcome } from './contract/result.ts';
import { decodeInOrder } from './decode/decodeInOrder.ts';
import type { ScoringDependencies, TimeLimit } from './dependencies.ts';
import { NO_EQUALS, openEqualRequests } from './equalRequests.ts';
import { horizonsOf } from './plan/chunks.ts';
import type { MicroBatch } from './plan/microBatch.ts';
import { type Call, MICRO_BATCHES_IN_THE_PIPE, scoreMicroBatch } from './run/scoreMicroBatch.ts';
import { type Ledger, openLedger, type ReadyResult } from './settle/ledger.ts';
import { openResults } from './settle/writeResults.ts';

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
  for (const horizon of horizonsOf(records)) {
    for (const outcome of await scoreHorizon(horizon, deps, time)) outcomes.push(outcome);
  }
  return outcomes;
}

/** Records that are decoded and planned together. */
async function scoreHorizon(
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<Outcome[]> {
  if (time.signal.aborted) return records.map(() => OUT_OF_TIME);
  const ledger = openLedger(records);
  await untilAborted(scoreAll(records, ledger, deps, time), time.signal);
  return records.map((_, record) => ledger.outcomeOf(record) ?? (time.signal.aborted ? OUT_OF_TIME : UNSETTLED));
}

/** Decodes and plans while micro-batches that are complete run, and those that have run are written. */
async function scoreAll(
  records: readonly MessageRecord[],
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  const equals = deps.limits.collapseEqualRequests ? openEqualRequests() : NO_EQUALS;
  const results = openResults(records, ledger, deps, time);
  const call: Call = { ledger, equals, deps, time, running: 0, doubted: new Set(), write: results.write };
  const pipe = openPipe(MICRO_BATCHES_IN_THE_PIPE);
  const run = (batch: MicroBatch): Promise<void> => pipe.take(() => scoreMicroBatch(batch, call));
  const planned = deps.plan((model) => Math.min(deps.limits.maxBatchElements, deps.pace.mostElements(model)));
  const refusals: Promise<void>[] = [];
  try {
    for await (const { from, bodies } of decodeInOrder(records, deps, time.signal)) {
      const refused: ReadyResult[] = [];
      const closed: MicroBatch[] = [];
      const plan = (request: DecodedRequest): void => {
        if (isRefused(request) || equals.joins(request)) return;
        for (const batch of planned.add(request)) closed.push(batch);
      };
      for (let index = 0; index < bodies.length; index++) {
        const body = bodies[index] as DecodedBody;
        const ready = ledger.enter(from + index, body);
        if (ready !== undefined) refused.push(ready);
        if (isPacked(body)) body.forEach(plan);
        else plan(body);
      }
      if (refused.length > 0) refusals.push(results.write(refused));
      for (const batch of closed) await run(batch);
    }
    for (const batch of planned.finish()) await run(batch);
  } finally {
    await pipe.drained();
    await Promise.all(refusals);
  }
  await results.writeInGroupOrder();
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
