import { availableParallelism } from 'node:os';
import { isFailure, messageOf } from '../../../lambda/core/failure.ts';
import {
  elementsPerRowAt,
  type MicroBatch,
  microBatchOf,
  type Part,
  type RequestInput,
  type ScoringRequest,
} from '../../../lambda/core/microBatch.ts';
import type { Model, RaggedAxis } from '../../../lambda/core/model.ts';
import { stack } from '../../../lambda/core/stack.ts';
import { allocate, decodeAll, elementCount, isBase64Data, type TensorData } from '../../../lambda/core/tensor.ts';
import { symbolicAxes } from '../../../lambda/onnx/contract.ts';
import type { ModelLocation } from '../../../lambda/onnx/findModels.ts';
import type { ModelStart } from '../../../lambda/onnx/loadModel.ts';
import { type ModelConfig, readModelConfig } from '../../../lambda/onnx/modelConfig.ts';
import {
  asProbe,
  decodeSamples,
  type Manner,
  makeUp,
  readSampleLines,
  realProbes,
  rowShapes,
} from '../../../lambda/onnx/probes.ts';
import { openModelAlone } from '../../../lambda/onnx/repository.ts';
import type { WarmUpSizes } from '../../../lambda/onnx/warmUp.ts';
import { SETTINGS } from '../../../lambda/settings.ts';
import {
  peakRssBytes,
  type Ran,
  type RunTask,
  type Size,
  type StartTask,
  type Target,
  type Timed,
} from './measureTasks.ts';

/** Message of a child process. */
export type Told =
  | { readonly kind: 'warning'; readonly text: string }
  | { readonly kind: 'started'; readonly started: Started }
  | { readonly kind: 'trying'; readonly size: Size }
  | { readonly kind: 'ran'; readonly ran: Ran }
  | { readonly kind: 'failed'; readonly size: Size; readonly reason: string }
  | { readonly kind: 'progress'; readonly share: number }
  | { readonly kind: 'timed'; readonly timed: readonly Timed[] }
  | { readonly kind: 'error'; readonly message: string };

/**
 * Starts a model as a host does, with its warm-up and checks, and reports the durations and the findings.
 *
 * @param beganAt time when the first line of this process ran, in milliseconds since 1970
 */
export async function startModel(task: StartTask, beganAt: number, tell: (told: Told) => Promise<void>): Promise<void> {
  // The host's code is loaded at this point.
  const codeMs = performance.timeOrigin + performance.now() - beganAt;
  let start: ModelStart | undefined;
  const open = await openForTask(task, (text) => void tell({ kind: 'warning', text }), {
    loaded: (took) => {
      start = took;
    },
  });
  if (start === undefined) throw new Error('expected the model to be loaded, it was not');
  const took = { ...start, libraryMs: codeMs + start.libraryMs, processMs: beganAt - task.askedAt };
  await tell({ kind: 'started', started: startedOf(task, open, took) });
  await open.close();
}

export type Started = ReturnType<typeof startedOf>;

/** Returns facts about a model after it has started as deployed. */
function startedOf(task: StartTask, open: OpenModel, took: ModelStart & { readonly processMs: number }) {
  const { model, location, config, rows, requestBytes } = open;
  const { threads, probes: _, ...start } = took;
  const { independence = 'unknown', sharing, evidence = '' } = model;
  const [provider] = config.providers ?? task.providers.map((name) => ({ name }));
  return {
    model: model.name,
    version: model.version,
    path: location.path,
    allowedSizes: model.allowedSizes,
    /** Maximum number of rows in a run that config.json and the option allow. */
    maxRows: maxRowsOf(model, config, task.maxBatchRows),
    safety: { verdict: independence, sharesRuns: sharing !== 'never', evidence },
    start,
    threads: threads ?? availableParallelism(),
    /** True if config.json sets the number of threads, so that no other number is measured. */
    hasGivenThreads: config.sessionOptions?.intraOpNumThreads !== undefined,
    provider: provider?.name ?? 'cpu',
    /** Lengths to measure, in ascending order: sizes of the ragged axis, or of another open axis. */
    lengths: rows.lengths,
    /** Length of ordinary rows. */
    length: rows.ordinary,
    requestBytes,
  };
}

/**
 * Returns the maximum number of rows to measure. It ignores the limit from the checks at start, because the measurement
 * finds out how many rows run.
 */
function maxRowsOf({ maxBatchRows, allowedSizes }: Model, config: ModelConfig, asked: number): number {
  if (config.batching === 'alone') return 1;
  if (allowedSizes.length > 0) return maxBatchRows;
  return config.maxBatchRows ?? asked;
}

