import { answerMicroBatch } from './answer.ts';
import { type Failure, failure, isFailure, isTransient, plural } from './failure.ts';
import {
  elementsIn,
  halve,
  isWhole,
  type MicroBatch,
  microBatchOf,
  type Part,
  type ScoringRequest,
  wholeRun,
} from './microBatch.ts';
import type { Reply } from './replies.ts';
import { type Call, fitTime, maxElements, runMicroBatch } from './run.ts';
import { unstack } from './stack.ts';
import type { Tensor } from './tensor.ts';
import { createShadowVerification, mayBeAnswered } from './verify.ts';

type Halves = readonly [MicroBatch, MicroBatch];

/**
 * Runs a micro-batch, and has the results written that are complete with it. One that does not fit the time left is halved
 * until it does; so is one that is too large for the memory. A failing run is halved until the culprit stands alone.
 * The requests of a model that may not be batched are run one by one. Never throws.
 */
export async function scoreMicroBatch(batch: MicroBatch, call: Call): Promise<void> {
  try {
    if (mustRunAlone(batch, call)) return await scoreAlone(batch, call);
    if (elementsIn(batch) > maxElements(call.deps, batch.model)) {
      const halves = halveForMemory(batch);
      if (halves !== undefined) return await scoreBoth(halves, call);
    }
    const fit = fitTime(batch, call);
    if (!fit.fits) return await scoreWhatFits(batch, fit.failure, call);
    const ran = await runMicroBatch(batch, fit.expectedMs, call);
    if (!isFailure(ran)) {
      const isSound = await mayBeAnswered(batch, ran, call);
      return isSound ? await answerMicroBatch(batch, ran, call) : await scoreAlone(batch, call);
    }
    const halves = halvesAfter(ran, batch);
    if (halves !== undefined) return await scoreBoth(halves, call);
    await failAll(batch, ran, call);
  } catch (error) {
    call.deps.observer.problem(error);
    await failAll(batch, failure('INTERNAL', 'expected the micro-batch to be settled; scoring it threw'), call);
  }
}

/** Of a model whose requests must not be cut, one that is alone in its micro-batch, or was cut earlier, has to run whole. */
function mustRunAlone({ model, parts }: MicroBatch, { deps: { batching } }: Call): boolean {
  if (batching.batchingOf(model) !== 'together') return true;
  return !batching.sharingOf(model).mayCut && (parts.length === 1 || !parts.every(isWhole));
}

async function scoreBoth([first, second]: Halves, call: Call): Promise<void> {
  await scoreMicroBatch(first, call);
  await scoreMicroBatch(second, call);
}

async function scoreWhatFits(batch: MicroBatch, failed: Failure, call: Call): Promise<void> {
  const halves = halve(batch);
  if (halves !== undefined) await scoreBoth(halves, call);
  else await failAll(batch, failed, call);
}

/** A request alone that fails is the culprit, and is not cut any further; one that is too large may be. */
function halvesAfter(failed: Failure, batch: MicroBatch): Halves | undefined {
  if (failed.code === 'OUT_OF_MEMORY') return halveForMemory(batch);
  return !isTransient(failed) && batch.parts.length > 1 ? halve(batch) : undefined;
}

/** The halves, unless each row alone would be padded up to as large a run again, as at the smallest allowed size. */
function halveForMemory(batch: MicroBatch): Halves | undefined {
  const { model, parts, closedBecause } = batch;
  const elements = elementsIn(batch);
  const firstRowOf = (part: Part) => microBatchOf(model, [{ ...part, toRow: part.fromRow + 1 }], closedBecause);
  return parts.some((part) => elementsIn(firstRowOf(part)) < elements) ? halve(batch) : undefined;
}

async function failAll({ parts }: MicroBatch, failed: Failure, { replies, sink }: Call): Promise<void> {
  const pending: Reply[] = [];
  for (const { request } of parts) {
    const one = replies.recordFailure(request, failed);
    if (one !== undefined) pending.push(one);
  }
  if (pending.length > 0) await sink(pending);
}

/**
 * Runs each request of a micro-batch alone, with all its rows, for a model that may not be batched. Where the model may yet
 * prove itself, requests are run together afterwards, to be compared.
 */
async function scoreAlone(batch: MicroBatch, call: Call): Promise<void> {
  const proof = createShadowVerification(batch, call);
  for (const part of batch.parts) {
    const { request } = part;
    if (call.replies.isComplete(request.bodyIndex)) continue;
    // A request that was cut before its model was found out is run once, whole.
    if (!isWhole(part) && !call.splits.takeWhole(request)) continue;
    const outputs = await scoreRequest(request, batch, call);
    if (outputs !== undefined) proof.add(request, outputs);
  }
  await proof.compare();
}

/** Answers one request, or says why it could not be run. Gives its outputs, cut back. */
async function scoreRequest(
  request: ScoringRequest,
  { closedBecause }: MicroBatch,
  call: Call,
): Promise<readonly Tensor[] | undefined> {
  const { replies } = call;
  const alone = wholeRun(request, closedBecause);
  const fit = fitTime(alone, call, false);
  const ran =
    refuseTooLarge(alone, call) ?? (fit.fits ? await runMicroBatch(alone, fit.expectedMs, call) : fit.failure);
  if (isFailure(ran)) {
    const failed = replies.recordFailure(request, ran);
    if (failed !== undefined) await call.sink([failed]);
    return undefined;
  }
  await answerMicroBatch(alone, ran, call);
  return unstack(alone, alone.parts[0] as Part, 0, ran.outputs);
}

/** Why a request that must not be split cannot be run; undefined where it can. */
function refuseTooLarge(alone: MicroBatch, { deps: { limits } }: Call) {
  const { model, rows } = alone;
  const elements = elementsIn(alone);
  if (rows === 1 || (rows <= model.maxBatchRows && elements <= limits.maxBatchElements)) return undefined;
  const [max, cure] =
    rows > model.maxBatchRows
      ? [`at most ${plural(model.maxBatchRows, 'row')} in a request`, 'raise "maxBatchRows" in its config.json']
      : [
          `at most ${plural(limits.maxBatchElements, 'element')} in a request, got ${elements}`,
          'raise BATCHSCORE_MAX_BATCH_ELEMENTS',
        ];
  const why =
    model.independence === 'unproven'
      ? 'splits no request until real ones have proved that its rows are independent'
      : 'splits no request, as its rows depend on each other or on their number';
  const proof = model.independence === 'unproven' ? ', put requests into samples.jsonl beside it' : '';
  return failure(
    'TOO_MANY_ROWS',
    `model '${model.name}' ${why}: expected ${max}, got ${plural(rows, 'row')}; send fewer${proof}, or ${cure}`,
  );
}
