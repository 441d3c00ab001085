import { deferred } from './base/deferred.ts';
import { within } from './base/within.ts';
import { failure } from './contract/failure.ts';
import { type MessageRecord, orderingGroup } from './contract/record.ts';
import type { Outcome } from './contract/result.ts';
import type { TimeLimit } from './contract/timeLimit.ts';
import type { ScoringDependencies } from './dependencies.ts';
import { wavesOf } from './plan/waves.ts';
import type { Invocation } from './run/invocation.ts';
import { createSchedule } from './run/schedule.ts';
import { type Bounds, createBounds, scoreWave } from './scoreWave.ts';
import { createLedger, type Ledger } from './settle/ledger.ts';
import { createOutageWatch, type OutageWatch } from './settle/outageWatch.ts';
import { createPartialOutputs } from './settle/partialOutputs.ts';
import { type ResultsOut, writeInGroupOrder, writeTogether } from './settle/writeResults.ts';

export type { ScoringDependencies, ScoringLimits } from './dependencies.ts';

/** A wave does not wait longer than this for the acknowledgement of the one before; it goes on meanwhile. */
const ACKNOWLEDGING_MS = 1_000;
/** When the deadline is over, what was written by then has so long to be reported. */
const SETTLING_MS = 100;

/**
 * Scores records and writes one result per message ID.
 *
 * Outcomes align with `records` by index. A record is `answered` only after every store has taken its result;
 * everything else is `retry`. Never throws for a record's sake, and returns soon after `time.signal` is aborted.
 */
export async function scoreRecords(
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<Outcome[]> {
  const bounds = createBounds();
  const ledger = createLedger(records, { ...deps.limits, onComplete: bounds.release });
  const { outages = createOutageWatch() } = deps;
  if (!time.signal.aborted) await untilAborted(scoreInWaves(records, ledger, bounds, outages, deps, time), time.signal);
  const outcomes = records.map((_, record) => ledger.outcomeOf(record));
  outages.saw(outcomes);
  return outcomes.map((outcome) => outcome ?? (time.signal.aborted ? OUT_OF_TIME : UNSETTLED));
}

/**
 * Wave by wave. What was answered is acknowledged before suspects are scored: one may take the process with it. During
 * an outage a few records go first, and where none of a wave is answered, those behind it go back unscored.
 */
async function scoreInWaves(
  records: readonly MessageRecord[],
  ledger: Ledger,
  bounds: Bounds,
  outages: OutageWatch,
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  const results = createResults(records, ledger, deps, time);
  const schedule = createSchedule(deps.now);
  const partialOutputs = createPartialOutputs();
  const invocation: Invocation = {
    ledger,
    partialOutputs,
    schedule,
    deps,
    time,
    hasMoreToDo: true,
    write: results.write,
    settled: results.settled,
  };
  // Nothing is known of results that are written at the end.
  const isProbing = outages.current() !== undefined && !results.writesLater;
  const waves = isProbing ? withProbeFirst(wavesOf(records)) : wavesOf(records);
  const isAnswered = (record: number): boolean => ledger.outcomeOf(record)?.status === 'answered';
  let decodeMs = 0;
  for (const [index, wave] of waves.entries()) {
    if (time.signal.aborted) return;
    invocation.hasMoreToDo = index < waves.length - 1 || results.writesLater;
    decodeMs += await scoreWave(wave, records, invocation, bounds, deps);
    if (index === waves.length - 1) break;
    const outage = outages.saw(wave.map(ledger.outcomeOf)) && outages.current();
    if (outage) {
      for (const record of waves.slice(index + 1).flat()) ledger.markRetry(record, outage);
      break;
    }
    const answered = wave.filter(isAnswered).map((record) => records[record] as MessageRecord);
    if (answered.length > 0) await acknowledge(answered, deps, time);
  }
  deps.observer.decoded(decodeMs);
  await results.finish();
}

/** Records that find out whether an outage is over, before all others are scored. */
const PROBE_RECORDS = 10;

function withProbeFirst([first = [], ...others]: number[][]): number[][] {
  return [first.slice(0, PROBE_RECORDS), first.slice(PROBE_RECORDS), ...others].filter((wave) => wave.length > 0);
}

async function acknowledge(
  answered: readonly MessageRecord[],
  deps: ScoringDependencies,
  { signal }: TimeLimit,
): Promise<void> {
  const startedAt = deps.now();
  await within(ACKNOWLEDGING_MS, deps.acknowledge(answered, signal));
  deps.observer.stage?.('acknowledge', startedAt, deps.now(), { answered: answered.length });
}

function createResults(
  records: readonly MessageRecord[],
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): ResultsOut {
  const ordered = records.some((record) => orderingGroup(record) !== undefined);
  return ordered ? writeInGroupOrder(records, ledger, deps, time) : writeTogether(ledger, deps, time);
}

/** Waits for the work, or for the signal: a run that outlasts the deadline must not take the answered down with it. */
async function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = deferred();
  const onAbort = () => void setTimeout(aborted.resolve, SETTLING_MS);
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
  failure: failure(
    'DEADLINE',
    'expected the record to be settled before the deadline; it was not: raise the timeout, or lower the batch size',
  ),
};

/** The outcome of a record that nothing else has settled: a missing verdict is a failure, never an answer. */
const UNSETTLED: Outcome = {
  status: 'retry',
  failure: failure('INTERNAL', 'expected every record to be settled; this one was not and is handed back'),
};
