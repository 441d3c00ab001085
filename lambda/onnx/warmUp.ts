import { raceAbort, timeoutSignal } from '../core/concurrency.ts';
import { messageOf, plural } from '../core/failure.ts';
import { elementsPerRowAt, type Part, paddedLengthOf, type ScoringRequest } from '../core/microBatch.ts';
import {
  axisInModel,
  type MeasuredRun,
  type Model,
  RunOverdueError,
  type RunResult,
  shapeInModel,
  type TensorSpec,
} from '../core/model.ts';
import { capacityOf } from '../core/plan.ts';
import { allocate, DATATYPES, elementCount, type Tensor } from '../core/tensor.ts';
import { type AxisSizes, elementsAt, shapesAt, sizesToTry, symbolicAxes } from './contract.ts';
import { type Batching, decideBatching } from './decideBatching.ts';
import { makeUp, realProbes, rowShapes } from './probes.ts';
import type { RowProof } from './proveRows.ts';
import { CURE_OF_PADDING, type PaddingTrial, paddingProbes, tryPadding } from './tryPadding.ts';
import { differenceByRows, isNotTheRuns, runTogether } from './tryRows.ts';

export interface PrepareOptions {
  readonly sizes: WarmUpSizes;
  /** Setting `batching` of config.json. Undefined if the graph decides. */
  readonly batching: Batching | undefined;
  /** Verdict of the graph on the model's rows. */
  readonly proof: RowProof;
  /** True if made-up values may keep a loop of the model from ending. */
  readonly hasLoop: boolean;
  readonly samples: readonly ScoringRequest[];
  /** Milliseconds that loading has taken so far. The checks may take a share of it. */
  readonly loadMs: number;
  readonly now: () => number;
  /** True on a GPU, where new shapes are slow and runs of other shapes round differently. */
  readonly onGpu: boolean;
  readonly maxElements: number;
  /** Limit for a run. A longer run is assumed never to end. */
  readonly runLimitMs: number;
}

export interface Prepared extends Pick<WarmUpResult, 'model' | 'bakedRows' | 'sizes'> {
  /** Shortest run of each size. */
  readonly measured: readonly MeasuredRun[];
  readonly probes: number;
  readonly found: string;
  readonly warnings: readonly string[];
}

/** Share of the loading time that runs for timing may take, and their minimum. */
const TIMING_SHARE = 1 / 4;
const MIN_TIMING_MS = 100;

/** Minimum time for trying padding. It may also take as long as loading took. */
const MIN_TRIAL_MS = 100;

/**
 * Runs the model like real requests: warms it up, and tries what its graph does not tell about neighbours and padding.
 *
 * @returns the model with the limits that were found
 * @throws Error if rows have no answers of their own, padding changes answers, or a run does not end
 */
export async function prepare(model: Model, options: PrepareOptions): Promise<Prepared> {
  return withinLimit(model, options.runLimitMs, async (recorded, limitedTo) => {
    const prepared = await warmUpAndCheck(recorded, limitedTo, options);
    await learnCosts({ ...recorded, model: prepared.model }, options);
    return {
      ...prepared,
      model: { ...prepared.model, run: model.run },
      measured: model.measured ?? recorded.measured(),
    };
  });
}

/**
 * @param work takes the model with limited and recorded runs, and a function that returns the same on another device
 * @throws Error if a run does not end
 */
async function withinLimit<T>(
  model: Model,
  runLimitMs: number,
  work: (recorded: RecordedRuns, limitedTo: (device: number) => Model) => Promise<T>,
): Promise<T> {
  const limitedTo = (device: number): Model => ({
    ...model,
    run: (inputs) =>
      raceAbort(model.run(inputs, undefined, device), timeoutSignal(runLimitMs), () => new RunOverdueError()),
  });
  try {
    return await work(recordRuns(limitedTo(0)), limitedTo);
  } catch (error) {
    if (!(error instanceof RunOverdueError)) throw error;
    throw new Error(
      `expected a run of the warm-up to end within ${runLimitMs / 1000} s, it did not; give other sizes of its ` +
        'symbolic axes as "warmup" in config.json, or "warmup": false',
      { cause: error },
    );
  }
}

