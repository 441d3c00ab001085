import { withTimeout } from './concurrency.ts';
import type { CostEstimator } from './cost.ts';
import type { Equals } from './equals.ts';
import { type Failure, failure, isFailure, reasonOf } from './failure.ts';
import { elementsIn, elementsPerRowAt, type MicroBatch } from './microBatch.ts';
import { type Model, ModelUnavailableError, OutOfMemoryError, type RunResult, RunWithdrawnError } from './model.ts';
import type { MicroBatchReport, Observer } from './observer.ts';
import type { TimeLimit } from './record.ts';
import type { Replies } from './replies.ts';
import type { ReplySink, Splits } from './score.ts';
import { assertBatched, stack } from './stack.ts';
import type { Tensor } from './tensor.ts';
import type { BatchingWatch } from './verify.ts';

export interface RunDependencies {
  readonly limits: {
    /** Time before the deadline that is reserved for encoding and writing: see `deadlineMarginMs` in `settings.ts`. */
    readonly deadlineMarginMs: number;
    /** Maximum number of elements in the inputs of a micro-batch, including padding. */
    readonly maxBatchElements: number;
    readonly maxAnswerCharacters: number;
  };
  readonly costs: CostEstimator;
  readonly memory: MemoryCeiling;
  readonly batching: BatchingWatch;
  readonly observer: Observer;
  readonly now: () => number;
}

/** One call of `score`: its arguments and its own state. */
export interface Call {
  readonly deps: RunDependencies;
  readonly time: TimeLimit;
  readonly sink: ReplySink;
  readonly replies: Replies;
  readonly splits: Splits;
  readonly equals: Equals;
  readonly schedule: Schedule;
}

/** Returns the maximum number of elements in a micro-batch of a model, by configuration and by experience. */
export function maxElements({ limits, memory }: RunDependencies, model: Model): number {
  return Math.min(limits.maxBatchElements, memory.maxElements(model));
}

/** Maximum number of rows in a model's first run if nothing was measured. */
const FIRST_ROWS = 8;

const MORE_TIME = 'raise the timeout, or lower the batch size or maxBatchRows';

type Fit =
  | { readonly fits: true; readonly expectedMs: number }
  | { readonly fits: false; readonly failure: Failure<'DEADLINE'> };

/**
 * Decides if a run and its writes are expected to end before the deadline, after the model's other runs. A run that
 * does not fit is not started.
 *
 * @param mayBeSmaller true if an unmeasured model may start with a smaller run. @default true
 */
export function fitTime({ model, rows, paddedRows, paddedLength }: MicroBatch, call: Call, mayBeSmaller = true): Fit {
  const { deps, time, schedule } = call;
  if (time.signal.aborted) {
    const message = `model '${model.name}': expected a run to start before the deadline, got no time for it; ${MORE_TIME}`;
    return { fits: false, failure: failure('DEADLINE', message) };
  }
  const expectedMs = deps.costs.predictMs(model, paddedRows, paddedLength);
  const remainingMs = time.remainingMs();
  const neededMs = schedule.busyMs(model) + (expectedMs ?? 0) + deps.limits.deadlineMarginMs;
  const isSmallEnough =
    expectedMs !== undefined || !mayBeSmaller || rows <= Math.max(FIRST_ROWS, model.allowedSizes[0] ?? 1);
  if (remainingMs >= neededMs && isSmallEnough) return { fits: true, expectedMs: expectedMs ?? 0 };
  const cure = rows === 1 ? 'one row takes that long: raise the timeout, or the memory' : MORE_TIME;
  const message =
    `model '${model.name}': expected ${Math.ceil(neededMs)} ms for a run of ${rows} ${rows === 1 ? 'row' : 'rows'} and its writes, ` +
    `got ${Math.max(0, Math.floor(remainingMs))}; ${cure}`;
  return { fits: false, failure: failure('DEADLINE', message) };
}

export interface Ran extends RunResult {
  readonly stackMs: number;
}

/**
 * Runs a micro-batch. Returns the outputs with checked rows, or a failure: no model, no memory, or the run's own.
 *
 * @param device index of the only device to use. @default any
 */
