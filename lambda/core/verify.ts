import { firstDifference } from './difference.ts';
import { isFailure } from './failure.ts';
import { elementsIn, isWhole, loneMicroBatch, type MicroBatch, type ScoringRequest } from './microBatch.ts';
import type { Model } from './model.ts';
import { type Call, maxElements, type Ran, runMicroBatch, startStopwatch } from './run.ts';
import { unstack } from './stack.ts';
import { DATATYPES, elementsPerRow, type Tensor } from './tensor.ts';

/*
 * Every model whose requests share runs is compared while it is used: some requests are run alone as well. What a graph
 * proves, a kernel may still get wrong, and what a test at start has not met, a request may.
 */

/** True if requests of a model share runs. */
export type BatchingState = 'together' | 'alone';

/** Which models are batched in this process, and what comparing them costs. */
export interface BatchingWatch {
  batchingOf(model: Model): BatchingState;
  /** Notes a run. @returns what comparing it may take; undefined if nothing is due */
  ran(model: Model, runMs: number): Allowance | undefined;
  /** Notes runs of requests alone, which were made to be compared. */
  compared(model: Model, ms: number): void;
  /** Returns true if a row without a number in its answer is compared whatever that costs. */
  isFresh(model: Model): boolean;
  /** Stops batching of a model. @returns true if it was batched until now */
  stop(model: Model): boolean;
}

interface Allowance {
  readonly ms: number;
  /** Which of the requests to compare, as a share of them from 0 to 1. */
  readonly at: number;
}

interface Watched {
  isStopped: boolean;
  runMs: number;
  comparedMs: number;
  comparisons: number;
}

/** Comparisons of answers that are no numbers, beyond which they count towards the share. */
const FRESH_COMPARISONS = 64;

/** @param share of a model's run time that comparisons may take, from 0 to 1; 0: nothing is compared */
export function createBatchingWatch(share: number): BatchingWatch {
  const watched = new WeakMap<Model, Watched>();
  const watchedOf = (model: Model): Watched => {
    const known = watched.get(model) ?? { isStopped: false, runMs: 0, comparedMs: 0, comparisons: 0 };
    watched.set(model, known);
    return known;
  };
  const isCompared = ({ sharing = 'trusted' }: Model): boolean => share > 0 && sharing === 'compared';
  return {
    batchingOf: (model) => (model.sharing === 'never' || watched.get(model)?.isStopped ? 'alone' : 'together'),
    ran(model, runMs) {
      if (!isCompared(model)) return undefined;
      const state = watchedOf(model);
      state.runMs += runMs;
      const ms = share * state.runMs - state.comparedMs;
      return ms > 0 ? { ms, at: (state.comparisons * GOLDEN_RATIO) % 1 } : undefined;
    },
    compared(model, ms) {
      const state = watchedOf(model);
      state.comparedMs += ms;
      state.comparisons += 1;
    },
    isFresh: (model) => isCompared(model) && watchedOf(model).comparisons < FRESH_COMPARISONS,
    stop(model) {
      const state = watchedOf(model);
      const wasBatched = model.sharing !== 'never' && !state.isStopped;
      state.isStopped = true;
      return wasBatched;
    },
  };
}

/** Most requests of a micro-batch that are compared because their answers are no numbers. */
const MAX_ODD = 8;

/**
 * Runs a request of a micro-batch alone as well, if that is due, and any whose answer has a NaN although its inputs are
 * numbers. A difference stops batching of the model.
 *
 * @returns whether the micro-batch may be answered with its outputs
 */
export async function mayBeAnswered(batch: MicroBatch, { outputs, runMs, device }: Ran, call: Call): Promise<boolean> {
  const { batching } = call.deps;
  const { model, parts } = batch;
  const allowance = batching.ran(model, runMs);
  const mayBeOdd = parts.length > 1 && batching.isFresh(model) && outputs.some(hasNaN);
  if (parts.length > 1 && (allowance !== undefined || mayBeOdd)) {
    const places = placesOf(batch);
    const odd = mayBeOdd ? places.filter((one) => isOdd(one, outputs)).slice(0, MAX_ODD) : [];
    const due = allowance && places[Math.floor(allowance.at * places.length)];
    for (const place of new Set(due === undefined ? odd : [...odd, due])) {
      const { request, row } = place;
      const own = unstack(batch, { request, fromRow: 0, toRow: request.rows }, row, outputs);
      const allowedMs = odd.includes(place) ? Number.POSITIVE_INFINITY : (allowance?.ms ?? 0);
      if ((await runAlone(request, own, allowedMs, call, device)) !== undefined) return false;
    }
  }
  // Another micro-batch may have been found out in the meantime.
  return batching.batchingOf(model) === 'together' || (parts.length === 1 && parts.every(isWhole));
}

