import { deferred } from './base/deferred.ts';
import { createPipe } from './base/pipe.ts';
import { failure } from './contract/failure.ts';
import { type MessageRecord, orderingGroup } from './contract/record.ts';
import { type DecodedBody, isPacked, isRefused } from './contract/request.ts';
import type { Outcome } from './contract/result.ts';
import type { TimeLimit } from './contract/timeLimit.ts';
import { type DecodedBodies, decodeInOrder } from './decode/decodeInOrder.ts';
import type { ScoringDependencies } from './dependencies.ts';
import { splitByPayloadSize } from './plan/chunks.ts';
import type { MicroBatch } from './plan/microBatch.ts';
import type { Plan } from './plan/planner.ts';
import type { Invocation } from './run/invocation.ts';
import { scoreMicroBatch } from './run/scoreMicroBatch.ts';
import { createLedger, type Ledger, type PendingWrite } from './settle/ledger.ts';
import { createPartialOutputs } from './settle/partialOutputs.ts';
import { type ResultsOut, writeAtOnce, writeInGroupOrder } from './settle/writeResults.ts';

export type { ScoringDependencies, ScoringLimits } from './dependencies.ts';

/** How many micro-batches stand between stack and write at most. */
const MICRO_BATCHES_IN_THE_PIPE = 2;

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
  for (const chunk of splitByPayloadSize(records)) {
    for (const outcome of await scoreChunk(chunk, deps, time)) outcomes.push(outcome);
  }
  return outcomes;
}

/** Records that are decoded and planned together. */
async function scoreChunk(
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<Outcome[]> {
  if (time.signal.aborted) return records.map(() => OUT_OF_TIME);
  const ledger = createLedger(records);
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
  const results = openResults(records, ledger, deps, time);
  const invocation: Invocation = {
    ledger,
    partialOutputs: createPartialOutputs(),
    deps,
    time,
    running: 0,
    doubted: new Set(),
    write: results.write,
  };
  const pipe = createPipe(MICRO_BATCHES_IN_THE_PIPE);
  const run = (batch: MicroBatch): Promise<void> => pipe.take(() => scoreMicroBatch(batch, invocation));
  const plan = deps.plan((model) => Math.min(deps.limits.maxBatchElements, deps.memory.mostElements(model)));
  const refusals: Promise<void>[] = [];
  try {
    for await (const decoded of decodeInOrder(records, deps, time.signal)) {
      const { refused, closed } = enterBodies(decoded, plan, ledger);
      if (refused.length > 0) refusals.push(results.write(refused));
      for (const batch of closed) await run(batch);
    }
    for (const batch of plan.finish()) await run(batch);
  } finally {
    await pipe.drained();
    await Promise.all(refusals);
  }
  await results.finish();
}

function openResults(
  records: readonly MessageRecord[],
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): ResultsOut {
  const ordered = records.some((record) => orderingGroup(record) !== undefined);
  return ordered ? writeInGroupOrder(records, ledger, deps, time) : writeAtOnce(ledger, deps, time);
}

/** Enters bodies into the ledger and the plan. Gives the errors that answer whole records, and what the plan closed. */
function enterBodies(
  { from, bodies }: DecodedBodies,
  plan: Plan,
  ledger: Ledger,
): { readonly refused: readonly PendingWrite[]; readonly closed: readonly MicroBatch[] } {
  const refused: PendingWrite[] = [];
  const closed: MicroBatch[] = [];
  for (let index = 0; index < bodies.length; index++) {
    const body = bodies[index] as DecodedBody;
    const error = ledger.register(from + index, body);
    if (error !== undefined) refused.push(error);
    for (const request of isPacked(body) ? body : [body]) {
      if (isRefused(request)) continue;
      for (const batch of plan.add(request)) closed.push(batch);
    }
  }
  return { refused, closed };
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
  failure: failure('DEADLINE', 'expected the record to be settled before the deadline; it was not'),
};

/** The outcome of a record that nothing else has settled: a missing verdict is a failure, never an answer. */
const UNSETTLED: Outcome = {
  status: 'retry',
  failure: failure('INTERNAL', 'expected every record to be settled; this one was not and is handed back'),
};
