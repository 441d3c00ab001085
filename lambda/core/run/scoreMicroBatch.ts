import { type Failure, failure, isFailure, isTransient } from '../contract/failure.ts';
import { elementsIn, halve, isWhole, type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import type { PendingWrite } from '../settle/ledger.ts';
import { answerMicroBatch } from './answerMicroBatch.ts';
import { mayBeAnswered } from './checkMicroBatch.ts';
import { type Invocation, mostElements } from './invocation.ts';
import { runMicroBatch } from './runMicroBatch.ts';
import { scoreAlone } from './scoreAlone.ts';
import { fitTime } from './timeLeft.ts';

type Halves = readonly [MicroBatch, MicroBatch];

/**
 * Runs a micro-batch, and has the results written that are complete with it. One that does not fit the time left is halved
 * until it does; so is one that is too large for the memory. A failing run is halved until the culprit stands alone.
 * The requests of a model that may not be batched are run one by one. Never throws.
 */
export async function scoreMicroBatch(batch: MicroBatch, invocation: Invocation): Promise<void> {
  try {
    if (mustRunAlone(batch, invocation)) return await scoreAlone(batch, invocation);
    if (elementsIn(batch) > mostElements(invocation.deps, batch.model)) {
      const halves = halveForMemory(batch);
      if (halves !== undefined) return await scoreBoth(halves, invocation);
    }
    const fit = fitTime(batch, invocation);
    if (!fit.fits) return await scoreWhatFits(batch, fit.failure, invocation);
    const ran = await runMicroBatch(batch, fit.expectedMs, invocation);
    if (!isFailure(ran)) {
      const isSound = await mayBeAnswered(batch, ran, invocation);
      return isSound ? await answerMicroBatch(batch, ran, invocation) : await scoreAlone(batch, invocation);
    }
    const halves = halvesAfter(ran, batch);
    if (halves !== undefined) return await scoreBoth(halves, invocation);
    await failAll(batch, ran, invocation);
  } catch (error) {
    invocation.deps.observer.problem(error);
    await failAll(batch, failure('INTERNAL', 'expected the micro-batch to be settled; scoring it threw'), invocation);
  }
}

/** Where no request may be cut, one that is alone in its micro-batch is not halved, and one that was cut is run whole. */
function mustRunAlone({ model, parts }: MicroBatch, { deps: { batching } }: Invocation): boolean {
  if (batching.batchingOf(model) !== 'together') return true;
  return !batching.sharingOf(model).mayCut && (parts.length === 1 || !parts.every(isWhole));
}

async function scoreBoth([first, second]: Halves, invocation: Invocation): Promise<void> {
  await scoreMicroBatch(first, invocation);
  await scoreMicroBatch(second, invocation);
}

async function scoreWhatFits(batch: MicroBatch, failed: Failure, invocation: Invocation): Promise<void> {
  const halves = invocation.time.signal.aborted ? undefined : halve(batch);
  if (halves !== undefined) await scoreBoth(halves, invocation);
  else await failAll(batch, failed, invocation);
}

/** A request alone that fails is the culprit, and is not cut any further; one that is too large may be. */
function halvesAfter(failed: Failure, batch: MicroBatch): Halves | undefined {
  if (failed.code === 'OUT_OF_MEMORY') return halveForMemory(batch);
  return !isTransient(failed) && batch.parts.length > 1 ? halve(batch) : undefined;
}

/** The halves, unless each row alone would be padded up to as large a run again, as on a ladder's lowest rung. */
function halveForMemory(batch: MicroBatch): Halves | undefined {
  const { model, parts, closedBecause } = batch;
  const elements = elementsIn(batch);
  const firstRowOf = (part: Part) => microBatchOf(model, [{ ...part, toRow: part.fromRow + 1 }], closedBecause);
  return parts.some((part) => elementsIn(firstRowOf(part)) < elements) ? halve(batch) : undefined;
}

function failAll({ parts }: MicroBatch, failed: Failure, { ledger, write }: Invocation): Promise<void> {
  const pending: PendingWrite[] = [];
  for (const { request } of parts) {
    const one = ledger.recordFailure(request, failed);
    if (one !== undefined) pending.push(one);
  }
  return write(pending);
}
