import type { Soon } from '../base/maybePromise.ts';
import { type Failure, failure, isFailure, isTransient, reasonOf } from '../contract/failure.ts';
import { type Model, ModelUnavailableError, OutOfMemoryError, type RunResult } from '../contract/model.ts';
import type { ScoringRequest } from '../contract/request.ts';
import type { MicroBatchReport, ScoringDependencies, TimeLimit } from '../dependencies.ts';
import { openEncoder, type ScoreEncoder } from '../encode/encode.ts';
import type { EqualRequests } from '../equalRequests.ts';
import { elementsIn, elementsPerRowAt, halve, type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import type { Ledger, ReadyResult } from '../settle/ledger.ts';
import { assertBatched, stack, unstack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** How many micro-batches stand between stack and write at most. */
export const MICRO_BATCHES_IN_THE_PIPE = 2;

/** What the micro-batches of one call share. */
export interface Call {
  readonly ledger: Ledger;
  readonly equals: EqualRequests;
  readonly deps: ScoringDependencies;
  readonly time: TimeLimit;
  /** Runs under way. */
  running: number;
  /** Models whose predicted time kept a run from being started. */
  readonly doubted: Set<Model>;
  /** Writes results and settles their records. Never throws. */
  write(ready: readonly ReadyResult[]): Promise<void>;
}

/**
 * Runs a micro-batch, and writes the results that are complete with it. A failing run is halved until the culprit
 * stands alone; a run that is too large for the memory, until it is small enough.
 */
export async function scoreMicroBatch(batch: MicroBatch, call: Call): Promise<void> {
  try {
    if (elementsIn(batch) > call.deps.pace.mostElements(batch.model)) {
      const halves = halveForMemory(batch);
      if (halves !== undefined) return await scoreBoth(halves, call);
    }
    const stage = openStages(call.deps.now);
    const ran = await runBeforeDeadline(batch, call, stage);
    if (!isFailure(ran)) return await answerParts(batch, ran, call, stage);
    const halves = halvesAfter(ran, batch);
    if (halves !== undefined) return await scoreBoth(halves, call);
    await call.write(failAll(batch, ran, call));
  } catch (error) {
    call.deps.observer.problem(error);
    const failed = failure('INTERNAL', 'expected the micro-batch to be settled, scoring it threw');
    await call.write(failAll(batch, failed, call));
  }
}

async function scoreBoth([first, second]: readonly [MicroBatch, MicroBatch], call: Call): Promise<void> {
  await scoreMicroBatch(first, call);
  await scoreMicroBatch(second, call);
}

/** A request alone that fails is the culprit, and is not cut any further; one that is too large may be. */
function halvesAfter(failed: Failure, batch: MicroBatch): ReturnType<typeof halve> {
  if (failed.code === 'OUT_OF_MEMORY') return halveForMemory(batch);
  return !isTransient(failed) && batch.parts.length > 1 ? halve(batch) : undefined;
}

/** The halves, unless each row alone would be padded up to as large a run again, as on a ladder's lowest rung. */
function halveForMemory(batch: MicroBatch): ReturnType<typeof halve> {
  const { model, parts, closedBecause } = batch;
  const elements = elementsIn(batch);
  const firstRowOf = (part: Part) => microBatchOf(model, [{ ...part, toRow: part.fromRow + 1 }], closedBecause);
  return parts.some((part) => elementsIn(firstRowOf(part)) < elements) ? halve(batch) : undefined;
}

/** Milliseconds from one stage's end to the next one's. */
type Stages = () => number;

function openStages(now: () => number): Stages {
  let before = now();
  return () => {
    const after = now();
    const ms = after - before;
    before = after;
    return ms;
  };
}

interface Ran extends RunResult {
  readonly stackMs: number;
}

/** What the run gave, or why there was none: no time, no model, or the run itself. */
async function runBeforeDeadline(batch: MicroBatch, call: Call, stage: Stages): Promise<Ran | Failure> {
  const { deps, time } = call;
  const { model, paddedRows, paddedLength } = batch;
  const runsToWaitFor = call.running + 1;
  const neededMs = deps.pace.predictMs(model, paddedRows, paddedLength) * runsToWaitFor + deps.limits.deadlineMarginMs;
  if (time.remainingMs() < neededMs) {
    if (!call.doubted.has(model)) deps.pace.doubted(model);
    call.doubted.add(model);
    return failure('DEADLINE', `expected ${Math.ceil(neededMs)} ms for a run and its writes, less than that is left`);
  }
  const inputs = stack(batch);
  const stackMs = stage();
  const ran = await run(batch, inputs, call);
  if (isFailure(ran)) return ran;
  deps.pace.observed(model, paddedRows, paddedLength, ran.runMs);
  try {
    assertBatched(batch, ran.outputs);
  } catch (error) {
    return runFailed(batch, error);
  }
  return { ...ran, stackMs };
}

async function run(batch: MicroBatch, inputs: readonly Tensor[], call: Call): Promise<RunResult | Failure> {
  const { observer, pace } = call.deps;
  call.running += 1;
  try {
    return await batch.model.run(inputs);
  } catch (error) {
    if (error instanceof ModelUnavailableError) {
      observer.problem(error);
      return failure('MODEL_UNAVAILABLE', error.message);
    }
    if (error instanceof OutOfMemoryError) {
      observer.problem(error);
      pace.ranOutOfMemory(batch.model, elementsIn(batch));
      return failure('OUT_OF_MEMORY', error.message);
    }
    return runFailed(batch, error);
  } finally {
    call.running -= 1;
  }
}

function runFailed({ model }: MicroBatch, error: unknown): Failure {
  return failure('RUN_FAILED', `model '${model.name}' failed on this request alone: ${reasonOf(error)}`);
}

/** Answers every request whose last part this was. */
async function answerParts(
  batch: MicroBatch,
  { outputs, runMs, stackMs }: Ran,
  call: Call,
  stage: Stages,
): Promise<void> {
  stage();
  const ready = await encodeAll(batch, outputs, call);
  const encodeMs = stage();
  await call.write(ready);
  // V8 allocates such arrays among long-lived objects once some have lived long: what they hold would live as long.
  ready.length = 0;
  call.deps.observer.microBatch(reportOf(batch, { stackMs, runMs, encodeMs, writeMs: stage() }));
}

async function encodeAll(batch: MicroBatch, outputs: readonly Tensor[], call: Call): Promise<ReadyResult[]> {
  const { ledger, equals } = call;
  const ofRun = openEncoder(outputs);
  const ready: ReadyResult[] = [];
  const later: Promise<unknown>[] = [];
  const settle = (request: ScoringRequest, text: string | Failure): void => {
    const one = isFailure(text) ? ledger.failed(request, text) : ledger.answered(request, text);
    if (one !== undefined) ready.push(one);
  };
  const answer = (request: ScoringRequest, encoder: ScoreEncoder, fromRow: number): void => {
    const text = encode(encoder, request, fromRow, ledger);
    if (text instanceof Promise) later.push(text.then((encoded) => settle(request, encoded)));
    else settle(request, text);
  };
  let row = 0;
  for (const part of batch.parts) {
    const fromRow = row;
    row += part.toRow - part.fromRow;
    const liesInRun = liesInOutputs(part, batch);
    const own = liesInRun ? outputs : ledger.scored(part, unstack(batch, part, fromRow, outputs));
    if (own === undefined) continue;
    const { request } = part;
    const others = equals.othersLike(request);
    if (isFailure(own)) for (const equal of [request, ...others]) settle(equal, own);
    else {
      const encoder = liesInRun ? ofRun : openEncoder(own);
      answer(request, encoder, liesInRun ? fromRow : 0);
      for (const equal of others) answer(equal, encoder, liesInRun ? fromRow : 0);
    }
  }
  await Promise.all(later);
  return ready;
}

/** Whether the outputs of a part are rows of the run's as they are: of a whole request, with nothing to cut back. */
function liesInOutputs({ request, fromRow, toRow }: Part, { model: { ragged }, paddedLength }: MicroBatch): boolean {
  const whole = toRow - fromRow === request.rows;
  return (
    whole &&
    (ragged === undefined || request.length === paddedLength || ragged.outputs.every((axis) => axis === undefined))
  );
}

/** An answer longer than the longest string there can be is that request's own fault. */
function encode(
  encoder: ScoreEncoder,
  request: ScoringRequest,
  fromRow: number,
  ledger: Ledger,
): Soon<string | Failure> {
  try {
    return encoder.encode(ledger.messageIdOf(request), request, fromRow);
  } catch (error) {
    return failure(
      'RESULT_TOO_LARGE',
      `the answer cannot be written: ${reasonOf(error)}; send fewer rows in a request`,
    );
  }
}

function failAll({ parts }: MicroBatch, failed: Failure, { ledger, equals }: Call): ReadyResult[] {
  return parts
    .flatMap(({ request }) => [request, ...equals.othersLike(request)].map((equal) => ledger.failed(equal, failed)))
    .filter((one) => one !== undefined);
}

type StageTimes = Pick<MicroBatchReport, 'stackMs' | 'runMs' | 'encodeMs' | 'writeMs'>;

function reportOf(batch: MicroBatch, times: StageTimes): MicroBatchReport {
  const { model, parts, rows, paddedRows, paddedLength, closedBecause } = batch;
  return {
    model: model.name,
    version: model.version,
    requests: parts.length,
    rows,
    paddedRows,
    maxBatchRows: model.maxBatchRows,
    paddedLength,
    paddingShare: paddingShareOf(batch),
    closedBecause,
    ...times,
  };
}

function paddingShareOf(batch: MicroBatch): number {
  const { model, parts, rows, paddedRows } = batch;
  if (model.ragged === undefined) return 1 - rows / paddedRows;
  let sent = 0;
  for (const { request, fromRow, toRow } of parts) {
    sent += (toRow - fromRow) * elementsPerRowAt(request, request.length);
  }
  return 1 - sent / elementsIn(batch);
}
