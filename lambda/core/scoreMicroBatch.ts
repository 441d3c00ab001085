import type { MicroBatchReport, ScoringDependencies, TimeLimit } from './dependencies.ts';
import { openEncoder, type ScoreEncoder } from './encode.ts';
import type { EqualRequests } from './equalRequests.ts';
import { type Failure, failure, isFailure, isTransient, reasonOf } from './failure.ts';
import type { Ledger, ReadyResult } from './ledger.ts';
import { elementsIn, elementsPerRowAt, halve, type MicroBatch, microBatchOf, type Part } from './microBatch.ts';
import { ModelUnavailableError, OutOfMemoryError, type RunResult } from './model.ts';
import type { ScoringRequest } from './request.ts';
import type { Soon } from './soon.ts';
import { assertBatched, stack, unstack } from './stack.ts';
import type { Tensor } from './tensor.ts';

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
    deps.pace.doubted(model);
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
  call.deps.observer.microBatch(reportOf(batch, { stackMs, runMs, encodeMs, writeMs: stage() }));
}

async function encodeAll(batch: MicroBatch, outputs: readonly Tensor[], call: Call): Promise<ReadyResult[]> {
  const { ledger, equals } = call;
  const ofRun = openEncoder(outputs);
  const asked: ScoringRequest[] = [];
  const texts: Soon<string | Failure>[] = [];
  let row = 0;
  for (const part of batch.parts) {
    const fromRow = row;
    row += part.toRow - part.fromRow;
    const liesInRun = liesInOutputs(part, batch);
    const own = liesInRun ? outputs : ledger.scored(part, unstack(batch, part, fromRow, outputs));
    if (own === undefined) continue;
    for (const request of equals.answeredBy(part.request)) {
      asked.push(request);
      if (isFailure(own)) texts.push(own);
      else if (liesInRun) texts.push(encode(ofRun, request, fromRow, ledger));
      else texts.push(encode(openEncoder(own), request, 0, ledger));
    }
  }
  const ready: (ReadyResult | undefined)[] = [];
  for (const [index, request] of asked.entries()) {
    const text = texts[index] as Soon<string | Failure>;
    const encoded = text instanceof Promise ? await text : text;
    ready.push(isFailure(encoded) ? ledger.failed(request, encoded) : ledger.answered(request, encoded));
  }
  return ready.filter((one) => one !== undefined);
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
    .flatMap(({ request }) => equals.answeredBy(request).map((equal) => ledger.failed(equal, failed)))
    .filter((one) => one !== undefined);
}

type StageTimes = Pick<MicroBatchReport, 'stackMs' | 'runMs' | 'encodeMs' | 'writeMs'>;

function reportOf(batch: MicroBatch, times: StageTimes): MicroBatchReport {
  const { model, parts, rows, paddedRows, paddedLength, closedBecause } = batch;
  let sent = 0;
  for (const { request, fromRow, toRow } of parts) {
    sent += (toRow - fromRow) * elementsPerRowAt(request, request.length);
  }
  return {
    model: model.name,
    version: model.version,
    requests: parts.length,
    rows,
    paddedRows,
    maxBatchRows: model.maxBatchRows,
    paddedLength,
    paddingShare: 1 - sent / elementsIn(batch),
    closedBecause,
    ...times,
  };
}