/** @param modelOn returns the model on another device: the checks use the first, the warm-up all of them */
async function warmUpAndCheck(
  recorded: RecordedRuns,
  modelOn: (device: number) => Model,
  options: PrepareOptions,
): Promise<Omit<Prepared, 'measured'>> {
  const { sizes, batching, proof, now, onGpu, maxElements } = options;
  const startedAt = now();
  const fixesSizes = onGpu && batching !== 'alone';
  const runs: RunResult[] = [];
  const remembering: Model = {
    ...recorded.model,
    async run(...given) {
      const ran = await recorded.model.run(...given);
      runs.push(ran);
      return ran;
    },
  };
  const warmed = await warmUp(remembering, sizes, { onGpu, fixesSizes, maxElements }).catch((error: unknown) => {
    if (error instanceof UnbatchedOutput && proof.verdict === 'mixes') {
      const cure = proof.batchAxis && `: declare "batchAxis": ${JSON.stringify(proof.batchAxis)} in config.json`;
      throw new Error(`${error.message}; in its graph, ${proof.why}${cure ?? ''}`);
    }
    throw error;
  });
  const warm = { ...warmed, model: { ...warmed.model, run: recorded.model.run } };
  await warmOtherDevices(warm, recorded.measured(), modelOn, maxElements);
  const problems = [warm.problem, onGpu ? openLengths(warm.model) : undefined].filter((one) => one !== undefined);
  const differs = differenceByRows(runs, warmed.model.isCoarse);
  const { model, probes, found, warnings } = await decideBatching(warm.model, {
    ...options,
    ranAt: warm.sizes,
    differs,
  });
  const padding = await checkPadding(model, { ...warm, loadMs: options.loadMs + now() - startedAt }, options);
  const sizesOfRuns = model.allowedSizes.length < 2 ? [] : [`its allowed sizes are ${model.allowedSizes.join(', ')}`];
  return {
    model,
    bakedRows: warm.bakedRows,
    sizes: warm.sizes,
    probes,
    found: [...sizesOfRuns, found, ...(padding === undefined ? [] : [padding.seen])].join('; '),
    warnings: [...problems, ...warnings, ...(padding?.problem === undefined ? [] : [padding.problem])],
  };
}

/** Number of real rows to try padding with. */
const MAX_SAMPLES = 8;

/** Tries padding if requests of different lengths share runs. Returns undefined if they do not. */
async function checkPadding(
  model: Model,
  { sizes: ranAt, loadMs }: Pick<WarmUpResult, 'sizes'> & { readonly loadMs: number },
  { sizes, proof, samples, hasLoop, now }: PrepareOptions,
): Promise<PaddingTrial | undefined> {
  const { ragged } = model;
  if (ragged === undefined || (model.sharing === 'never' && ragged.allowedSizes.length === 0)) return undefined;
  const { name } = ragged;
  if (proof.byLength !== undefined) {
    throw new Error(
      `the padded length of '${name}' enters the data at ${proof.byLength}, so that padding changes answers; ${CURE_OF_PADDING}`,
    );
  }
  if (sizes === false) {
    const seen = `padding '${name}' is not tried, because of "warmup": false in config.json`;
    return { seen, problem: seen };
  }
  const given = sizes === true ? {} : sizes;
  return tryPadding(model, ragged, {
    probesOf: (length) =>
      hasLoop ? [] : paddingProbes(model, rowShapes(model, { ...ranAt, ...given, [name]: length }, 4)),
    size: ranAt?.[name] ?? 1,
    samples: realProbes(samples, MAX_SAMPLES),
    limitMs: Math.max(MIN_TRIAL_MS, loadMs),
    now,
  });
}

/** Times runs of several sizes, if rows may share runs and their cost is unknown. */
async function learnCosts(recorded: RecordedRuns, options: PrepareOptions): Promise<void> {
  const { sizes, samples, hasLoop, loadMs, maxElements, onGpu, now } = options;
  const { model } = recorded;
  const mayShare = model.maxBatchRows > 1 && model.sharing !== 'never';
  if (!mayShare || model.allowedSizes.length === 1 || model.measured !== undefined || onGpu || sizes === false) return;
  // Rows that cannot share a run have one size.
  if (elementsAt(model, 2, {}) > maxElements) return;
  const limitMs = Math.max(MIN_TIMING_MS, TIMING_SHARE * loadMs);
  await timeSizes(recorded, { probes: timingProbes(model, samples, hasLoop), maxElements, limitMs, now });
}