/** Number of runs. Some models allocate memory only in the second run, and the first run of a shape is slow. */
const RUNS = 3;
/** Factor over the time limit after which no further run is needed. */
const FAR_TOO_SLOW = 10;
/** Minimum number of runs of a size that is not slow. */
const MIN_RUNS = 7;
/** Maximum number of times to keep. Beyond it every other one is dropped. */
const MAX_RUNS = 501;
/** Minimum number of runs of a slow size, which gets no more than its part of the time. */
const MIN_SLOW_RUNS = 3;
/** Share of the time that the remaining runs of a size may take after the time is over. */
const OVERTIME = 0.02;
/** Maximum standard error of a stable median, as a share of the median. */
const STABLE = 0.02;
/** The first run of a shape is slow. It does not count if it is shorter than this. */
const SHORT_RUN_MS = 50;
const TELL_EVERY_MS = 100;
/** Interval between checks of whether the medians are stable. */
const LOOK_EVERY_MS = 50;

/**
 * Runs each size a few times, and reports the process's peak memory after it. Then it times the sizes that run. It stops
 * at the first row count of a length that fails, takes too long or exceeds the element limit.
 */
export async function runSizes(task: RunTask, tell: (told: Told) => Promise<void>): Promise<void> {
  const { sizes, threads, allowedSizes, slowMs, enoughMs } = task;
  await tell({ kind: 'trying', size: sizes[0] as Size });
  const warn = (text: string): void => void tell({ kind: 'warning', text });
  const { model, rows: maker, close } = await openForTask(task, warn, { adapt: unchecked(allowedSizes, threads) });
  const partsOf = new Map<number, readonly Part[]>();
  const ended = new Set<number>();
  const timings: Timing[] = [];
  for (const size of sizes) {
    const { rows, length } = size;
    if (ended.has(length)) continue;
    await tell({ kind: 'trying', size });
    try {
      const parts = partsOf.get(length) ?? (await maker.of(length));
      partsOf.set(length, parts);
      if (!fits(parts, rows)) {
        ended.add(length);
        continue;
      }
      const batch = batchOf(model, parts, rows);
      let runMs = await runMsOf(model, batch);
      for (let run = 1; run < RUNS && runMs < FAR_TOO_SLOW * slowMs; run++) {
        runMs = Math.min(runMs, await runMsOf(model, batch));
      }
      await tell({ kind: 'ran', ran: { ...size, runMs, peakRssBytes: peakRssBytes() } });
      timings.push({ size, batch, times: runMs < SHORT_RUN_MS ? [] : [runMs] });
      if (runMs > slowMs) ended.add(length);
    } catch (error) {
      ended.add(length);
      await tell({ kind: 'failed', size, reason: messageOf(error).replace(/\s+/g, ' ').trim() });
    }
  }
  await timeInTurns(model, timings, enoughMs, tell);
  await tell({ kind: 'timed', timed: timings.map(timedOf) });
  await close();
}

interface Timing {
  readonly size: Size;
  readonly batch: MicroBatch;
  times: number[];
}

/**
 * Times runs of each size until their medians are stable or the time is over. The sizes take turns, so that other load
 * on the machine slows all of them alike. The order alternates, so that a size does not always run after a far larger
 * one, which evicts its data from the caches. A slow size gets no more than its part of the time.
 */
async function timeInTurns(
  model: Model,
  timings: readonly Timing[],
  enoughMs: number,
  tell: (told: Told) => Promise<void>,
): Promise<void> {
  const startedAt = performance.now();
  let toldAt = startedAt;
  const tellProgress = async (): Promise<void> => {
    const now = performance.now();
    if (now - toldAt < TELL_EVERY_MS) return;
    toldAt = now;
    const done = timings.filter(({ times }) => isStable(times)).length / timings.length;
    await tell({ kind: 'progress', share: Math.min(1, Math.max(done, (now - startedAt) / enoughMs)) });
  };
  // Each round runs the sizes that have not used their part of the time so far. Each median therefore covers the whole
  // time, because the speed of a shared machine varies.
  const isDue = ({ times }: Timing): boolean => {
    const elapsedMs = performance.now() - startedAt;
    const spentMs = times.reduce((sum, ms) => sum + ms, 0);
    if (times.length < MIN_SLOW_RUNS && elapsedMs < enoughMs) return true;
    if (elapsedMs < enoughMs) return spentMs <= elapsedMs / timings.length;
    return times.length === 0 || (times.length < MIN_RUNS && (MIN_RUNS * spentMs) / times.length < OVERTIME * enoughMs);
  };
  const isOver = (): boolean => {
    const isLate = performance.now() - startedAt >= enoughMs;
    return isLate ? !timings.some(isDue) : timings.every(({ times }) => isStable(times));
  };
  for (let round = 0, lookedAt = 0; timings.length > 0; round++) {
    for (const timing of round % 2 === 0 ? timings : timings.toReversed()) {
      if (!isDue(timing)) continue;
      timing.times.push(await runMsOf(model, timing.batch));
      if (timing.times.length > MAX_RUNS) timing.times = timing.times.filter((_, index) => index % 2 === 1);
      await tellProgress();
    }
    const now = performance.now();
    if (now - lookedAt < LOOK_EVERY_MS && now - startedAt < enoughMs) continue;
    lookedAt = now;
    if (isOver()) break;
  }
}

