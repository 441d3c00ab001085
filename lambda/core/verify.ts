import {
  type Difference,
  firstDifference,
  gravestDifference,
  isMoreThanRounding,
  isRounding,
  OTHER_SHAPE,
  SAME_SHAPE,
} from './difference.ts';
import { isFailure } from './failure.ts';
import { isWhole, type MicroBatch, microBatchOf, type Part, type ScoringRequest } from './microBatch.ts';
import type { Model } from './model.ts';
import type { Sharing } from './plan.ts';
import { type Call, type Ran, runMicroBatch, startStopwatch } from './run.ts';
import { stack, unstack } from './stack.ts';
import { DATATYPES, type Tensor, type TensorData } from './tensor.ts';

/**
 * How the requests of a model are run: `together`; `alone`; or `proving`, alone as well, and then once more together, to
 * be compared.
 */
export type BatchingState = 'together' | 'proving' | 'alone';

/** How models may be batched, by what is known of them and what real requests have shown since the process began. */
export interface BatchingWatch {
  batchingOf(model: Model): BatchingState;
  /** How the rows of the model may share runs: at most twice as many as were seen to get the right answers. */
  sharingOf(model: Model): Sharing;
  /**
   * A micro-batch ran.
   *
   * @returns how many of its requests are to be run alone as well, and for how long; undefined where none
   */
  ran(batch: MicroBatch, runMs: number): CheckAllowance | undefined;
  /** Requests of a micro-batch were run alone as well, which took so many milliseconds: so many different ones agree. */
  checked(batch: MicroBatch, allowance: CheckAllowance, agreed: number, checkMs: number): void;
  /** Different requests of an unproven model were run both ways, together in a run of so many rows: so many agree. */
  proved(model: Model, requests: number, rows: number): void;
  /**
   * Batched answers were found to differ.
   *
   * @param maxRows a number of rows at which they do not, where the number of rows alone changes them; 1: none
   * @returns what was done until now
   */
  stop(model: Model, maxRows: number): BatchingState;
}

interface CheckAllowance {
  readonly requests: number;
  readonly checkMs: number;
  /** Whether the micro-batch is not to be answered as it ran unless one of its requests at least was compared. */
  readonly isNeeded: boolean;
  /** Whether the time counts towards the share of run time that checks may take. */
  readonly isCharged: boolean;
  /** Where to begin, as a share of the requests from 0 to 1. */
  readonly from: number;
}

interface Watched {
  batching: BatchingState;
  /** Of the largest run whose requests got the answers that they get alone. */
  verifiedRows: number;
  /** No run has more, whatever is proved. */
  maxRows: number;
  /** Different requests that got the same in a micro-batch and alone. */
  compared: number;
  runMs: number;
  checkMs: number;
  checks: number;
  verifiedRequests: number;
  provingRuns: number;
}

/**
 * Until so many different requests agree, every micro-batch is compared before it is written; a model of which nothing is
 * known is not batched before. Rarer than one in so many, what disturbs a run is left to the checks of later runs.
 */
const REQUESTS_THAT_PROVE = 64;
/** A model that so many runs have not proved stays unbatched: the runs cost more than they may ever save. */
const MAX_PROVING_RUNS = 64;
/** Most requests of a later micro-batch that are run alone as well. */
const REQUESTS_A_CHECK = 8;
/** What comparing an early micro-batch may take, in runs of it, and at least. */
const EARLY_CHECK_RUNS = 4;
const EARLY_CHECK_MS = 250;
/** The fractional parts of its multiples are spread evenly, however many there are: they choose where a check starts. */
const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2;