/** Runs the shapes of the first device on all other devices, concurrently. */
async function warmOtherDevices(
  { model, sizes }: WarmUpResult,
  measured: readonly MeasuredRun[],
  modelOn: (device: number) => Model,
  maxElements: number,
): Promise<void> {
  if (sizes === undefined) return;
  const warmDevice = async (device: number): Promise<void> => {
    const there = { ...model, run: modelOn(device).run };
    for (const rows of new Set(measured.map((run) => run.rows))) {
      const reason = await whyNotAt(there, rows, sizes, true, maxElements);
      if (reason === undefined) continue;
      throw new Error(
        `expected the model to run with ${plural(rows, 'row')} on each of its devices, it failed on device number ${device + 1}: ${reason}`,
      );
    }
  };
  const others = Array.from({ length: (model.devices ?? 1) - 1 }, (_, index) => index + 1);
  await Promise.all(others.map(warmDevice));
}

function openLengths({ ragged }: Model): string | undefined {
  if (ragged === undefined || ragged.allowedSizes.length > 0) return undefined;
  return (
    `'${ragged.name}' may have any size, and on a GPU the first run at each is slow; give the sizes that it may be run ` +
    'at as "allowedSizes" within "ragged" in config.json'
  );
}

/** Sizes of symbolic axes by name, `true` for 1 for each, or `false` for no warm-up. */
export type WarmUpSizes = boolean | Readonly<Record<string, number>>;

interface WarmUpResult {
  readonly model: Model;
  /** Sizes of symbolic axes at which it ran. Undefined if it did not run. */
  readonly sizes?: AxisSizes | undefined;
  /** The only size at which the model runs, if its batch axis is dynamic only in name. */
  readonly bakedRows?: number;
  /** Reason why the warm-up is incomplete, and its cure. */
  readonly problem?: string;
}

/** Returns 1, 2, 4, … below `max`, and `max`. */
export function powersOfTwoUpTo(max: number): number[] {
  const powers = Array.from({ length: Math.ceil(Math.log2(max)) }, (_, power) => 2 ** power);
  return [...powers, max];
}

/** Sizes of open axes to try until the model runs. */
const SIZES = [1, 4, 32, 128];
/** Maximum number of input elements of such a run: several large open axes together would exceed the memory. */
const MAX_ELEMENTS = 4_194_304;

/** Maximum memory of the inputs of the first run. An image of 2,300 × 2,300 pixels fits. */
const MAX_INPUT_BYTES = 64 * 1024 * 1024;
/** Assumed memory of a text. */
const TEXT_BYTES = 64;

/** Row counts to try if a model does not run with 1 row, because it may be baked to one. */
const BAKED_ROWS = [2, 4, 8, 16, 32, 64];

interface WarmUpOptions {
  /** True if the first run of a shape is always slow. @default false */
  readonly onGpu?: boolean;
  /**
   * True to give a model without allowed sizes the sizes 1, 2, 4, … and the maximum, except those at which it does not
   * run. On a GPU the first run of a shape is slow, and no real run should be it. @default false
   */
  readonly fixesSizes?: boolean;
  /** Maximum number of elements in the inputs of one run. Larger sizes are skipped. @default unlimited */
  readonly maxElements?: number;
}

/**
 * Runs the model on zeros at every allowed size, or with 1 and 2 rows if it has none. The first run of a shape is slow,
 * and an axis that is dynamic only in name fails at 2 rows.
 *
 * @throws Error if an output has no batch axis, a size names no axis of the model, or a run does not end
 */
