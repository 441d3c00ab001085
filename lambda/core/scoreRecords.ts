import { type DecodeDependencies, decodeBody } from './decode.ts';
import type { DecodeLimits } from './decodeRequest.ts';
import { encodeScores } from './encode.ts';
import { type Failure, failure, isFailure, isTransient, messageOf } from './failure.ts';
import { roundsInGroupOrder } from './groupOrder.ts';
import { errorInstead, type Ledger, openLedger, type ReadyResult, UNSETTLED } from './ledger.ts';
import { ModelUnavailableError } from './model.ts';
import type { Pace } from './pace.ts';
import { type CloseReason, halve, type MicroBatch, type PlanLimits, type Planner } from './plan.ts';
import { type MessageRecord, orderingGroup } from './record.ts';
import type { DecodedBody } from './request.ts';
import type { Outcome, ResultWriter } from './result.ts';
import { stack, unstack } from './stack.ts';
import type { Tensor } from './tensor.ts';

export interface ScoringLimits extends DecodeLimits, PlanLimits {
  /** Milliseconds kept free before the deadline for encoding and writing what was run. */
  readonly deadlineMarginMs: number;
}

/** What one run was, for metrics and for whoever asks why a batch was small. */
export interface MicroBatchReport {
  readonly model: string;
  readonly version: string;
  readonly requests: number;
  readonly rows: number;
  readonly paddedRows: number;
  readonly maxBatchRows: number;
  readonly closedBecause: CloseReason;
  readonly runMs: number;
}

/** What is told of the work while it goes on. Never a message's content. */
export interface Observer {
  microBatch(report: MicroBatchReport): void;
  /** Something that is a bug or an outage rather than a record's fault; the records it met are handed back. */
  problem(error: unknown): void;
}

/** Lives as long as the process. */
export interface ScoringDependencies extends DecodeDependencies {
  readonly writer: ResultWriter;
  readonly plan: Planner;
  readonly limits: ScoringLimits;
  readonly pace: Pace;
  readonly observer: Observer;
}

/** The time one call has. */
export interface TimeLimit {
  readonly remainingMs: () => number;
  /** Aborted when writes must stop being retried. */
  readonly signal: AbortSignal;
}

const MICRO_BATCHES_IN_THE_PIPE = 2;

/**
 * Scores records and writes one result per message ID.
 *
 * Outcomes align with `records` by index. A record is `answered` only after every store has taken its result;
 * everything else is `retry`. Never throws for a record's sake.
 */