/** @param share of a model's run time that checks may take, from 0 to 1; 0: nothing is checked, nothing is proved */
export function createBatchingWatch(share: number): BatchingWatch {
  const watched = new WeakMap<Model, Watched>();
  const watchedOf = (model: Model): Watched | undefined => {
    const { independence = 'trusted', maxBatchRows } = model;
    if (independence === 'trusted' || independence === 'dependent' || share === 0 || maxBatchRows === 1)
      return undefined;
    let state = watched.get(model);
    if (state === undefined) {
      state = newState(model);
      watched.set(model, state);
    }
    return state;
  };
  const batchingOf = (model: Model): BatchingState => {
    const { independence = 'trusted' } = model;
    const unwatched = independence === 'unproven' || independence === 'dependent' ? 'alone' : 'together';
    return watchedOf(model)?.batching ?? unwatched;
  };
  return {
    batchingOf,
    sharingOf(model) {
      const { verifiedRows = Number.POSITIVE_INFINITY } = model;
      const state = watchedOf(model);
      const bound = state?.maxRows ?? model.maxSharedRows;
      const next = state === undefined ? verifiedRows : nextSize(model, state.verifiedRows);
      const changesByCount = bound !== undefined && bound < model.maxBatchRows;
      return {
        maxRows: Math.min(bound ?? next, next),
        mayCut: batchingOf(model) === 'together' && !changesByCount,
      };
    },
    ran({ model, paddedRows, parts }, runMs) {
      const state = watchedOf(model);
      if (state?.batching !== 'together' || parts.length === 1) return undefined;
      const from = (state.checks * GOLDEN_RATIO) % 1;
      const isLarger = paddedRows > state.verifiedRows;
      if (isLarger || state.compared < REQUESTS_THAT_PROVE) {
        const requests = Math.max(isLarger ? REQUESTS_A_CHECK : 0, REQUESTS_THAT_PROVE - state.compared);
        const checkMs = Math.max(EARLY_CHECK_MS, EARLY_CHECK_RUNS * runMs);
        return { requests, checkMs, isNeeded: isLarger, isCharged: false, from };
      }
      state.runMs += runMs;
      const checkMs = share * state.runMs - state.checkMs;
      return checkMs > 0 ? { requests: REQUESTS_A_CHECK, checkMs, isNeeded: false, isCharged: true, from } : undefined;
    },
    checked({ model, paddedRows }, { isCharged }, agreed, checkMs) {
      const state = watchedOf(model);
      if (state === undefined) return;
      state.checks += 1;
      state.compared += agreed;
      if (agreed > 0) state.verifiedRows = Math.max(state.verifiedRows, paddedRows);
      if (isCharged) state.checkMs += checkMs;
    },
    proved(model, requests, rows) {
      const state = watchedOf(model);
      if (state?.batching !== 'proving') return;
      state.verifiedRequests += requests;
      state.provingRuns += 1;
      if (requests > 0) state.verifiedRows = Math.max(state.verifiedRows, rows);
      if (state.verifiedRequests >= REQUESTS_THAT_PROVE) state.batching = 'together';
      else if (state.provingRuns === MAX_PROVING_RUNS) state.batching = 'alone';
    },
    stop(model, maxRows) {
      const state = watchedOf(model);
      const before = state?.batching ?? 'alone';
      if (state === undefined) return before;
      state.maxRows = Math.min(state.maxRows, maxRows);
      state.verifiedRows = Math.min(state.verifiedRows, state.maxRows);
      if (state.maxRows === 1) state.batching = 'alone';
      return before;
    },
  };
}

function newState({ independence, maxBatchRows, verifiedRows, maxSharedRows = maxBatchRows }: Model): Watched {
  return {
    batching: independence === 'proved' ? 'together' : 'proving',
    verifiedRows: independence === 'proved' ? (verifiedRows ?? maxSharedRows) : REQUESTS_THAT_PROVE,
    maxRows: maxSharedRows,
    compared: 0,
    runMs: 0,
    checkMs: 0,
    checks: 0,
    verifiedRequests: 0,
    provingRuns: 0,
  };
}

