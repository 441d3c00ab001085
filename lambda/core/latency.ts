import { type FittedCost, fitCost, interpolate, type ObservedRuns } from './cost.ts';
import type { Cost, MeasuredRun, Model } from './model.ts';

/** How long the runs of each model take, by what this process has measured, its warm-up included. */
export interface LatencyEstimator {
  observed(model: Model, rows: number, length: number, runMs: number): void;
  /**
   * Milliseconds that a run of `rows` rows of `length` takes; more than that where it is much larger than any that was
   * measured, because nothing says that time grows in proportion. Undefined while nothing was measured.
   */
  predictMs(model: Model, rows: number, length: number): number | undefined;
  /**
   * What its runs cost, for the plan; undefined while too little was measured, or where runs of as many rows and the same
   * length may still differ in size. It stays the same until the measurements clearly say otherwise.
   */
  costOf(model: Model): Cost | undefined;
}

interface Measured {
  readonly buckets: Map<string, Bucket>;
  /** What runs cost when the model was warmed up, or proved; undefined where nothing was measured. */
  readonly before: FittedCost | undefined;
  /** How many times that the latest runs took, and the one in the middle: a machine may be busy, and a proof is of another. */
  paces: readonly number[];
  pace: number | undefined;
  /** Whether a run has ended, or the warm-up measured some: the very first run also pays for what is done once. */
  isWarm: boolean;
  runs: number;
  /** Runs since the cost was last fitted, and what they took. */
  newRuns: number;
  newMs: number;
  fitted: FittedCost | undefined;
}

/** Runs of about one size: up to `rows` rows of up to `length`, both powers of two. */
interface Bucket {
  readonly rows: number;
  readonly length: number;
  latest: readonly PacedRun[];
  /** How many runs of the model had ended when the last of these did. */
  endedAt: number;
}

/** A run, and the pace of its time, where that was known. */
interface PacedRun extends MeasuredRun {
  readonly pace: number | undefined;
}

/** The median of so many runs says what a run takes: one that was slow for a reason of its own does not count. */
const LATEST_RUNS = 7;
/** Less of a change is noise. */
const CLEARLY_OTHER_PACE = 1.5;
/** The cost is fitted to more of them, so that plans repeat. */
const MAX_RUNS = 15;
/** A run of more than twice the rows or length that were measured is taken to be this many times slower. */
const UNKNOWN_SIZE_FACTOR = 4;
/**
 * The cost is fitted again after so many runs, or an eighth of all there were up to the most, or after some that took so
 * long: fitting takes as long as several short runs.
 */
const RUNS_TO_FIT = 8;
const MOST_RUNS_TO_FIT = 64;
const MS_TO_FIT = 100;

export function createLatencyEstimator(): LatencyEstimator {
  const models = new WeakMap<Model, Measured>();
  const measuredOf = (model: Model): Measured => {
    const known = models.get(model) ?? newMeasured(model);
    models.set(model, known);
    return known;
  };
  return {
    observed(model, rows, length, runMs) {
      // What is no time says nothing, and in a cost it would spread to all others.
      if (!(runMs >= 0 && runMs < Number.POSITIVE_INFINITY)) return;
      const measured = measuredOf(model);
      if (!measured.isWarm) {
        measured.isWarm = true;
        return;
      }
      measured.runs += 1;
      measured.newRuns += 1;
      measured.newMs += runMs;
      notePace(measured, rows, length, runMs);
      const run = { rows, length, ms: runMs, pace: measured.pace };
      observe(bucketFor(measured, rows, length), run, measured.runs);
    },
    predictMs(model, rows, length) {
      const measured = measuredOf(model);
      const buckets = [...measured.buckets.values()];
      return buckets.length === 0 ? undefined : predict(buckets, rows, length, measured.pace);
    },
    costOf(model) {
      if (!isSizedByRowsAndLength(model)) return undefined;
      const measured = measuredOf(model);
      if (measured.newRuns >= runsToFit(measured) || measured.newMs >= MS_TO_FIT) fitAgain(measured);
      return measured.fitted?.costOf;
    },
  };
}

