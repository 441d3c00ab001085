import type { Cost, MeasuredRun, Model } from '../contract/model.ts';
import { createLearntCosts, type LatestRuns } from './learntCosts.ts';

/** How long the runs of each model take, by what this process has measured, its warm-up included. */
export interface LatencyEstimator {
  observed(model: Model, rows: number, length: number, runMs: number): void;
  /** A run was given up after so many milliseconds: it would have taken longer. */
  overran(model: Model, rows: number, length: number, elapsedMs: number): void;
  /**
   * Milliseconds that a run of `rows` rows of `length` takes; more than that where it is much larger than any that was
   * measured, because nothing says that time grows in proportion. Undefined while nothing was measured.
   */
  predictMs(model: Model, rows: number, length: number): number | undefined;
  /** What its runs cost, for the plan; undefined while too little was measured. It stays as it is until that changes clearly. */
  costOf(model: Model): Cost | undefined;
}

/** Runs of about one size: up to `rows` rows of up to `length`, both powers of two. */
interface Bucket extends LatestRuns {
  readonly rows: number;
  readonly length: number;
  /** Milliseconds a row that a run of this size was given up after. */
  overrunMsPerRow: number | undefined;
}

/** The median of so many runs says what a run takes: one that was slow for a reason of its own does not count. */
const LATEST_RUNS = 7;
/** What runs cost is known from more: a plan is to be the same again and again. */
const MOST_RUNS = 15;
/** A run of more than twice the rows or length that were measured is taken to be this many times slower. */
const UNKNOWN_SIZE_FACTOR = 4;
/** An overrun this many times slower than later runs of half its size was the fault of what it ran, not of its size. */
const HANG_FACTOR = 4;

export function createLatencyEstimator(): LatencyEstimator {
  const measured = new WeakMap<Model, Map<string, Bucket>>();
  const hasRun = new WeakSet<Model>();
  const learntCosts = createLearntCosts();

  const bucketsOf = (model: Model): Map<string, Bucket> => {
    const known = measured.get(model);
    if (known !== undefined) return known;
    const buckets = new Map<string, Bucket>();
    measured.set(model, buckets);
    for (const run of model.measured ?? []) observe(bucketFor(buckets, run.rows, run.length), run, 0);
    return buckets;
  };
  return {
    observed(model, rows, length, runMs) {
      // What is no time says nothing, and in a cost it would spread to all others.
      if (!(runMs >= 0 && runMs < Number.POSITIVE_INFINITY)) return;
      const buckets = bucketsOf(model);
      // Nothing was warmed up: the first run also paid for that.
      if (buckets.size === 0 && !hasRun.has(model)) {
        hasRun.add(model);
        return;
      }
      const ended = learntCosts.ran(model, runMs);
      observe(bucketFor(buckets, rows, length), { rows, length, ms: runMs }, ended);
      for (const bucket of buckets.values()) forgetHang(bucket, rows, length, runMs / rows);
    },
    overran(model, rows, length, elapsedMs) {
      // One row that does not end says nothing of rows: it would keep all others from ever being run.
      if (rows > 1) bucketFor(bucketsOf(model), rows, length).overrunMsPerRow = elapsedMs / rows;
    },
    predictMs(model, rows, length) {
      const buckets = [...bucketsOf(model).values()];
      const known = buckets.filter(({ latest }) => latest.length > 0);
      const overrunMs = overrunOf(buckets, rows, length);
      return known.length === 0 ? overrunMs : Math.max(predict(known, rows, length), overrunMs ?? 0);
    },
    costOf: (model) => learntCosts.costOf(model, () => [...bucketsOf(model).values()]),
  };
}

function bucketFor(buckets: Map<string, Bucket>, rows: number, length: number): Bucket {
  const size = { rows: powerOfTwo(rows), length: powerOfTwo(length) };
  const key = `${size.rows}x${size.length}`;
  const bucket = buckets.get(key) ?? { ...size, latest: [], endedAt: 0, overrunMsPerRow: undefined };
  buckets.set(key, bucket);
  return bucket;
}

function observe(bucket: Bucket, run: MeasuredRun, ended: number): void {
  bucket.endedAt = ended;
  bucket.latest = [...bucket.latest, run].slice(-MOST_RUNS);
  bucket.overrunMsPerRow = undefined;
}

function forgetHang(bucket: Bucket, rows: number, length: number, msPerRow: number): void {
  const isHalfAsLarge = 2 * powerOfTwo(rows) >= bucket.rows && 2 * powerOfTwo(length) >= bucket.length;
  if (isHalfAsLarge && (bucket.overrunMsPerRow ?? 0) > HANG_FACTOR * msPerRow) bucket.overrunMsPerRow = undefined;
}

/** The lower median. */
function msPerRowOf({ latest }: Bucket): number {
  const msPerRow = latest.slice(-LATEST_RUNS).map(({ rows, ms }) => ms / rows);
  return msPerRow.toSorted((a, b) => a - b)[Math.floor((msPerRow.length - 1) / 2)] as number;
}

/** What a run takes at least by the overruns of runs no larger; of smaller runs an overrun says nothing. */
function overrunOf(buckets: readonly Bucket[], rows: number, length: number): number | undefined {
  const msPerRow = buckets
    .filter(
      (bucket) => bucket.latest.length === 0 && bucket.rows <= powerOfTwo(rows) && bucket.length <= powerOfTwo(length),
    )
    .map(({ overrunMsPerRow }) => overrunMsPerRow ?? 0);
  return msPerRow.length === 0 ? undefined : Math.max(...msPerRow) * rows;
}

/** On the line between the nearest sizes that were measured; in proportion beyond the largest of them. */
function predict(known: readonly Bucket[], rows: number, length: number): number {
  const nearest = nearestLength(known, length);
  const points = known
    .filter((bucket) => bucket.length === nearest)
    .map((bucket) => ({ rows: bucket.rows, ms: bucket.rows * msPerRowOf(bucket) }))
    .toSorted((a, b) => a.rows - b.rows);
  const longer = Math.max(1, powerOfTwo(length) / nearest);
  const largest = points.at(-1) as Point;
  const isUnknown = rows > 2 * largest.rows || longer > 2;
  return msAt(points, rows) * longer * (isUnknown ? UNKNOWN_SIZE_FACTOR : 1);
}

interface Point {
  readonly rows: number;
  readonly ms: number;
}

/** The shortest length that was measured and is no shorter; else the longest there is. */
function nearestLength(known: readonly Bucket[], length: number): number {
  const longEnough = known.map((bucket) => bucket.length).filter((size) => size >= length);
  return longEnough.length > 0 ? Math.min(...longEnough) : Math.max(...known.map((bucket) => bucket.length));
}

/** @param points ascending, at least one */
function msAt(points: readonly Point[], rows: number): number {
  const above = points.findIndex((point) => point.rows >= rows);
  if (above < 0) {
    const largest = points.at(-1) as Point;
    return (largest.ms * rows) / largest.rows;
  }
  const upper = points[above] as Point;
  const lower = points[above - 1];
  if (lower === undefined) return upper.ms;
  const share = (rows - lower.rows) / (upper.rows - lower.rows);
  return lower.ms + share * (upper.ms - lower.ms);
}

/** An empty ragged axis counts as one of size 1. */
function powerOfTwo(size: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, size)));
}