/** The rows that a run may have next: the next allowed size, or twice as many. */
function nextSize({ allowedSizes, maxBatchRows }: Model, verifiedRows: number): number {
  if (verifiedRows >= maxBatchRows) return maxBatchRows;
  return allowedSizes.find((size) => size > verifiedRows) ?? Math.min(maxBatchRows, 2 * verifiedRows);
}

/** The most of the time left that all checks of a micro-batch may take together. */
const SHARE_OF_TIME_LEFT = 1 / 4;

/**
 * Runs requests of a micro-batch that has run alone as well, where that is due, and compares. The first micro-batches of a
 * model in this process are checked until enough different requests agree, later ones as often as the model's share of
 * run time allows, and any with more rows than were proved.
 *
 * @returns whether the micro-batch may be answered with its outputs
 */
export async function mayBeAnswered(batch: MicroBatch, { outputs, runMs, device }: Ran, call: Call): Promise<boolean> {
  const { batching, observer } = call.deps;
  const { model } = batch;
  if (batch.parts.length === 1) return true;
  const allowance = batching.ran(batch, runMs);
  if (allowance !== undefined) {
    const checks = createCheckRuns(call, device);
    const { comparison, compared } = await check(batch, outputs, allowance, checks, call);
    if (comparison.status === 'differ') stopBatching(comparison, call);
    if (checks.runs > 0) {
      batching.checked(batch, allowance, comparison.status === 'agree' ? compared : 0, checks.spentMs);
      observer.checked(checks.spentMs);
    }
    if (comparison.status !== 'agree' || (allowance.isNeeded && compared === 0)) return false;
  }
  // Another micro-batch may have been found out in the meantime.
  return batching.batchingOf(model) === 'together' && batch.rows <= batching.sharingOf(model).maxRows;
}

interface Checked {
  readonly comparison: Comparison;
  readonly compared: number;
}

async function check(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  allowance: CheckAllowance,
  checks: CheckRuns,
  call: Call,
): Promise<Checked> {
  const limitMs = Math.min(allowance.checkMs, SHARE_OF_TIME_LEFT * call.time.remainingMs());
  const known: (readonly Tensor[])[] = [];
  let differing: Differing | undefined;
  for (const { part, row } of unitsToCheck(batch, allowance)) {
    const alone = microBatchOf(batch.model, [part], batch.closedBecause);
    const isFirst = checks.runs === 0 && !allowance.isCharged;
    if (!isFirst && checks.spentMs + expectedCheckMs(alone, call) > limitMs) break;
    const inputs = inputsOf(part);
    if (known.some((one) => areAlike(one, inputs))) continue;
    const ran = await checks.run(alone);
    if (ran === undefined) break;
    known.push(inputs);
    const one: RunBothWays = { part, row, outputs: unstack(alone, part, 0, ran.outputs) };
    differing = worstOf([...(differing ? [differing] : []), ...differingRequests(batch, outputs, [one])]);
    if (differing !== undefined && isMoreThanRounding(differing.difference, OTHER_SHAPE)) break;
  }
  const comparison: Comparison =
    differing === undefined ? { status: 'agree' } : await explainDifference(batch, outputs, differing, checks);
  return { comparison, compared: known.length };
}

/** Requests at about equal distances, round from where the allowance begins. */
function* unitsToCheck(
  { parts }: MicroBatch,
  { requests, from }: CheckAllowance,
): Generator<Omit<RunBothWays, 'outputs'>> {
  const firstRows: number[] = [];
  let rows = 0;
  for (const { fromRow, toRow } of parts) {
    firstRows.push(rows);
    rows += toRow - fromRow;
  }
  const count = Math.min(requests, parts.length);
  const first = Math.floor(from * parts.length);
  for (let index = 0; index < count; index++) {
    const place = (first + Math.floor((index * parts.length) / count)) % parts.length;
    yield { part: unitOf(parts[place] as Part), row: firstRows[place] as number };
  }
}