export async function runMicroBatch(
  batch: MicroBatch,
  expectedMs: number,
  call: Call,
  device?: number,
): Promise<Ran | Failure> {
  const { costs, memory, observer, now } = call.deps;
  const { model, rows, paddedRows, paddedLength } = batch;
  const details = { model: model.name, version: model.version, rows };
  const startedAt = now();
  const inputs = stack(batch);
  const stackedAt = now();
  observer.stage?.('stack', startedAt, stackedAt, details);
  const end = call.schedule.begin(model, expectedMs);
  const ran = await run(batch, inputs, expectedMs, call, device);
  end();
  observer.stage?.('run', stackedAt, now(), {
    ...details,
    ...(isFailure(ran) ? { failed: ran.code } : { busyMs: ran.runMs }),
  });
  if (isFailure(ran)) return ran;
  costs.record(model, paddedRows, paddedLength, ran.runMs);
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
  call: Call,
  device: number | undefined,
): Promise<RunResult | Failure> {
  const { observer, memory } = call.deps;
  const { model, parts } = batch;
  let end: (() => void) | undefined;
  const onStart = (): void => {
    end = observer.begins?.({
      isRun: true,
      model: model.name,
      expectedMs,
      requests: call.equals.answeredBy(parts),
    });
  };
  try {
    return await model.run(inputs, call.time.signal, device, onStart);
  } catch (error) {
    if (error instanceof RunWithdrawnError) return failure('DEADLINE', error.message);
    if (error instanceof ModelUnavailableError) {
      observer.problem(error);
      return failure('MODEL_UNAVAILABLE', error.message, { of: `model '${model.name}'`, kind: 'refused' });
    }
    if (error instanceof OutOfMemoryError) {
      observer.problem(error);
      // The need of a single request does not tell how many fit together.
      if (parts.length > 1) memory.ranOut(model, elementsIn(batch));
      return failure('OUT_OF_MEMORY', error.message);
    }
    return runFailed(batch, error);
  } finally {
    end?.();
  }
}

/** Creates the failure of a single request. For several requests it is never reported, because the run is halved. */
function runFailed({ model }: MicroBatch, error: unknown): Failure {
  return failure('RUN_FAILED', `model '${model.name}' failed on this request alone: ${reasonOf(error)}`);
}

/** Maximum number of micro-batches in progress from stacking to writing, for each device of a model. */
const MICRO_BATCHES_UNDER_WAY = 2;

const CATCHING_UP_MS = 20;

/** Runs of one call. Each model has its own threads, so a slow one does not delay others. */
interface Schedule {
  /** Starts work on micro-batches in order, as soon as the model has room. The work must not throw. */
  add(model: Model, work: () => Promise<void>): void;
  /**
   * Waits until all work is started, but only some milliseconds. Requests that wait long before their run leave V8's
   * young generation, which costs a tenth of the time. A slow or hung model delays nothing for longer.
   */
  catchUp(): Promise<void>;
  waitUntilDone(): Promise<void>;
  /** Returns the estimated milliseconds until a device of the model is free. */
  busyMs(model: Model): number;
  /** Records the start of a run and its expected duration. @returns a function to call at its end */
  begin(model: Model, expectedMs: number): () => void;
}

interface ModelRuns {
  readonly waiting: Set<() => Promise<void>>;
  underWay: number;
  readonly devices: readonly DeviceRuns[];
}

/** Runs of one device. A run's device is unknown before it starts; the first free one is assumed. */
interface DeviceRuns {
  running: number;
  /** Time at which the current runs should have ended. */
  freeAt: number;
}

export function createSchedule(now: () => number): Schedule {
  const models = new Map<Model, ModelRuns>();
  let workEnded = Promise.withResolvers<void>();
  const runsOf = (model: Model): ModelRuns => {
    const known = models.get(model) ?? newRuns(model);
    models.set(model, known);
    return known;
  };
  const start = (runs: ModelRuns): void => {
    for (const work of runs.waiting) {
      if (runs.underWay >= MICRO_BATCHES_UNDER_WAY * runs.devices.length) return;
      runs.waiting.delete(work);
      runs.underWay += 1;
      work().finally(() => {
        runs.underWay -= 1;
        start(runs);
        workEnded.resolve();
        workEnded = Promise.withResolvers<void>();
      });
    }
  };
  const areAll = (is: (runs: ModelRuns) => boolean): boolean => [...models.values()].every(is);
  const busyMs = ({ running, freeAt }: DeviceRuns): number => (running === 0 ? 0 : Math.max(0, freeAt - now()));
  const freeFirst = (model: Model): DeviceRuns =>
    runsOf(model).devices.reduce((first, device) => (busyMs(device) < busyMs(first) ? device : first));
  return {
    add(model, work) {
      const runs = runsOf(model);
      runs.waiting.add(work);
      start(runs);
    },
    async catchUp() {
      let isOver = false;
      const allStarted = async (): Promise<void> => {
        while (!isOver && !areAll(({ waiting }) => waiting.size === 0)) await workEnded.promise;
      };
      if (areAll(({ waiting }) => waiting.size === 0)) return;
      await withTimeout(allStarted(), CATCHING_UP_MS);
      isOver = true;
    },
    async waitUntilDone() {
      while (!areAll(({ underWay }) => underWay === 0)) await workEnded.promise;
    },
    busyMs: (model) => busyMs(freeFirst(model)),
    begin(model, expectedMs) {
      const device = freeFirst(model);
      device.freeAt = now() + busyMs(device) + expectedMs;
      device.running += 1;
      return () => {
        device.running -= 1;
      };
    },
  };
}