export async function warmUp(
  model: Model,
  sizes: WarmUpSizes,
  { onGpu = false, fixesSizes = false, maxElements = Number.POSITIVE_INFINITY }: WarmUpOptions = {},
): Promise<WarmUpResult> {
  const isOpen = model.allowedSizes.length === 0;
  const isFixed = isOpen && fixesSizes && model.maxBatchRows > 1;
  const few = model.maxBatchRows > 1 ? [1, 2] : [1];
  const rowCounts = isOpen ? (isFixed ? powersOfTwoUpTo(model.maxBatchRows) : few) : model.allowedSizes;
  const unrun = isFixed ? { ...model, allowedSizes: rowCounts } : model;
  if (sizes === false) return { model: unrun };
  refuseUnknownAxes(model, sizes);
  const given = sizes === true ? {} : sizes;
  const [smallest = 1, ...others] = rowCounts;
  const found = await findSizes(model, smallest, given, onGpu);
  if ('reason' in found) {
    const baked = isOpen ? await findBakedRows(model, given, onGpu) : undefined;
    if (baked !== undefined) return baked;
    const hint = 'give the sizes of its symbolic axes as "warmup" in config.json, or "warmup": false';
    return {
      model: unrun,
      problem: `warm-up with ${plural(smallest, 'row')} of zeros failed: ${found.reason}; ${hint}`,
    };
  }
  const good = [smallest];
  for (const rows of others) {
    const max = isOpen ? maxElements : Number.POSITIVE_INFINITY;
    if (elementsAt(model, rows, { ...found.sizes, ...shortestLength(model) }) > max) break;
    const reason = await whyNotAt(model, rows, found.sizes, onGpu, max);
    if (reason === undefined) {
      good.push(rows);
      continue;
    }
    if (!isOpen)
      throw new Error(`expected the model to run at ${plural(rows, 'row')}, one of its allowed sizes, got: ${reason}`);
    if (rows === 2) return { ...bakedTo(1, model, found.sizes), problem: `with 2 rows: ${reason}` };
    const maxBatchRows = Math.max(...good);
    const problem = `a run has ${plural(maxBatchRows, 'row')} at most, because one of ${rows} failed: ${reason}`;
    return { model: { ...model, allowedSizes: good, maxBatchRows }, sizes: found.sizes, problem };
  }
  return { model: isFixed ? { ...model, allowedSizes: good } : model, sizes: found.sizes };
}

function bakedTo(bakedRows: number, model: Model, sizes: AxisSizes): WarmUpResult {
  return { model: { ...model, maxBatchRows: bakedRows, allowedSizes: [bakedRows] }, sizes, bakedRows };
}

/** Returns the sizes at which it runs, or the reason why it did not at the first of them. */
async function findSizes(
  model: Model,
  rows: number,
  given: AxisSizes,
  onGpu: boolean,
): Promise<{ readonly sizes: AxisSizes } | { readonly reason: string }> {
  let first: string | undefined;
  for (const sizes of sizesToTry(model, given, SIZES)) {
    const bytes = inputBytesAt(model, rows, sizes);
    if (bytes > MAX_INPUT_BYTES)
      return { reason: first ?? `expected inputs of at most ${MAX_INPUT_BYTES} bytes, got ${bytes}` };
    if (first !== undefined && elementsAt(model, rows, sizes) > MAX_ELEMENTS) continue;
    const reason = await whyNotAt(model, rows, sizes, onGpu);
    if (reason === undefined) return { sizes };
    first ??= reason;
  }
  return { reason: first ?? '' };
}

function inputBytesAt(model: Model, rows: number, sizes: AxisSizes): number {
  const bytesOf = ({ datatype }: TensorSpec): number => {
    const info = DATATYPES[datatype];
    return info.kind === 'string' ? TEXT_BYTES : info.array.BYTES_PER_ELEMENT;
  };
  const shapes = shapesAt(model, rows, sizes, 1);
  return model.inputs.reduce((sum, spec, index) => sum + elementCount(shapes[index] ?? []) * bytesOf(spec), 0);
}

/** Finds the only row count of a model whose axis 0 is dynamic only in name: it fails at twice that count. */
async function findBakedRows(model: Model, given: AxisSizes, onGpu: boolean): Promise<WarmUpResult | undefined> {
  for (const rows of BAKED_ROWS.filter((count) => count <= model.maxBatchRows)) {
    const found = await findSizes(model, rows, given, onGpu);
    if ('reason' in found) continue;
    const runsAtMore = (await whyNotAt(model, 2 * rows, found.sizes, onGpu)) === undefined;
    return runsAtMore ? undefined : bakedTo(rows, model, found.sizes);
  }
  return undefined;
}

function refuseUnknownAxes(model: Model, sizes: WarmUpSizes): void {
  if (typeof sizes === 'boolean') return;
  const axes = symbolicAxes(model);
  const unknown = Object.keys(sizes).filter((name) => !axes.includes(name));
  if (unknown.length > 0) {
    throw new Error(
      `config.json, warmup: expected symbolic axes of the model (${axes.join(', ') || 'it has none'}), got ${unknown.join(', ')}`,
    );
  }
}

/** A shorter run is repeated, because the first run of a shape is slow. */
const SHORT_RUN_MS = 50;

/**
 * Returns why the model does not run on `rows` rows of zeros, or undefined if it runs at every allowed length.
 *
 * @param onGpu true if the first run of a shape is always slow: each run is then repeated
 * @param maxElements of the inputs: only lengths that fit are run
 */