export async function scoreRecords(
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<Outcome[]> {
  const bodies = await Promise.all(records.map((record) => decodeOne(record, deps, time.signal)));
  const ledger = openLedger(records, bodies);
  const microBatches = deps.plan(ledger.requests, deps.limits);

  const writeReady = () => writeResults(ledger.takeReady(), ledger, deps, time);
  await Promise.all([
    writeReady(),
    inLanes(microBatches, MICRO_BATCHES_IN_THE_PIPE, async (batch) => {
      await scoreMicroBatch(batch, ledger, deps, time);
      await writeReady();
    }),
  ]);
  await writeInGroupOrder(records, ledger, deps, time);
  return records.map((_, record) => ledger.outcomeOf(record) ?? UNSETTLED);
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

/** Settles every part of a micro-batch. A failing run is halved until the culprit stands alone. */
async function scoreMicroBatch(
  batch: MicroBatch,
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  try {
    const settled = await runBeforeDeadline(batch, deps, time);
    if (!isFailure(settled)) {
      await answerParts(batch, settled, ledger);
    } else if (isTransient(settled) || batch.parts.length === 1) {
      failAll(batch, settled, ledger);
    } else {
      for (const half of halve(batch)) await scoreMicroBatch(half, ledger, deps, time);
    }
  } catch (error) {
    deps.observer.problem(error);
    failAll(batch, failure('INTERNAL', 'expected the micro-batch to be settled, scoring it threw'), ledger);
  }
}

/** Answers every request whose last part this was. */
async function answerParts(batch: MicroBatch, outputs: readonly Tensor[][], ledger: Ledger): Promise<void> {
  for (const [index, part] of batch.parts.entries()) {
    const { request } = part;
    const whole = ledger.scored(part, outputs[index] ?? []);
    if (whole === undefined) continue;
    const encoding = isFailure(whole) ? whole : encodeScores(ledger.messageIdOf(request), request, whole);
    const encoded = encoding instanceof Promise ? await encoding : encoding;
    if (isFailure(encoded)) ledger.failed(request, encoded);
    else ledger.answered(request, encoded);
  }
}

function failAll(batch: MicroBatch, failed: Failure, ledger: Ledger): void {
  for (const part of batch.parts) ledger.failed(part.request, failed);
}

/** The outputs of each part, or why there are none: no time, no model, or the run itself. */
async function runBeforeDeadline(
  batch: MicroBatch,
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<Tensor[][] | Failure> {
  const { model, paddedRows } = batch;
  const neededMs = deps.pace.predictMs(model, paddedRows) * MICRO_BATCHES_IN_THE_PIPE + deps.limits.deadlineMarginMs;
  if (time.remainingMs() < neededMs) {
    return failure('DEADLINE', `expected ${Math.ceil(neededMs)} ms for a run and its writes, less than that is left`);
  }
  const inputs = stack(batch);
  try {
    const { outputs, runMs } = await model.run(inputs);
    deps.pace.observed(model, paddedRows, runMs);
    deps.observer.microBatch(reportOf(batch, runMs));
    return unstack(batch, outputs);
  } catch (error) {
    const reason = messageOf(error);
    if (error instanceof ModelUnavailableError) {
      deps.observer.problem(error);
      return failure('MODEL_UNAVAILABLE', reason);
    }
    return failure('RUN_FAILED', `model '${model.name}' failed on this request alone: ${reason.slice(0, MAX_REASON)}`);
  }
}

const MAX_REASON = 500;

function reportOf(batch: MicroBatch, runMs: number): MicroBatchReport {
  const { model, rows, paddedRows, closedBecause } = batch;
  return {
    model: model.name,
    version: model.version,
    requests: batch.parts.length,
    rows,
    paddedRows,
    maxBatchRows: model.maxBatchRows,
    closedBecause,
    runMs,
  };
}

/** FIFO: of each message group nothing is written, nor acknowledged, after the first record that must be retried. */
async function writeInGroupOrder(
  records: readonly MessageRecord[],
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  const held = new Set<string | undefined>();
  const groupOf = (record: number) => orderingGroup(records[record] as MessageRecord);
  for (const round of roundsInGroupOrder(records)) {
    const open = round.filter((record) => !held.has(groupOf(record)));
    const ready = open.flatMap((record) => {
      const result = ledger.resultOf(record);
      return result === undefined ? [] : [{ record, result }];
    });
    await writeResults(ready, ledger, deps, time);
    for (const record of round) {
      if (ledger.outcomeOf(record)?.status === 'answered') continue;
      ledger.handBack(
        record,
        failure('BEHIND_RETRY', 'an earlier message of this message group must be retried first'),
      );
      held.add(groupOf(record));
    }
  }
}

/** Writes results and settles their records. What its store can never hold is answered with an error instead. */
async function writeResults(
  ready: readonly ReadyResult[],
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
): Promise<void> {
  const refused: (ReadyResult & { readonly instead: Failure })[] = [];
  for (const [index, failed] of (await verdictsOn(ready, deps, time)).entries()) {
    const { record, result } = ready[index] as ReadyResult;
    if (failed === undefined) ledger.written(record);
    else if (isTransient(failed)) ledger.handBack(record, failed);
    else refused.push({ record, result: errorInstead(result, failed), instead: failed });
  }
  for (const [index, failed] of (await verdictsOn(refused, deps, time)).entries()) {
    const { record, instead } = refused[index] as (typeof refused)[number];
    if (failed === undefined) ledger.written(record, instead);
    else ledger.handBack(record, failure('WRITE_FAILED', failed.message));
  }
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
    return verdicts.map((verdict) => (isFailure(verdict) ? verdict : undefined));
  } catch (error) {
    deps.observer.problem(error);
    return ready.map(() => failure('WRITE_FAILED', 'expected verdicts from the result writer, it threw'));
  }
}
