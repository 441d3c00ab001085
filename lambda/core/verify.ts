import { firstDifference } from './difference.ts';
import { isFailure } from './failure.ts';
import {
  elementsIn,
  isWhole,
  loneMicroBatch,
  type MicroBatch,
  type RequestInput,
  type ScoringRequest,
} from './microBatch.ts';
import type { Model } from './model.ts';
import { type Call, maxElements, type Ran, runMicroBatch, startStopwatch } from './run.ts';
import { unstack } from './stack.ts';
import { DATATYPES, decodeAll, elementsPerRow, isBase64Data, type Tensor } from './tensor.ts';

/*
 * Compares answers in batches with answers alone while a model is in use, for every model whose requests share runs. A
 * kernel may break what the graph proves, and a request may have properties that the test at start lacked.
 */

export type BatchingState = 'together' | 'alone';

/** State of batching by model in this process, and the cost of comparisons. */
export interface BatchingWatch {
  batchingOf(model: Model): BatchingState;
  /** Records a run. @returns the time that a comparison may take, or undefined if none is due */
  recordRun(model: Model, runMs: number): Allowance | undefined;
  /** Records runs of requests alone for a comparison. */
  recordComparison(model: Model, ms: number): void;
  /** Returns true if a NaN in an answer is compared at any cost. */
  isFresh(model: Model): boolean;
  /** Stops batching of a model. @returns true if it was batched until now */
  stop(model: Model): boolean;
}

interface Allowance {
  readonly ms: number;
  /** Position of the request to compare among all requests, from 0 to 1. */
  readonly at: number;
}

interface Watched {
  isStopped: boolean;
  runMs: number;
  comparedMs: number;
  comparisons: number;
}

/** Number of comparisons of NaN answers that do not count towards the share. */
const FRESH_COMPARISONS = 64;

/** @param share maximum share of a model's run time for comparisons, from 0 to 1; 0 compares nothing */
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
    recordRun(model, runMs) {
      if (!isCompared(model)) return undefined;
      const state = watchedOf(model);
      state.runMs += runMs;
      const ms = share * state.runMs - state.comparedMs;
      return ms > 0 ? { ms, at: (state.comparisons * GOLDEN_RATIO) % 1 } : undefined;
    },
    recordComparison(model, ms) {
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

/** Maximum number of requests in a micro-batch to compare because of NaN answers. */
const MAX_ODD = 8;

/**
 * Runs some requests of a micro-batch alone, too: one if a comparison is due, and those whose answer has a NaN without
 * a NaN input. A difference stops batching of the model.
 *
 * @returns true if the outputs of the micro-batch may be used as answers
 */
export async function verifyOutputs(batch: MicroBatch, { outputs, runMs, device }: Ran, call: Call): Promise<boolean> {
  const { batching } = call.deps;
  const { model, parts } = batch;
  const allowance = batching.recordRun(model, runMs);
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
  // Meanwhile another micro-batch may have stopped batching.
  return batching.batchingOf(model) === 'together' || (parts.length === 1 && parts.every(isWhole));
}

/**
 * Compares a request that was cut into several runs with a run of all its rows, if a comparison is due.
 *
 * @param outputs of its runs, joined
 * @returns outputs to answer with
 */
export async function verifyWhole(
  request: ScoringRequest,
  outputs: readonly Tensor[],
  call: Call,
): Promise<readonly Tensor[]> {
  const allowance = call.deps.batching.recordRun(request.model, 0);
  return (allowance && (await runAlone(request, outputs, allowance.ms, call))) ?? outputs;
}

/** The fractional parts of its multiples are spread evenly. */
const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2;

interface Place {
  readonly request: ScoringRequest;
  readonly row: number;
}

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
  return answersNaN && request.inputs.every(isFiniteInput);
}

function isFiniteInput({ datatype, shape, data }: RequestInput): boolean {
  if (DATATYPES[datatype].kind !== 'float') return true;
  const numbers = isBase64Data(data) ? decodeAll(data, datatype, shape) : data;
  return (numbers as Float32Array).every(Number.isFinite);
}

/** Maximum share of the time left for one comparison, so that it makes no answer late. */
const SHARE_OF_TIME_LEFT = 1 / 8;

/**
 * Runs a request alone, with all its rows, and stops batching of its model if its answer differs.
 *
 * @returns the answer alone if it differs, undefined if it does not or there was no time
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
  // A request that was cut to fit the memory is not run as a whole.
  if (request.rows > 1 && elementsIn(alone) > maxElements(deps, model)) return undefined;
  const expectedMs = deps.costs.predictMs(model, alone.paddedRows, alone.paddedLength) ?? 0;
  const leftMs = time.remainingMs();
  const isInTime =
    schedule.busyMs(model) + expectedMs <= leftMs * SHARE_OF_TIME_LEFT && leftMs >= 2 * deps.limits.deadlineMarginMs;
  if (expectedMs > allowedMs || time.signal.aborted || !isInTime) return undefined;
  const stopwatch = startStopwatch(deps.now);
  const ran = await runMicroBatch(alone, expectedMs, call, device);
  const ms = isFailure(ran) ? stopwatch.lap() : ran.runMs;
  deps.batching.recordComparison(model, allowedMs === Number.POSITIVE_INFINITY ? 0 : ms);
  deps.observer.checked(ms);
  // A failure of a request alone says nothing about its neighbours.
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
