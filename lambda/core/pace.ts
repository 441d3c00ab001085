import type { Model } from './model.ts';

/** What runs have taken in this process, and so what the next one will take. */
export interface Pace {
  observed(model: Model, rows: number, runMs: number): void;
  /** Expected milliseconds of a run of `rows` rows; 0 before anything was measured. */
  predictMs(model: Model, rows: number): number;
  /** A run was not started because of its prediction: believes it half as much, so that one slow run is not forever. */
  doubted(model: Model): void;
}

const NEWEST_WEIGHT = 0.3;

/** Keeps a moving average per model and power of two of rows; between and beyond those it errs on the slow side. */
export function createPace(): Pace {
  const averages = new WeakMap<Model, number[]>();
  return {
    observed(model, rows, runMs) {
      const ofModel = averages.get(model) ?? [];
      averages.set(model, ofModel);
      const before = ofModel[bucketOf(rows)] ?? runMs;
      ofModel[bucketOf(rows)] = before + NEWEST_WEIGHT * (runMs - before);
    },
    predictMs(model, rows) {
      const ofModel = averages.get(model) ?? [];
      const bucket = bucketOf(rows);
      const atLeastAsMany = ofModel.find((ms, index) => index >= bucket && ms !== undefined);
      if (atLeastAsMany !== undefined) return atLeastAsMany;
      const largest = ofModel.length - 1;
      return largest < 0 ? 0 : (ofModel[largest] ?? 0) * 2 ** (bucket - largest);
    },
    doubted(model) {
      const ofModel = averages.get(model) ?? [];
      for (const [bucket, ms] of ofModel.entries()) if (ms !== undefined) ofModel[bucket] = ms / 2;
    },
  };
}

function bucketOf(rows: number): number {
  return Math.ceil(Math.log2(rows));
}