async function whyNotAt(
  model: Model,
  rows: number,
  sizes: AxisSizes,
  onGpu: boolean,
  maxElements = Number.POSITIVE_INFINITY,
): Promise<string | undefined> {
  for (const sizesOfLength of sizesOfLengths(model, sizes)) {
    if (elementsAt(model, rows, sizesOfLength) > maxElements) break;
    const first = await runOnZeros(model, rows, sizesOfLength);
    if (typeof first === 'string') return first;
    refuseUnbatched(model, first.outputs, rows);
    const second = onGpu || first.runMs < SHORT_RUN_MS ? await runOnZeros(model, rows, sizesOfLength) : first;
    if (typeof second === 'string') return second;
  }
  return undefined;
}

/** Returns the sizes once for every allowed length of the ragged axis. */
function sizesOfLengths({ ragged }: Model, sizes: AxisSizes): AxisSizes[] {
  if (ragged === undefined || ragged.allowedSizes.length === 0) return [sizes];
  return ragged.allowedSizes.map((length) => ({ ...sizes, [ragged.name]: length }));
}

/** @throws Error naming every output without a row for each row, and the text to add to config.json */
function refuseUnbatched({ outputs: specs }: Model, outputs: readonly Tensor[], rows: number): void {
  const wrong = outputs.flatMap(({ name, shape }, index) => {
    const spec = specs[index] as TensorSpec;
    return shape[0] === rows ? [] : [{ name, axis: axisInModel(spec, 0), shape: shapeInModel(spec, shape) }];
  });
  if (wrong.length === 0) return;
  const problems = wrong.map(
    ({ name, axis, shape }) =>
      `output '${name}': expected axis ${axis} to be the batch axis, ${plural(rows, 'row')}, got shape [${shape.join(', ')}]`,
  );
  throw new UnbatchedOutput(
    `${problems.join('; ')}; name the outputs that have one as "outputs" in config.json, or the axis that it is as ` +
      `"batchAxis": {"${wrong[0]?.name}": …}`,
  );
}

class UnbatchedOutput extends Error {}

async function runOnZeros(model: Model, rows: number, sizes: AxisSizes): Promise<RunResult | string> {
  const shapes = shapesAt(model, rows, sizes, 1);
  try {
    const inputs = model.inputs.map(({ name, datatype }, index): Tensor => {
      const shape = shapes[index] as readonly number[];
      return { name, datatype, shape, data: allocate(datatype, elementCount(shape)) };
    });
    return await model.run(inputs);
  } catch (error) {
    if (error instanceof RunOverdueError) throw error;
    return messageOf(error);
  }
}

function shortestLength({ ragged }: Model): Readonly<Record<string, number>> {
  const [length] = ragged?.allowedSizes ?? [];
  return ragged === undefined || length === undefined ? {} : { [ragged.name]: length };
}

interface TimeSizesOptions {
  /** Requests of one row, of one or several lengths. */
  readonly probes: readonly Part[];
  readonly maxElements: number;
  readonly limitMs: number;
  readonly now: () => number;
}

/** Runs of each size: the first is slow, and others may be disturbed. */
const TIMES = 3;
/** Factor on the best time per row beyond which larger runs gain nothing. */
const CLEARLY_WORSE = 1.5;

/**
 * Times runs of 1, 2, 4, … rows, small runs first, for the cost estimate. Sizes with earlier runs need fewer. It stops
 * if a size fails, or takes clearly longer per row than smaller runs.
 *
 * @param recorded the model and its measurements so far
 * @throws ModelUnavailableError, RunOverdueError
 */
async function timeSizes(
  { model, measured, timesAt }: RecordedRuns,
  { probes, maxElements, limitMs, now }: TimeSizesOptions,
): Promise<void> {
  const endsAt = now() + limitMs;
  const sizes = probes
    .flatMap((probe) => rowCountsOf(model, probe, maxElements).map((rows) => ({ probe, rows })))
    .toSorted((a, b) => a.rows * a.probe.request.length - b.rows * b.probe.request.length);
  const ended = new Set<Part>();
  for (const { probe, rows } of sizes) {
    if (ended.has(probe)) continue;
    const length = paddedLengthOf(model, probe.request.length);
    try {
      while (timesAt(rows, length) < TIMES && now() + expectedMs(measured(), rows, length) <= endsAt) {
        await runTogether(model, new Array<Part>(rows).fill(probe));
      }
    } catch (error) {
      if (isNotTheRuns(error)) throw error;
      ended.add(probe);
    }
    if (isClearlyWorse(measured(), rows, length)) ended.add(probe);
  }
}

