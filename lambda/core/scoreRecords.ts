import { type DecodedRecord, type DecodeInOrderDependencies, decodeInOrder } from './body.ts';
import { createRoom, deferred, type Room, within } from './concurrency.ts';
import { failure } from './failure.ts';
import { createLedger, type Ledger, type PendingWrite } from './ledger.ts';
import type { MicroBatch } from './microBatch.ts';
import { createOutageWatch, type OutageWatch } from './outageWatch.ts';
import type { Plan, Planner } from './plan.ts';
import { type MessageRecord, type Outcome, orderingGroup, type TimeLimit } from './record.ts';
import type { DecodeLimits } from './requestInputs.ts';
import { createSchedule, type Invocation, mostElements, type RunDependencies, startStopwatch } from './run.ts';
import { createPartialOutputs, scoreMicroBatch } from './scoreMicroBatch.ts';
import { type DecodedBody, type DecodedRequest, isPacked, isRefused } from './scoringRequest.ts';
import { type ResultsOut, type WriteDependencies, writeInGroupOrder, writeTogether } from './writeResults.ts';

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

/** Bytes of payloads that are read and not scored yet, or one payload that is larger. */
const PAYLOAD_BYTES = 16 * 1024 * 1024;
/** Characters of inline bodies that are decoded and not scored yet: what the worker has in a batch, so that none is cut for it. */
const BACKLOG_CHARACTERS = 32 * 1024 * 1024;

/** What bounds the memory of an invocation, whatever comes: how much of it is decoded and not scored yet, by record. */
interface Bounds {
  readonly payloads: Room;
  readonly backlog: Room;
  /** A record is complete: what it held is free. */
  release(record: number): void;
}

function createBounds(): Bounds {
  const payloads = createRoom(PAYLOAD_BYTES);
  const backlog = createRoom(BACKLOG_CHARACTERS);
  return {
    payloads,
    backlog,
    release(record) {
      payloads.release(record);
      backlog.release(record);
    },
  };
}

/**
 * Decodes and plans records while micro-batches that are complete run, and those that have run are written.
 *
 * @returns milliseconds that decoding took, reading payloads included
 */
async function scoreWave(
  wave: readonly number[],
  records: readonly MessageRecord[],
  invocation: Invocation,
  { payloads, backlog }: Bounds,
  deps: ScoringDependencies,
): Promise<number> {
  const { schedule, time, write, settled } = invocation;
  const run = (batches: readonly MicroBatch[]): void => {
    for (const batch of batches) schedule.add(batch.model, () => scoreMicroBatch(batch, invocation));
  };
  const newPlan = (): Plan =>
    deps.plan((model) => mostElements(deps, model), deps.latency.costOf, deps.batching.sharingOf);
  let plan = newPlan();
  let decodeMs = 0;
  const startedAt = deps.now();
  const stopwatch = startStopwatch(deps.now);
  for await (const decoded of decodeInOrder(records, wave, deps, payloads, time.signal)) {
    decodeMs += stopwatch.lap();
    for (const { record } of decoded) backlog.occupy(record, (records[record] as MessageRecord).body.length);
    const { refused, closed } = enterBodies(decoded, plan, invocation, deps);
    if (refused.length > 0) void write(refused);
    run(closed);
    if (decoded.length === 0 || payloads.isCrowded() || backlog.isCrowded()) {
      run(plan.finish());
      plan = newPlan();
    }
    await schedule.catchUp();
    await backlog.spare(time.signal);
    stopwatch.lap();
  }
  decodeMs += stopwatch.lap();
  deps.observer.stage?.('decode', startedAt, deps.now(), { records: wave.length, busyMs: decodeMs });
  run(plan.finish());
  await schedule.drained();
  await settled();
  return decodeMs;
}

/** Enters bodies into the ledger and the plan. Gives the errors that answer whole records, and what the plan closed. */
function enterBodies(
  decoded: readonly DecodedRecord[],
  plan: Plan,
  { ledger }: Invocation,
  { observer }: ScoringDependencies,
): { readonly refused: readonly PendingWrite[]; readonly closed: readonly MicroBatch[] } {
  const refused: PendingWrite[] = [];
  const closed: MicroBatch[] = [];
  const add = (request: DecodedRequest): void => {
    if (isRefused(request)) return;
    for (const batch of plan.add(request)) closed.push(batch);
  };
  const enter = (record: number, body: DecodedBody): void => {
    const error = ledger.register(record, body);
    if (error !== undefined) refused.push(error);
    if (isPacked(body)) body.forEach(add);
    else add(body);
  };
  for (const { record, body } of decoded) {
    try {
      enter(record, body);
    } catch (error) {
      observer.problem(error);
      ledger.markRetry(record, failure('INTERNAL', 'expected the record to be planned; it threw'));
    }
  }
  return { refused, closed };
}

/** Records of a wave that came for the second, the third time, and more often. */
const SUSPECTS_A_WAVE = [64, 8, 1] as const;
/** Each wave costs batch requests of its own: of very many suspects more stand in one. */
const MOST_WAVES = 256;

/**
 * The records of an invocation in waves, which are scored and acknowledged one after the other. Records that came
 * before are suspects: one of them may have hung, or have ended the process. First-timers go first; suspects follow, in
 * the smaller waves the more often they came, alone at last.
 *
 * Suspects stand in the order of their message IDs, in the opposite one at every other receive: whoever stood behind
 * the culprit then stands before it now. So the culprit reaches the dead letters alone, after five receives.
 *
 * FIFO records are one wave, as their order is not ours to choose. Entries are indexes into `records`.
 */
export function wavesOf(records: readonly MessageRecord[]): number[][] {
  const all = records.map((_, index) => index);
  if (records.some((record) => orderingGroup(record) !== undefined)) return [all];
  const byReceives = Map.groupBy(all, (index) => receivesOf(records[index] as MessageRecord));
  return [...byReceives]
    .toSorted(([a], [b]) => a - b)
    .flatMap(([receives, indexes]) => (receives <= 1 ? [indexes] : wavesOfSuspects(receives, indexes, records)));
}

function receivesOf({ attributes }: MessageRecord): number {
  const receives = Number(attributes.ApproximateReceiveCount);
  return receives >= 1 ? receives : 1;
}

function wavesOfSuspects(receives: number, indexes: readonly number[], records: readonly MessageRecord[]): number[][] {
  const idOf = (index: number) => (records[index] as MessageRecord).messageId;
  const ascending = indexes.toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
  const ordered = receives % 2 === 0 ? ascending : ascending.toReversed();
  const wanted = SUSPECTS_A_WAVE[receives - 2] ?? 1;
  const size = Math.max(wanted, Math.ceil(ordered.length / MOST_WAVES));
  const waves: number[][] = [];
  for (let from = 0; from < ordered.length; from += size) waves.push(ordered.slice(from, from + size));
  return waves;
}

export type ScoringLimits = DecodeLimits & RunDependencies['limits'];

/** What scoring needs, from decoding to writing. Lives as long as the process. */
export interface ScoringDependencies extends DecodeInOrderDependencies, RunDependencies, WriteDependencies {
  readonly plan: Planner;
  readonly limits: ScoringLimits;
  /**
   * Acknowledges records that were answered, before others of the invocation are scored. Never throws: what it does not
   * acknowledge is acknowledged by the outcome.
   */
  acknowledge(records: readonly MessageRecord[], signal: AbortSignal): Promise<unknown>;
  /** Where calls tell each other of outages. @default each call finds out for itself */
  readonly outages?: OutageWatch | undefined;
}