function timedOf({ size, times }: Timing): Timed {
  const sorted = times.toSorted((a, b) => a - b);
  const medianMs = quantile(sorted, 0.5);
  const spread = (quantile(sorted, 0.9) - quantile(sorted, 0.1)) / medianMs;
  return { ...size, medianMs, spread, isStable: isStable(times) };
}

/**
 * Returns true if the median is stable. It assumes normally distributed times: the standard deviation is 0.741 of the
 * interquartile range, and the standard error of a median is 1.253 of that of the mean.
 */
function isStable(times: readonly number[]): boolean {
  if (times.length < MIN_RUNS) return false;
  const sorted = times.toSorted((a, b) => a - b);
  const error = (1.253 * 0.741 * (quantile(sorted, 0.75) - quantile(sorted, 0.25))) / Math.sqrt(times.length);
  return error < STABLE * quantile(sorted, 0.5);
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.round(share * (sorted.length - 1))] as number;
}

function batchOf(model: Model, parts: readonly Part[], rows: number): MicroBatch {
  const repeated = Array.from({ length: rows }, (_, row) => parts[row % parts.length] as Part);
  return microBatchOf(model, repeated, 'end');
}

/** Returns true if a run of `rows` rows is within the host's default element limit. A single row always is. */
function fits(parts: readonly Part[], rows: number): boolean {
  const { request } = parts[0] as Part;
  return rows === 1 || rows * elementsPerRowAt(request, request.length) <= SETTINGS.maxBatchElements.default;
}

/** @returns milliseconds inside ONNX Runtime */
async function runMsOf(model: Model, batch: MicroBatch): Promise<number> {
  return (await model.run(stack(batch))).runMs;
}

type OpenModel = Awaited<ReturnType<typeof openForTask>>;

interface OpenOptions {
  /** Replaces the contents of config.json. */
  readonly adapt?: (config: ModelConfig) => ModelConfig;
  readonly loaded?: (start: ModelStart) => void;
}

async function openForTask(
  { path, maxBatchRows, providers }: Target,
  warn: (text: string) => void,
  options: OpenOptions,
) {
  const models = await openModelAlone(path, {
    maxBatchRows,
    maxBatchElements: SETTINGS.maxBatchElements.default,
    providers,
    allowProviderFallback: false,
    ignoreKept: true,
    warn,
    ...options,
  });
  const [location] = models.models as readonly [ModelLocation];
  const model = await models.find(undefined, undefined);
  if (isFailure(model)) throw new Error(model.message);
  const config = readModelConfig(location.folder);
  const lines = await readSampleLines(location.folder);
  const samples = await decodeSamples(lines, model);
  const rows = createRowMaker(model, samples, config.warmup);
  const [first] = lines.lines;
  /** Bytes of the first real request. Undefined if there are no samples. */
  const requestBytes = first && Buffer.byteLength(first.line);
  return { model, location, config, rows, requestBytes, close: models.close };
}

/** Returns config.json without the warm-up and its checks, and with the findings of the start. */
function unchecked(allowedSizes: readonly number[], threads: number): (config: ModelConfig) => ModelConfig {
  return ({ allowedSizes: _, maxBatchRows: __, ...config }) => ({
    ...config,
    ...(allowedSizes.length === 0 ? {} : { allowedSizes: [...allowedSizes] }),
    warmup: false,
    sessionOptions: { ...config.sessionOptions, intraOpNumThreads: threads },
  });
}