/** Returns the row counts of runs up to the maximum: the allowed sizes, or 1, 2, 4, … */
function rowCountsOf(model: Model, { request }: Part, maxElements: number): number[] {
  if (model.allowedSizes.length > 0) return [...model.allowedSizes];
  const { rows } = capacityOf(model, elementsPerRowAt(request, paddedLengthOf(model, request.length)), { maxElements });
  return Array.from({ length: Math.floor(Math.log2(rows)) + 1 }, (_, power) => 2 ** power);
}

/** Estimates a run in proportion to the nearest smaller size. Returns 0 if there is none. */
function expectedMs(measured: readonly MeasuredRun[], rows: number, length: number): number {
  const known = measured.filter((run) => run.rows <= rows && run.length <= length);
  const nearest = known.toSorted((a, b) => b.rows * b.length - a.rows * a.length)[0];
  return nearest === undefined ? 0 : (nearest.ms * rows * length) / (nearest.rows * nearest.length);
}

function isClearlyWorse(measured: readonly MeasuredRun[], rows: number, length: number): boolean {
  const perRow = measured.filter((run) => run.length === length && run.rows <= rows).map((run) => run.ms / run.rows);
  const own = measured.find((run) => run.rows === rows && run.length === length);
  return own !== undefined && own.ms / rows > CLEARLY_WORSE * Math.min(...perRow);
}

const LENGTHS = [8, 32, 128];

/**
 * Returns requests of one row to time runs with: real ones if there are any, else made-up ones of three lengths if
 * lengths differ. Returns none if rows and length do not determine the size, or made-up values might keep a loop from
 * ending.
 */
export function timingProbes(model: Model, samples: readonly ScoringRequest[], hasLoop: boolean): Part[] {
  const { ragged } = model;
  if (symbolicAxes(model).some((name) => name !== ragged?.name)) return [];
  const real = realProbes(samples, Number.POSITIVE_INFINITY);
  if (real.length > 0) return ofThreeLengths(real);
  if (hasLoop) return [];
  if (ragged === undefined) return makeUp(model, rowShapes(model, {}, 1), ['unit']);
  const lengths = ragged.allowedSizes.length === 0 ? LENGTHS : threeOf(ragged.allowedSizes);
  return lengths.flatMap((length) => paddingProbes(model, rowShapes(model, { [ragged.name]: length }, 1)).slice(0, 1));
}

function ofThreeLengths(probes: readonly Part[]): Part[] {
  const byLength = new Map(probes.map((probe) => [probe.request.length, probe]));
  return threeOf([...byLength.keys()].toSorted((a, b) => a - b)).map((length) => byLength.get(length) as Part);
}

function threeOf(sorted: readonly number[]): number[] {
  const places = [0, Math.floor((sorted.length - 1) / 2), sorted.length - 1];
  return [...new Set(places)].map((place) => sorted[place] as number);
}

interface RecordedRuns {
  readonly model: Model;
  /** Returns the shortest run of each size, in the order of the first runs, because the first run is slow. */
  measured(): readonly MeasuredRun[];
  timesAt(rows: number, length: number): number;
}

export function recordRuns(model: Model): RecordedRuns {
  const recorded = new Map<string, { readonly min: MeasuredRun; readonly times: number }>();
  const indexOfRagged = model.ragged?.inputs.findIndex((input) => input !== undefined) ?? -1;
  const raggedAxis = model.ragged?.inputs[indexOfRagged]?.axis ?? -1;
  return {
    model: {
      ...model,
      async run(inputs, signal, device) {
        const rows = inputs[0]?.shape[0] ?? 0;
        const length = inputs[indexOfRagged]?.shape[raggedAxis] ?? 1;
        const result = await model.run(inputs, signal, device);
        const key = `${rows}x${length}`;
        const known = recorded.get(key);
        const min = { rows, length, ms: Math.min(result.runMs, known?.min.ms ?? result.runMs) };
        recorded.set(key, { min, times: (known?.times ?? 0) + 1 });
        return result;
      },
    },
    measured: () => [...recorded.values()].map(({ min }) => min),
    timesAt: (rows, length) => recorded.get(`${rows}x${length}`)?.times ?? 0,
  };
}
