import { type Failure, failure, isFailure, reasonOf } from '../contract/failure.ts';
import { ModelUnavailableError, OutOfMemoryError, type RunResult } from '../contract/model.ts';
import { elementsIn, type MicroBatch } from '../plan/microBatch.ts';
import { assertBatched, stack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { Invocation } from './invocation.ts';
import { startStopwatch } from './stopwatch.ts';

export interface Ran extends RunResult {
  readonly stackMs: number;
}

/** What the run gave, its rows proved to be there, or why there was none: no time, no model, or the run itself. */
export async function runMicroBatch(batch: MicroBatch, invocation: Invocation): Promise<Ran | Failure> {
  const { deps } = invocation;
  const late = refuseLate(batch, invocation);
  if (late !== undefined) return late;
  const stopwatch = startStopwatch(deps.now);
  const inputs = stack(batch);
  const stackMs = stopwatch.lap();
  const ran = await run(batch, inputs, invocation);
  if (isFailure(ran)) return ran;
  deps.latency.observed(batch.model, batch.paddedRows, batch.paddedLength, ran.runMs);
  try {
    assertBatched(batch, ran.outputs);
  } catch (error) {
    return runFailed(batch, error);
  }
  return { ...ran, stackMs };
}

/** A run that is predicted to outlast the deadline is not started. */
function refuseLate({ model, paddedRows, paddedLength }: MicroBatch, invocation: Invocation): Failure | undefined {
  const { deps, time, running, doubted } = invocation;
  const runsToWaitFor = running + 1;
  const predictedMs = deps.latency.predictMs(model, paddedRows, paddedLength) * runsToWaitFor;
  const neededMs = predictedMs + deps.limits.deadlineMarginMs;
  if (time.remainingMs() >= neededMs) return undefined;
  if (!doubted.has(model)) deps.latency.doubted(model);
  doubted.add(model);
  return failure('DEADLINE', `expected ${Math.ceil(neededMs)} ms for a run and its writes; less than that is left`);
}

async function run(batch: MicroBatch, inputs: readonly Tensor[], invocation: Invocation): Promise<RunResult | Failure> {
  const { observer, memory } = invocation.deps;
  invocation.running += 1;
  try {
    return await batch.model.run(inputs);
  } catch (error) {
    if (error instanceof ModelUnavailableError) {
      observer.problem(error);
      return failure('MODEL_UNAVAILABLE', error.message);
    }
    if (error instanceof OutOfMemoryError) {
      observer.problem(error);
      memory.ranOut(batch.model, elementsIn(batch));
      return failure('OUT_OF_MEMORY', error.message);
    }
    return runFailed(batch, error);
  } finally {
    invocation.running -= 1;
  }
}

function runFailed({ model }: MicroBatch, error: unknown): Failure {
  return failure('RUN_FAILED', `model '${model.name}' failed on this request alone: ${reasonOf(error)}`);
}