/** Lengths to measure. The model may not run at all of them. */
interface Lengths {
  /** Lengths in ascending order. */
  readonly lengths: readonly number[];
  readonly ordinary: number;
}

const MAX_SAMPLES = 16;
const ONE_LENGTH: Lengths = { lengths: [1], ordinary: 1 };

/**
 * Creates a source of rows of a length: real ones, or generated ones. It throws if the model cannot run each of them
 * alone, with any kind of generated values.
 *
 * @param warmUp sizes of open axes from config.json
 */
function createRowMaker(model: Model, samples: readonly ScoringRequest[], warmUp: WarmUpSizes | undefined) {
  const { ragged } = model;
  const real = realProbes(samples, MAX_SAMPLES);
  if (real.length > 0) {
    if (ragged === undefined) return { ...ONE_LENGTH, of: async () => real };
    const lengths = real.map(({ request }) => request.length).toSorted((a, b) => a - b);
    return {
      ...lengthsAround(lengths[lengths.length >> 1] as number, lengths.at(-1) as number, ragged),
      of: async (length: number) => real.map((part) => withLength(part, ragged, length)),
    };
  }
  const given = typeof warmUp === 'object' ? warmUp : {};
  const open = symbolicAxes(model).filter((axis) => axis === ragged?.name || given[axis] === undefined);
  const longest = (ragged && given[ragged.name]) ?? ragged?.allowedSizes.at(-1) ?? LONG_TEXT;
  const lengths = open.length === 0 ? ONE_LENGTH : lengthsAround(Math.ceil(longest / 4), longest, ragged);
  // The length overrides the ragged axis's size from config.json.
  const sizesAt = (length: number) => (ragged === undefined ? given : { ...given, [ragged.name]: length });
  return { ...lengths, of: (length: number) => madeUpRows(model, rowShapes(model, sizesAt(length), length)) };
}

/** Longest rows if neither samples nor config.json tell a length. */
const LONG_TEXT = 128;

/** Returns a short length, the ordinary one and the longest, each rounded up to an allowed size. */
function lengthsAround(ordinary: number, longest: number, ragged: RaggedAxis | undefined): Lengths {
  const sizes = ragged?.allowedSizes ?? [];
  const allowed = (length: number): number => sizes.find((size) => size >= length) ?? sizes.at(-1) ?? length;
  const lengths = [Math.ceil(ordinary / 4), ordinary, longest].map(allowed);
  return { lengths: [...new Set(lengths)], ordinary: allowed(ordinary) };
}

const MANNERS: readonly (readonly Manner[])[] = [
  ['unit', 'large', 'small', 'unit'],
  ['ones', 'small', 'ones', 'small'],
];

async function madeUpRows(model: Model, shapes: number[][]): Promise<readonly Part[]> {
  let reason = '';
  for (const manners of MANNERS) {
    const rows = makeUp(model, shapes, manners);
    try {
      for (const row of rows) await model.run(stack(microBatchOf(model, [row], 'end')));
      return rows;
    } catch (error) {
      reason ||= messageOf(error);
    }
  }
  throw new Error(reason);
}

/** Returns a row with `length` on its ragged axis. It truncates or repeats the row's elements. */
function withLength({ request, fromRow }: Part, ragged: RaggedAxis, length: number): Part {
  const inputs = request.inputs.map((input, index) => {
    const row = rowOf(input, fromRow);
    const axis = ragged.inputs[index]?.axis;
    return axis === undefined ? row : resized(row, axis, length);
  });
  return asProbe(request.model, inputs);
}

type Row = Omit<RequestInput, 'data'> & { readonly data: TensorData };

function rowOf({ datatype, shape, data }: RequestInput, row: number): Row {
  const rowShape = [1, ...shape.slice(1)];
  const count = elementCount(rowShape);
  const elements = isBase64Data(data) ? decodeAll(data, datatype, shape) : data;
  return { datatype, shape: rowShape, data: elements.slice(row * count, (row + 1) * count) };
}

function resized({ datatype, shape, data }: Row, axis: number, length: number): Row {
  const resizedShape = shape.with(axis, length);
  const inner = elementCount(shape.slice(axis + 1));
  const before = shape[axis] as number;
  const filled = allocate(datatype, elementCount(resizedShape));
  for (let index = 0; index < filled.length; index++) {
    const outer = Math.floor(index / (inner * length));
    const along = Math.floor(index / inner) % length;
    filled[index] = data[(outer * before + (along % before)) * inner + (index % inner)] as never;
  }
  return { datatype, shape: resizedShape, data: filled };
}
