import type { MicroBatchReport, ScoringDependencies, TimeLimit } from './dependencies.ts';
import { encodeScores } from './encode.ts';
import { type Failure, failure, isFailure, isTransient, reasonOf } from './failure.ts';
import type { Ledger, ReadyResult } from './ledger.ts';
import { ModelUnavailableError, type RunResult } from './model.ts';
import { halve, type MicroBatch } from './plan.ts';
import type { ScoringRequest } from './request.ts';
import { stack, unstack } from './stack.ts';
import type { Tensor } from './tensor.ts';

/** How many micro-batches stand between stack and write at most. */
export const MICRO_BATCHES_IN_THE_PIPE = 2;

/** The runs of one call that are under way. */
export interface Pipe {
  running: number;
}

/**
 * Runs a micro-batch and settles every part of it. A failing run is halved until the culprit stands alone.
 *
 * @returns the results that are complete with it
 */
export async function scoreMicroBatch(
  batch: MicroBatch,
  ledger: Ledger,
  deps: ScoringDependencies,
  time: TimeLimit,
  pipe: Pipe,
): Promise<ReadyResult[]> {
  try {
    const settled = await runBeforeDeadline(batch, deps, time, pipe);
    if (!isFailure(settled)) return await answerParts(batch, settled, ledger);
    if (isTransient(settled) || batch.parts.length === 1) return failAll(batch, settled, ledger);
    const [first, second] = halve(batch);
    const ready = await scoreMicroBatch(first, ledger, deps, time, pipe);
    return [...ready, ...(await scoreMicroBatch(second, ledger, deps, time, pipe))];
  } catch (error) {
    deps.observer.problem(error);
    return failAll(batch, failure('INTERNAL', 'expected the micro-batch to be settled, scoring it threw'), ledger);
  }
}

/** The outputs of each part, or why there are none: no time, no model, or the run itself. */
async function runBeforeDeadline(
  batch: MicroBatch,
  deps: ScoringDependencies,
  time: TimeLimit,
  pipe: Pipe,
): Promise<Tensor[][] | Failure> {
  const { model, paddedRows } = batch;
  const runsToWaitFor = pipe.running + 1;
  const neededMs = deps.pace.predictMs(model, paddedRows) * runsToWaitFor + deps.limits.deadlineMarginMs;
  if (time.remainingMs() < neededMs) {
    deps.pace.doubted(model);
    return failure('DEADLINE', `expected ${Math.ceil(neededMs)} ms for a run and its writes, less than that is left`);
  }
  const ran = await run(batch, stack(batch), deps, pipe);
  if (isFailure(ran)) return ran;
  deps.pace.observed(model, paddedRows, ran.runMs);
  deps.observer.microBatch(reportOf(batch, ran.runMs));
  return unstackOrRefuse(batch, ran.outputs);
}

async function run(
  batch: MicroBatch,
  inputs: readonly Tensor[],
  deps: ScoringDependencies,
  pipe: Pipe,
): Promise<RunResult | Failure> {
  pipe.running += 1;
  try {
    return await batch.model.run(inputs);
  } catch (error) {
    if (!(error instanceof ModelUnavailableError)) return runFailed(batch, error);
    deps.observer.problem(error);
    return failure('MODEL_UNAVAILABLE', error.message);
  } finally {
    pipe.running -= 1;
  }
}

function unstackOrRefuse(batch: MicroBatch, outputs: readonly Tensor[]): Tensor[][] | Failure {
  try {
    return unstack(batch, outputs);
  } catch (error) {
    return runFailed(batch, error);
  }
}

function runFailed({ model }: MicroBatch, error: unknown): Failure {
  return failure('RUN_FAILED', `model '${model.name}' failed on this request alone: ${reasonOf(error)}`);
}

/** Answers every request whose last part this was. */
async function answerParts(batch: MicroBatch, outputs: readonly Tensor[][], ledger: Ledger): Promise<ReadyResult[]> {
  const encoding = batch.parts.flatMap((part, index) => {
    const whole = ledger.scored(part, outputs[index] ?? []);
    if (whole === undefined) return [];
    const text = isFailure(whole) ? whole : encode(ledger.messageIdOf(part.request), part.request, whole);
    return [{ request: part.request, text }];
  });
  const ready: (ReadyResult | undefined)[] = [];
  for (const { request, text } of encoding) {
    const encoded = text instanceof Promise ? await text : text;
    ready.push(isFailure(encoded) ? ledger.failed(request, encoded) : ledger.answered(request, encoded));
  }
  return ready.filter((one) => one !== undefined);
}

/** An answer longer than the longest string there can be is that request's own fault. */
function encode(
  messageId: string,
  request: ScoringRequest,
  outputs: readonly Tensor[],
): ReturnType<typeof encodeScores> {
  try {
    return encodeScores(messageId, request, outputs);
  } catch (error) {
    return failure(
      'RESULT_TOO_LARGE',
      `the answer cannot be written: ${reasonOf(error)}; send fewer rows in a request`,
    );
  }
}

function failAll(batch: MicroBatch, failed: Failure, ledger: Ledger): ReadyResult[] {
  return batch.parts.map((part) => ledger.failed(part.request, failed)).filter((one) => one !== undefined);
}

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