function newRuns({ devices = 1 }: Model): ModelRuns {
  return {
    waiting: new Set(),
    underWay: 0,
    devices: Array.from({ length: devices }, () => ({ running: 0, freeAt: 0 })),
  };
}

interface Stopwatch {
  lap(): number;
}

export function startStopwatch(now: () => number): Stopwatch {
  let before = now();
  return {
    lap() {
      const after = now();
      const ms = after - before;
      before = after;
      return ms;
    },
  };
}

type StageTimes = Pick<MicroBatchReport, 'stackMs' | 'runMs' | 'encodeMs'>;

export function reportOf(batch: MicroBatch, requests: number, times: StageTimes): MicroBatchReport {
  const { model, rows, paddedRows, paddedLength, closedBecause } = batch;
  return {
    model: model.name,
    version: model.version,
    requests,
    rows,
    paddedRows,
    maxBatchRows: model.maxBatchRows,
    paddedLength,
    paddingShare: paddingShareOf(batch),
    closedBecause,
    ...times,
  };
}

function paddingShareOf(batch: MicroBatch): number {
  const { model, parts, rows, paddedRows } = batch;
  if (model.ragged === undefined) return 1 - rows / paddedRows;
  let sent = 0;
  for (const { request, fromRow, toRow } of parts) {
    sent += (toRow - fromRow) * elementsPerRowAt(request, request.length);
  }
  const run = elementsIn(batch);
  return run === 0 ? 0 : 1 - sent / run;
}

/** Maximum size of each model's runs, learnt from runs that exhausted the memory. */
export interface MemoryCeiling {
  /** Records a run of several requests with `elements` input elements that exhausted the memory. */
  ranOut(model: Model, elements: number): void;
  ranWell(model: Model, elements: number): void;
  maxElements(model: Model): number;
}

interface Ceiling {
  largest: number;
  max: number;
  /** Number of successive runs near the ceiling that succeeded. */
  goodRuns: number;
}

/** Number of good runs near the ceiling that double it, because the cause may have passed. */
const GOOD_RUNS_TO_RISE = 8;

/**
 * Creates ceilings. A ceiling is half of the size that failed, but at least the largest size that succeeded. It rises
 * again after good runs.
 */
export function createMemoryCeiling(): MemoryCeiling {
  const ceilings = new WeakMap<Model, Ceiling>();
  const ceilingOf = (model: Model): Ceiling => {
    const ceiling = ceilings.get(model) ?? { largest: 0, max: Number.POSITIVE_INFINITY, goodRuns: 0 };
    ceilings.set(model, ceiling);
    return ceiling;
  };
  return {
    ranOut(model, elements) {
      const ceiling = ceilingOf(model);
      if (elements <= ceiling.largest) ceiling.largest = Math.floor(elements / 2);
      ceiling.max = Math.max(1, ceiling.largest, Math.min(ceiling.max, Math.floor(elements / 2)));
      ceiling.goodRuns = 0;
    },
    ranWell(model, elements) {
      const ceiling = ceilingOf(model);
      ceiling.largest = Math.max(ceiling.largest, elements);
      ceiling.max = Math.max(ceiling.max, ceiling.largest);
      if (2 * elements <= ceiling.max) return;
      ceiling.goodRuns += 1;
      if (ceiling.goodRuns < GOOD_RUNS_TO_RISE) return;
      ceiling.max *= 2;
      ceiling.goodRuns = 0;
    },
    maxElements: (model) => ceilings.get(model)?.max ?? Number.POSITIVE_INFINITY,
  };
}