/**
 * Compares a request that was cut into several runs with a run of all its rows, if that is due.
 *
 * @param outputs its own, joined
 * @returns those that it is to be answered with
 */
export async function orWhole(
  request: ScoringRequest,
  outputs: readonly Tensor[],
  call: Call,
): Promise<readonly Tensor[]> {
  const allowance = call.deps.batching.ran(request.model, 0);
  return (allowance && (await runAlone(request, outputs, allowance.ms, call))) ?? outputs;
}

/** Multiples of it, less their whole parts, are spread evenly. */
const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2;

interface Place {
  readonly request: ScoringRequest;
  /** The first of its rows in the run. */
  readonly row: number;
}

/** Where requests lie in a run that were not cut. */
function placesOf({ parts }: MicroBatch): Place[] {
  let row = 0;
  return parts.flatMap((part) => {
    const place = { request: part.request, row };
    row += part.toRow - part.fromRow;
    return isWhole(part) ? [place] : [];
  });
}

function hasNaN({ datatype, data }: Tensor): boolean {
  return DATATYPES[datatype].kind === 'float' && (data as Float32Array).includes(Number.NaN);
}

/** Returns true if an answer has a NaN although the inputs of its request are finite. */
function isOdd({ request, row }: Place, outputs: readonly Tensor[]): boolean {
  const answersNaN = outputs.some(({ datatype, shape, data }) => {
    if (DATATYPES[datatype].kind !== 'float') return false;
    const width = elementsPerRow(shape);
    for (let at = row * width; at < (row + request.rows) * width; at++) if (Number.isNaN(data[at])) return true;
    return false;
  });
  return (
    answersNaN &&
    request.inputs.every(({ datatype, data }) => {
      return DATATYPES[datatype].kind !== 'float' || (data as Float32Array).every(Number.isFinite);
    })
  );
}

/** One comparison takes no more of the time that is left, so that no answer misses the deadline because of it. */
const SHARE_OF_TIME_LEFT = 1 / 8;

/**
 * Runs a request alone, with all its rows, and stops batching of its model if its answer differs.
 *
 * @returns its answer alone if that differs; undefined if it does not, or there was no time
 */
async function runAlone(
  request: ScoringRequest,
  outputs: readonly Tensor[],
  allowedMs: number,
  call: Call,
  device?: number,
): Promise<readonly Tensor[] | undefined> {
  const { deps, time, schedule, replies } = call;
  const { model } = request;
  const alone = loneMicroBatch(request, 'end');
  // What was cut for want of memory is not run whole.
  if (request.rows > 1 && elementsIn(alone) > maxElements(deps, model)) return undefined;
  const expectedMs = deps.costs.predictMs(model, alone.paddedRows, alone.paddedLength) ?? 0;
  const leftMs = time.remainingMs();
  const isInTime =
    schedule.busyMs(model) + expectedMs <= leftMs * SHARE_OF_TIME_LEFT && leftMs >= 2 * deps.limits.deadlineMarginMs;
  if (expectedMs > allowedMs || time.signal.aborted || !isInTime) return undefined;
  const stopwatch = startStopwatch(deps.now);
  const ran = await runMicroBatch(alone, expectedMs, call, device);
  const ms = isFailure(ran) ? stopwatch.lap() : ran.runMs;
  deps.batching.compared(model, allowedMs === Number.POSITIVE_INFINITY ? 0 : ms);
  deps.observer.checked(ms);
  // That a request alone fails says nothing of its neighbours.
  if (isFailure(ran)) return undefined;
  const own = unstack(alone, { request, fromRow: 0, toRow: request.rows }, 0, ran.outputs);
  const difference = firstDifference(outputs, own, model.isCoarse);
  if (difference === undefined) return undefined;
  if (deps.batching.stop(model)) {
    deps.observer.batchMismatch({
      model: model.name,
      version: model.version,
      messageId: replies.keyOf(request),
      difference,
    });
  }
  return own;
}
