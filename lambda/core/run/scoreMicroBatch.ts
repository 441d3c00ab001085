import { type Failure, failure, isFailure, isTransient } from '../contract/failure.ts';
import { elementsIn, halve, type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import type { PendingWrite } from '../settle/ledger.ts';
import { answerParts } from './answerParts.ts';
import type { Invocation } from './invocation.ts';
import { reportOf } from './report.ts';
import { type Ran, runMicroBatch } from './runMicroBatch.ts';
import { startStopwatch } from './stopwatch.ts';

/**
 * Runs a micro-batch, and writes the results that are complete with it. A failing run is halved until the culprit
 * stands alone; a run that is too large for the memory, until it is small enough. Never throws.
 */
export async function scoreMicroBatch(batch: MicroBatch, invocation: Invocation): Promise<void> {
  try {
    if (elementsIn(batch) > invocation.deps.memory.mostElements(batch.model)) {
      const halves = halveForMemory(batch);
      if (halves !== undefined) return await scoreBoth(halves, invocation);
    }
    const ran = await runMicroBatch(batch, invocation);
    if (!isFailure(ran)) return await answer(batch, ran, invocation);
    const halves = halvesAfter(ran, batch);
    if (halves !== undefined) return await scoreBoth(halves, invocation);
    await invocation.write(failAll(batch, ran, invocation));
  } catch (error) {
    invocation.deps.observer.problem(error);
    const failed = failure('INTERNAL', 'expected the micro-batch to be settled; scoring it threw');
    await invocation.write(failAll(batch, failed, invocation));
  }
}

async function scoreBoth([first, second]: readonly [MicroBatch, MicroBatch], invocation: Invocation): Promise<void> {
  await scoreMicroBatch(first, invocation);
  await scoreMicroBatch(second, invocation);
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

async function answer(batch: MicroBatch, { outputs, runMs, stackMs }: Ran, invocation: Invocation): Promise<void> {
  const { observer, now } = invocation.deps;
  const stopwatch = startStopwatch(now);
  const pending = await answerParts(batch, outputs, invocation);
  const encodeMs = stopwatch.lap();
  await invocation.write(pending);
  // V8 allocates such arrays among long-lived objects once some have lived long: what they hold would live as long.
  pending.length = 0;
  observer.microBatch(reportOf(batch, { stackMs, runMs, encodeMs, writeMs: stopwatch.lap() }));
}

function failAll({ parts }: MicroBatch, failed: Failure, { ledger }: Invocation): PendingWrite[] {
  return parts.map(({ request }) => ledger.recordFailure(request, failed)).filter((one) => one !== undefined);
}