function runsToFit({ runs }: Measured): number {
  return Math.max(RUNS_TO_FIT, Math.min(MOST_RUNS_TO_FIT, runs / RUNS_TO_FIT));
}

function newMeasured({ measured: warmUp = [] }: Model): Measured {
  const measured: Measured = {
    buckets: new Map(),
    before: costBefore(warmUp),
    paces: [],
    pace: undefined,
    isWarm: warmUp.length > 0,
    runs: 0,
    newRuns: RUNS_TO_FIT,
    newMs: 0,
    fitted: undefined,
  };
  for (const run of warmUp) observe(bucketFor(measured, run.rows, run.length), { ...run, pace: 1 }, 0);
  return measured;
}

function bucketFor({ buckets }: Measured, rows: number, length: number): Bucket {
  const size = { rows: powerOfTwo(rows), length: powerOfTwo(length) };
  const key = `${size.rows}x${size.length}`;
  const bucket = buckets.get(key) ?? { ...size, latest: [], endedAt: 0 };
  buckets.set(key, bucket);
  return bucket;
}

function observe(bucket: Bucket, run: PacedRun, ended: number): void {
  bucket.endedAt = ended;
  bucket.latest = [...bucket.latest, run].slice(-MAX_RUNS);
}

function costBefore(warmUp: readonly MeasuredRun[]): FittedCost | undefined {
  const runs = warmUp.flatMap((run) => typicalOf([run]) ?? []);
  return runs.length === 0 ? undefined : fitCost(runs);
}

function notePace(measured: Measured, rows: number, length: number, runMs: number): void {
  const { before, paces } = measured;
  if (before === undefined || runMs === 0 || rows * length > 2 * before.maxElements) return;
  measured.paces = [...paces, runMs / before.costOf(rows, length)].slice(-MAX_RUNS);
  if (measured.paces.length > 1) measured.pace = middleOf(measured.paces);
}

/**
 * What runs would take now. Without it sizes that have not been run since the machine was busy, or since weights were read
 * from the disk for the first time, would look dear beside those that have, and never be run again.
 */
function atPace(runs: readonly PacedRun[], pace: number | undefined): readonly PacedRun[] {
  return runs.map((run) => {
    const factor = pace === undefined || run.pace === undefined ? 1 : pace / run.pace;
    return Math.max(factor, 1 / factor) > CLEARLY_OTHER_PACE ? { ...run, ms: factor * run.ms } : run;
  });
}

/** Of an even number the smaller of the two. */
function middleOf(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor((numbers.length - 1) / 2)] as number;
}

function msPerRowOf({ latest }: Bucket, pace: number | undefined): number {
  return middleOf(atPace(latest.slice(-LATEST_RUNS), pace).map(({ rows, ms }) => ms / rows));
}

/** On the line between the nearest sizes that were measured; in proportion beyond the largest of them. */
function predict(known: readonly Bucket[], rows: number, length: number, pace: number | undefined): number {
  const nearest = nearestLength(known, length);
  const buckets = known.filter((bucket) => bucket.length === nearest).toSorted((a, b) => a.rows - b.rows);
  const sizes = buckets.map((bucket) => bucket.rows);
  const ms = interpolate(sizes, rows, (index) => (sizes[index] as number) * msPerRowOf(buckets[index] as Bucket, pace));
  const longer = Math.max(1, powerOfTwo(length) / nearest);
  const isUnknown = rows > 2 * (sizes.at(-1) as number) || longer > 2;
  return ms * longer * (isUnknown ? UNKNOWN_SIZE_FACTOR : 1);
}

/** The shortest length that was measured and is no shorter; else the longest there is. */
function nearestLength(known: readonly Bucket[], length: number): number {
  const longEnough = known.map((bucket) => bucket.length).filter((size) => size >= length);
  return longEnough.length > 0 ? Math.min(...longEnough) : Math.max(...known.map((bucket) => bucket.length));
}

/** An empty ragged axis counts as one of size 1. */
function powerOfTwo(size: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, size)));
}

