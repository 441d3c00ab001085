import { type Failure, failure, isFailure, reasonOf } from '../contract/failure.ts';
import { ModelUnavailableError, OutOfMemoryError, RunAbandonedError, type RunResult } from '../contract/model.ts';
import { elementsIn, type MicroBatch } from '../plan/microBatch.ts';
import { assertBatched, stack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { Invocation } from './invocation.ts';

export interface Ran extends RunResult {
  readonly stackMs: number;
}

/**
 * What the run gave, its rows proved to be there, or why there was none: no model, no memory, or the run itself.
 *
 * @param card the only one of the model's that will do. @default any
 */
export async function runMicroBatch(
  batch: MicroBatch,
  expectedMs: number,
  invocation: Invocation,
  card?: number,
): Promise<Ran | Failure> {
  const { latency, memory, observer, now } = invocation.deps;
  const { model, rows, paddedRows, paddedLength } = batch;
  const details = { model: model.name, version: model.version, rows };
  const startedAt = now();
  const inputs = stack(batch);
  const stackedAt = now();
  observer.stage?.('stack', startedAt, stackedAt, details);
  const end = invocation.schedule.begin(model, expectedMs);
  const ran = await run(batch, inputs, expectedMs, invocation, card);
  end();
  observer.stage?.('run', stackedAt, now(), {
    ...details,
    ...(isFailure(ran) ? { failed: ran.code } : { busyMs: ran.runMs }),
  });
  if (isFailure(ran)) return ran;
  latency.observed(model, paddedRows, paddedLength, ran.runMs);
  memory.ranWell(model, elementsIn(batch));
  try {
    assertBatched(batch, ran.outputs);
  } catch (error) {
    return runFailed(batch, error);
  }
  return { ...ran, stackMs: stackedAt - startedAt };
}

async function run(
  batch: MicroBatch,
  inputs: readonly Tensor[],
  expectedMs: number,
  invocation: Invocation,
  card: number | undefined,
): Promise<RunResult | Failure> {
  const { observer, memory, latency } = invocation.deps;
  const { model, parts, paddedRows, paddedLength } = batch;
  try {
    return await model.run(inputs, signalOf(expectedMs, invocation), card);
  } catch (error) {
    if (error instanceof RunAbandonedError) {
      if (error.ranMs !== undefined) {
        latency.overran(model, paddedRows, paddedLength, error.ranMs);
        observer.runAbandoned(model, error.ranMs);
      }
      return failure('DEADLINE', error.message);
    }
    if (error instanceof ModelUnavailableError) {
      observer.problem(error);
      const outage = error.mayBeTheRuns ? undefined : ({ of: `model '${model.name}'`, kind: 'refused' } as const);
      return failure('MODEL_UNAVAILABLE', error.message, outage);
    }
    if (error instanceof OutOfMemoryError) {
      observer.problem(error);
      // What a request alone needs says nothing of how many fit together.
      if (parts.length > 1) memory.ranOut(model, elementsIn(batch));
      return failure('OUT_OF_MEMORY', error.message);
    }
    return runFailed(batch, error);
  }
}

/** A run far over its time is taken to hang, so that it leaves some time for what comes after it. */
const HANG_FACTOR = 4;

/** When the run is given up: at the deadline, or sooner where there is more to do after it. */
function signalOf(expectedMs: number, { time, hasMoreToDo }: Invocation): AbortSignal {
  if (!hasMoreToDo) return time.signal;
  const limitMs = Math.max(time.remainingMs() / 2, HANG_FACTOR * expectedMs);
  return AbortSignal.any([time.signal, AbortSignal.timeout(Math.min(Math.ceil(limitMs), LONGEST_TIMER_MS))]);
}

/** @see https://nodejs.org/api/timers.html#settimeoutcallback-delay-args */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

function runFailed({ model }: MicroBatch, error: unknown): Failure {
  return failure('RUN_FAILED', `model '${model.name}' failed on this request alone: ${reasonOf(error)}`);
}
