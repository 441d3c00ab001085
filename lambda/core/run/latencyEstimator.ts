import type { Model } from '../contract/model.ts';

/** How long the runs of each model take, by what this process has measured. */
export interface LatencyEstimator {
  observed(model: Model, rows: number, length: number, runMs: number): void;
  /** Expected milliseconds of a run of `rows` rows of `length`; 0 before anything was measured. */
  predictMs(model: Model, rows: number, length: number): number;
  /** A run was not started because of its prediction: believes it half as much, so that one slow run is not forever. */
  doubted(model: Model): void;
}

const NEWEST_WEIGHT = 0.3;

/** The average of the runs of about one size: up to `rows` rows of up to `length`, both powers of two. */
interface Average {
  readonly rows: number;
  readonly length: number;
  ms: number;
}

/** Keeps a moving average per model, power of two of rows and of length; between those it errs on the slow side. */
export function createLatencyEstimator(): LatencyEstimator {
  const averages = new WeakMap<Model, Map<string, Average>>();
  const averagesOf = (model: Model): Map<string, Average> => {
    const known = averages.get(model) ?? new Map<string, Average>();
    averages.set(model, known);
    return known;
  };
  return {
    observed(model, rows, length, runMs) {
      const size = { rows: powerOfTwo(rows), length: powerOfTwo(length) };
      const ofModel = averagesOf(model);
      const key = `${size.rows}x${size.length}`;
      const average = ofModel.get(key);
      if (average === undefined) ofModel.set(key, { ...size, ms: runMs });
      else average.ms += NEWEST_WEIGHT * (runMs - average.ms);
    },
    predictMs(model, rows, length) {
      let nearest = Number.POSITIVE_INFINITY;
      let predicted = 0;
      for (const known of averagesOf(model).values()) {
        const growth = Math.max(1, powerOfTwo(rows) / known.rows) * Math.max(1, powerOfTwo(length) / known.length);
        const ms = known.ms * growth;
        const better = growth === 1 ? ms < predicted : ms > predicted;
        if (growth < nearest || (growth === nearest && better)) predicted = ms;
        nearest = Math.min(nearest, growth);
      }
      return predicted;
    },
    doubted(model) {
      for (const average of averagesOf(model).values()) average.ms /= 2;
    },
  };
}

function powerOfTwo(size: number): number {
  return 2 ** Math.ceil(Math.log2(size));
}