/** Whether the requests of a micro-batch, which were all run alone, get the same outputs together. */
interface ShadowVerification {
  /** @param outputs of the request alone, cut back */
  add(request: ScoringRequest, outputs: readonly Tensor[]): void;
  /** Runs the requests that were added together, and compares; nothing of it is written. */
  compare(): Promise<void>;
}

/** Only an unproven model is verified, by requests that differ from each other; for others this does nothing. */
export function createShadowVerification({ model, closedBecause }: MicroBatch, call: Call): ShadowVerification {
  const { batching, observer } = call.deps;
  const compared: RunBothWays[] = [];
  const known: Tensor[][] = [];
  let rows = 0;
  const isProving = (): boolean => batching.batchingOf(model) === 'proving';
  return {
    add(request, outputs) {
      const isFull = compared.length === REQUESTS_THAT_PROVE || rows + request.rows > batching.sharingOf(model).maxRows;
      if (!isProving() || isFull) return;
      const part = { request, fromRow: 0, toRow: request.rows };
      const inputs = inputsOf(part);
      if (known.some((one) => areAlike(one, inputs))) return;
      known.push(inputs);
      compared.push({ part, outputs, row: rows });
      rows += request.rows;
    },
    async compare() {
      if (compared.length < 2 || !isProving()) return;
      const parts = compared.map(({ part }) => part);
      const together = microBatchOf(model, parts, closedBecause);
      const checks = createCheckRuns(call);
      const comparison = await compareTogether(together, compared, checks);
      if (comparison.status === 'differ') stopBatching({ ...comparison, maxRows: 1 }, call);
      else if (checks.runs > 0)
        batching.proved(model, comparison.status === 'agree' ? compared.length : 0, together.paddedRows);
      if (checks.runs > 0) observer.checked(checks.spentMs);
    },
  };
}

async function compareTogether(
  together: MicroBatch,
  compared: readonly RunBothWays[],
  checks: CheckRuns,
): Promise<Comparison> {
  const ran = await checks.run(together);
  if (ran === undefined) return { status: 'unclear' };
  const differing = worstOf(differingRequests(together, ran.outputs, compared));
  return differing === undefined ? { status: 'agree' } : explainDifference(together, ran.outputs, differing, checks);
}

/** A request of a micro-batch that was also run alone. Of one that was cut, its part stands for it. */
interface RunBothWays {
  readonly part: Part;
  readonly row: number;
  /** What it got alone: one tensor per model output, each with the rows of the part, cut back. */
  readonly outputs: readonly Tensor[];
}

interface Differing extends RunBothWays {
  readonly difference: Difference;
}

/**
 * What requests say that were run both ways: they `agree`; they `differ`; or it is `unclear`, because there was no time to
 * tell why they differ.
 */
type Comparison =
  | { readonly status: 'agree' | 'unclear' }
  | {
      readonly status: 'differ';
      readonly part: Part;
      readonly difference: Difference;
      /** As many rows as a run may have: more than 1 where the number of rows alone changed the answer. */
      readonly maxRows: number;
    };

/** Copies of a request are compared at so many places of a run. */
const MAX_PLACES = 32;

/** The requests whose outputs in a micro-batch are not those that they get alone: by more than runs of one shape differ. */
function differingRequests(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  compared: readonly RunBothWays[],
): Differing[] {
  return compared.flatMap((one) => {
    const difference = gravestDifference(unstack(batch, one.part, one.row, outputs), one.outputs);
    return difference === undefined ? [] : [{ ...one, difference }];
  });
}

function worstOf(differing: readonly Differing[]): Differing | undefined {
  const [first, ...others] = differing;
  return others.reduce((worst, one) => (one.difference.share > (worst?.difference.share ?? 0) ? one : worst), first);
}

