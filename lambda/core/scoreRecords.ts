import { decodeLike } from './decode.ts';
import { deferred } from './deferred.ts';
import type { ScoringDependencies, TimeLimit } from './dependencies.ts';
import { NO_EQUALS, openEqualRequests } from './equalRequests.ts';
import { failure } from './failure.ts';
import { horizonsOf } from './horizon.ts';
import { type Ledger, openLedger, type ReadyResult } from './ledger.ts';
import type { MessageRecord } from './record.ts';
import { type DecodedBody, isRefused } from './request.ts';
import type { Outcome } from './result.ts';
import { type Call, MICRO_BATCHES_IN_THE_PIPE, scoreMicroBatch } from './scoreMicroBatch.ts';
import { allThere, type Soon } from './soon.ts';
import { createTemplates, type Templates } from './template.ts';
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
  const call: Call = { ledger, equals, deps, time, running: 0, write };
  const pipe = openPipe(MICRO_BATCHES_IN_THE_PIPE);
  const planned = deps.plan((model) => Math.min(deps.limits.maxBatchElements, deps.pace.mostElements(model)));
  const refusals: Promise<void>[] = [];
  try {
    for await (const { from, bodies } of decodeInOrder(records, deps, time.signal)) {
      const refused: ReadyResult[] = [];
      for (let index = 0; index < bodies.length; index++) {
        const body = bodies[index] as DecodedBody;
        const ready = ledger.enter(from + index, body);
        if (ready !== undefined) refused.push(ready);
        for (const request of body.requests) {
          if (isRefused(request) || equals.joins(request)) continue;
          for (const batch of planned.add(request)) await pipe.take(() => scoreMicroBatch(batch, call));
        }
      }
      if (refused.length > 0) refusals.push(write(refused));
    }
    for (const batch of planned.finish()) await pipe.take(() => scoreMicroBatch(batch, call));
  } finally {
    await pipe.drained();
    await Promise.all(refusals);
  }
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

/** Bodies decoded before the event loop has its turn: a millisecond or two of work, enough for S3 and transforms. */
const DECODED_TOGETHER = 256;

interface Decoded {
  /** The record of the first body. */
  readonly from: number;
  readonly bodies: readonly DecodedBody[];
}

/** Bodies in the order of their records, some at a time. In between the event loop sees to runs and writes. */
async function* decodeInOrder(
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
  signal: AbortSignal,
): AsyncGenerator<Decoded> {
  const templates = createTemplates();
  let decodeMs = 0;
  for (let from = 0; from < records.length && !signal.aborted; from += DECODED_TOGETHER) {
    const startedAt = deps.now();
    const bodies: Soon<DecodedBody>[] = [];
    for (let record = from; record < records.length && bodies.length < DECODED_TOGETHER; record++) {
      bodies.push(decodeOne(templates, records[record] as MessageRecord, record, deps, signal));
    }
    const decoded = await allThere(bodies);
    decodeMs += deps.now() - startedAt;
    yield { from, bodies: decoded };
    if (from + DECODED_TOGETHER < records.length) await nextTurn();
  }
  deps.observer.decoded(records.length, decodeMs);
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function decodeOne(
  templates: Templates,
  { body }: MessageRecord,
  record: number,
  deps: ScoringDependencies,
  signal: AbortSignal,
): Soon<DecodedBody> {
  try {
    const decoded = decodeLike(templates, body, record, deps, signal);
    return decoded instanceof Promise ? decoded.catch((error: unknown) => notDecoded(error, deps)) : decoded;
  } catch (error) {
    return notDecoded(error, deps);
  }
}

function notDecoded(error: unknown, { observer }: ScoringDependencies): DecodedBody {
  observer.problem(error);
  const failed = failure('INTERNAL', 'expected the decoder to answer, it threw; the record is handed back');
  return { packed: false, requests: [{ id: undefined, failure: failed }] };
}

interface Pipe {
  /** Starts the work as soon as there is room for it. */
  take(work: () => Promise<void>): Promise<void>;
  /** Waits until all the work is done. */
  drained(): Promise<void>;
}

/** @param most how much work may be under way at once */
function openPipe(most: number): Pipe {
  const underWay = new Set<Promise<void>>();
  return {
    async take(work) {
      while (underWay.size >= most) await Promise.race(underWay);
      const started = work().finally(() => underWay.delete(started));
      underWay.add(started);
    },
    drained: async () => {
      while (underWay.size > 0) await Promise.race(underWay);
    },
  };
}