/** A size that was not run for so many runs is forgotten: what was slow on a busy machine is tried again some day. */
const FORGOTTEN_AFTER = 4_000;
/** A fit replaces the one before where the ratios between runs change by this share, for this share of the sizes. */
const CLEAR_CHANGE = 0.15;
const CLEAR_SHARE = 0.25;
/** Or where the largest run, which says how large the next may be, grew by so much, or shrank, since it was forgotten. */
const CLEARLY_LARGER = 1.25;
const CLEARLY_SMALLER = 0.5;

/**
 * Milliseconds that a run takes of the pipeline outside of ONNX Runtime, however many rows it has: to its thread and back,
 * for its tensors, its report and its write. Without them runs of one row would look better than they are.
 */
const OUTSIDE_MS = 0.1;

/** Whether nothing else of its inputs is open: then rows and length say how large a run is. */
function isSizedByRowsAndLength({ inputs, ragged }: Model): boolean {
  return inputs.every(({ shape }, index) =>
    shape.every((dim, axis) => axis === 0 || typeof dim === 'number' || ragged?.inputs[index]?.axis === axis),
  );
}

/** Fits the cost to what was measured, unless that is of one row count alone, or says much the same as before. */
function fitAgain(measured: Measured): void {
  measured.newRuns = 0;
  measured.newMs = 0;
  const runs = remembered(measured).flatMap(({ latest }) => typicalOf(atPace(latest, measured.pace)) ?? []);
  if (new Set(runs.map(({ rows }) => rows)).size < 2) return;
  const { maxElements, costOf } = fitCost(runs);
  const fitted: FittedCost = { maxElements, costOf: (rows, length) => OUTSIDE_MS + costOf(rows, length) };
  const before = measured.fitted;
  if (before === undefined || differsClearly(before, fitted, runs)) measured.fitted = fitted;
}

/** The sizes that were run not long ago, and those of the fewest rows, without which there is nothing to compare. */
function remembered({ buckets, runs }: Measured): Bucket[] {
  const sizes = [...buckets.values()];
  const rowsOf = ({ latest }: Bucket): number => latest[0]?.rows ?? 0;
  const [, few = 1] = [...new Set(sizes.map(rowsOf))].toSorted((a, b) => a - b);
  return sizes.filter((size) => runs - size.endedAt < FORGOTTEN_AFTER || rowsOf(size) <= few);
}

/** The run in the middle by its time for an element: what it took is taken for what runs of about its size take. */
function typicalOf(latest: readonly MeasuredRun[]): ObservedRuns | undefined {
  const perElement = ({ rows, length, ms }: MeasuredRun): number => ms / (rows * length);
  const middle = latest.toSorted((a, b) => perElement(a) - perElement(b))[Math.floor((latest.length - 1) / 2)];
  return middle === undefined || middle.ms <= 0 || middle.length === 0
    ? undefined
    : { ...middle, times: latest.length };
}

/** Only ratios between runs matter to a plan: a machine that is slower at everything changes nothing. */
function differsClearly(before: FittedCost, now: FittedCost, runs: readonly ObservedRuns[]): boolean {
  const larger = now.maxElements / before.maxElements;
  if (larger > CLEARLY_LARGER || larger < CLEARLY_SMALLER) return true;
  const ratios = runs.map(({ rows, length }) => now.costOf(rows, length) / before.costOf(rows, length));
  const middle = ratios.toSorted((a, b) => a - b)[Math.floor(ratios.length / 2)] as number;
  const changed = ratios.filter((ratio) => Math.abs(ratio / middle - 1) > CLEAR_CHANGE);
  return changed.length > CLEAR_SHARE * ratios.length;
}

/** How large the runs of each model may be, by the memory that they were found to need. */
export interface MemoryCeiling {
  /** A run of several requests with inputs of so many elements needed more memory than there is. */
  ranOut(model: Model, elements: number): void;
  ranWell(model: Model, elements: number): void;
  maxElements(model: Model): number;
}

interface Ceiling {
  largest: number;
  max: number;
  /** Runs in a row that came near the ceiling and ended well. */
  goodRuns: number;
}

/** After so many good runs near the ceiling it is doubled: what took the memory then may be gone. */
const GOOD_RUNS_TO_RISE = 8;

/** A ceiling is half of what was too much, never less than what ended well before, and rises again. */
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