/**
 * Tells what neighbours change from what the number of rows alone changes. A request that differs is run in copies of
 * itself, in a run of the micro-batch's shape. Where it gets there what it got among others, its neighbours did nothing:
 * what is no rounding then depends on the number of rows, and the model is run with no more than were seen to change
 * nothing.
 */
async function explainDifference(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  one: Differing,
  checks: CheckRuns,
): Promise<Comparison> {
  const { part, row, difference } = one;
  const copies = await inCopies(one, batch, batch.rows, checks);
  if (copies === undefined) return { status: isMoreThanRounding(difference, OTHER_SHAPE) ? 'unclear' : 'agree' };
  const first = copies.at(0);
  const isOthersDoing =
    firstDifference(unstack(batch, part, row, outputs), first, SAME_SHAPE) !== undefined ||
    copies.places.some((place) => firstDifference(first, copies.at(place), SAME_SHAPE) !== undefined);
  const whenRounded = async (): Promise<readonly (readonly Tensor[])[] | undefined> => {
    const parts = roundedCopies(part);
    const rounded = microBatchOf(batch.model, parts, batch.closedBecause);
    const ran = parts.length < 2 ? undefined : await checks.run(rounded);
    return ran && parts.map((copy, index) => unstack(rounded, copy, index * rowsOf(copy), ran.outputs));
  };
  if (!isOthersDoing && (await isRounding(difference, batch.model.isCoarse === true, whenRounded)))
    return { status: 'agree' };
  let maxRows = isOthersDoing ? 1 : Math.floor(batch.rows / 2);
  for (; maxRows > 1; maxRows = Math.floor(maxRows / 2)) {
    const fewer = maxRows < 2 * rowsOf(part) ? undefined : await inCopies(one, batch, maxRows, checks);
    if (fewer !== undefined && firstDifference(fewer.at(0), one.outputs, SAME_SHAPE) === undefined) break;
  }
  return { status: 'differ', part, difference, maxRows: Math.max(1, maxRows) };
}

/** Shares that floats of inputs are changed by: about what FP32 rounds to, and FP16. */
const ROUNDINGS = [0, ...new Array<number>(4).fill(2 ** -20), ...new Array<number>(4).fill(2 ** -11)];

/**
 * The part, and then again with its floats changed by no more than rounding: a model whose answers differ as much by that
 * may differ so between runs of different shapes.
 *
 * @returns as many as fit into a run
 */
export function roundedCopies(part: Part): Part[] {
  const { request } = part;
  const { model } = request;
  const rows = rowsOf(part);
  const lone = { ...microBatchOf(model, [part], 'end'), paddedRows: rows };
  const inputs = stack(lone);
  return ROUNDINGS.slice(0, Math.floor(model.maxBatchRows / rows)).map((share, copy) => {
    const changed = inputs.map((input) => ({ ...input, data: rounded(input, share, copy) }));
    return { request: { ...request, rows, length: lone.paddedLength, inputs: changed }, fromRow: 0, toRow: rows };
  });
}

function rounded({ datatype, data }: Tensor, share: number, copy: number): TensorData {
  if (DATATYPES[datatype].kind !== 'float') return data;
  const changed = (data as Float32Array).slice();
  for (const [index, value] of changed.entries()) {
    changed[index] = value * (1 + share * (2 * (((copy + 1) * (index + 1) * GOLDEN_RATIO) % 1) - 1));
  }
  return changed;
}

/** What copies of a request got in one run. */
interface Copies {
  /** The copies that are compared with the first. */
  readonly places: readonly number[];
  at(place: number): readonly Tensor[];
}

/** Runs so many rows, all of them of one request: the last copy is cut where they do not divide. */
async function inCopies(
  { part }: RunBothWays,
  { model, paddedLength, closedBecause }: MicroBatch,
  rows: number,
  checks: CheckRuns,
): Promise<Copies | undefined> {
  const size = rowsOf(part);
  const whole = Math.floor(rows / size);
  const parts = new Array<Part>(whole).fill(part);
  if (rows % size > 0) parts.push({ ...part, toRow: part.fromRow + (rows % size) });
  const copies = { ...microBatchOf(model, parts, closedBecause), paddedLength };
  const ran = await checks.run(copies);
  if (ran === undefined) return undefined;
  const step = Math.ceil(whole / MAX_PLACES);
  const places = Array.from({ length: Math.ceil(whole / step) - 1 }, (_, index) => (index + 1) * step);
  return { places, at: (place) => unstack(copies, part, place * size, ran.outputs) };
}

/** Stops batching a model, or limits it to as many rows as change nothing, and tells the observer. */
function stopBatching(
  { part: { request }, difference, maxRows }: Extract<Comparison, { status: 'differ' }>,
  { replies, deps: { batching, observer } }: Call,
): void {
  const { model } = request;
  const before = batching.stop(model, maxRows);
  if (before === 'alone') return;
  observer.batchMismatch({
    model: model.name,
    version: model.version,
    messageId: replies.keyOf(request),
    difference,
    wasBatched: before === 'together',
    maxRows,
  });
}

/** What the model is given when a request, or a part of one, is run alone. */
function inputsOf(part: Part): Tensor[] {
  return stack(microBatchOf(part.request.model, [part], 'end'));
}

/** Whether inputs are of equal shapes and elements. */
function areAlike(a: readonly Tensor[], b: readonly Tensor[]): boolean {
  return a.every(({ shape, data }, index) => {
    const other = b[index] as Tensor;
    if (shape.join() !== other.shape.join()) return false;
    for (let at = 0; at < data.length; at++) if (!Object.is(data[at], other.data[at])) return false;
    return true;
  });
}

/** What stands for a part in a comparison: the request, or of a part of one that was cut a single row. */
function unitOf(part: Part): Part {
  return isWhole(part) ? part : { ...part, toRow: part.fromRow + 1 };
}

function rowsOf({ fromRow, toRow }: Part): number {
  return toRow - fromRow;
}

/** One check takes no more of the time that is left, so that answers never miss the deadline because of it. */
const SHARE_FOR_A_RUN = 1 / 8;

interface CheckRuns {
  /** What a run gave, or undefined where there was no time for it or it failed: that says nothing of its rows. */
  run(batch: MicroBatch): Promise<Ran | undefined>;
  /** How many runs there were so far, and how many milliseconds they took. */
  runs: number;
  spentMs: number;
}

/**
 * Runs whose outputs are compared, and not written.
 *
 * @param device where they all run: no two devices are compared, as they may round differently
 */
function createCheckRuns(call: Call, device = 0): CheckRuns {
  const checks: CheckRuns = {
    runs: 0,
    spentMs: 0,
    async run(batch) {
      const expectedMs = expectedCheckMs(batch, call);
      if (!fits(expectedMs, batch, call)) return undefined;
      checks.runs += 1;
      const stopwatch = startStopwatch(call.deps.now);
      const ran = await runMicroBatch(batch, expectedMs, call, device);
      checks.spentMs += isFailure(ran) ? stopwatch.lap() : ran.runMs;
      return isFailure(ran) ? undefined : ran;
    },
  };
  return checks;
}

/** Milliseconds that a run is expected to take; 0 while nothing was measured. */
function expectedCheckMs({ model, paddedRows, paddedLength }: MicroBatch, { deps }: Call): number {
  return deps.latency.predictMs(model, paddedRows, paddedLength) ?? 0;
}

function fits(expectedMs: number, { model }: MicroBatch, { deps, time, schedule }: Call): boolean {
  if (time.signal.aborted) return false;
  const leftMs = time.remainingMs();
  const neededMs = schedule.busyMs(model) + expectedMs;
  return neededMs <= leftMs * SHARE_FOR_A_RUN && leftMs >= 2 * deps.limits.deadlineMarginMs;
}
