import type { Model } from '../contract/model.ts';

/**
 * How the rows of a model are run: `together`; `alone`; or `proving`, alone as well, and then once more together, to be
 * compared.
 */
export type Batching = 'together' | 'proving' | 'alone';

/** Which models may be batched, by what real requests have shown since the process began. */
export interface BatchingWatch {
  batchingOf(model: Model): Batching;
  /**
   * A micro-batch of two rows or more ran.
   *
   * @returns which of its rows may be checked, and for how long; undefined where none
   */
  ran(model: Model, rows: number, runMs: number): CheckAllowance | undefined;
  /** Runs that checked a micro-batch took so many milliseconds. */
  checked(model: Model, allowance: CheckAllowance, checkMs: number): void;
  /** Rows that differ were run both ways: so many of them agree, and none does not. */
  proved(model: Model, rows: number): void;
  /** Rows were found to depend on each other. @returns what was done until now */
  stop(model: Model): Batching;
}

export interface CheckAllowance {
  /** The first check of a model in this process: it is not charged, and takes a row at least. */
  readonly isFirst: boolean;
  readonly checkMs: number;
  /** The row to begin with, below the micro-batch's rows. */
  readonly row: number;
}

interface Watched {
  batching: Batching;
  isChecked: boolean;
  runMs: number;
  checkMs: number;
  checks: number;
  provedRows: number;
  provingRuns: number;
}

/** Real rows that must agree before a model of which nothing is known is batched. */
const ROWS_THAT_PROVE = 64;
/** A model that so many runs have not proved stays unbatched: the runs cost more than they may ever save. */
const MOST_PROVING_RUNS = 64;
/** What the first check may take where the micro-batch took less. */
const FIRST_CHECK_MS = 20;
/** Multiples of it, as fractions of a whole, spread evenly however many there are. */
const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2;

/** @param share of a model's run time that checks may take, from 0 to 1; 0: nothing is checked, nothing is proved */
export function createBatchingWatch(share: number): BatchingWatch {
  const watched = new WeakMap<Model, Watched>();
  const watchedOf = (model: Model): Watched | undefined => {
    const { independence = 'trusted', maxBatchRows } = model;
    if (independence === 'trusted' || share === 0 || maxBatchRows === 1) return undefined;
    let state = watched.get(model);
    if (state === undefined) {
      state = newState(independence === 'proved' ? 'together' : 'proving');
      watched.set(model, state);
    }
    return state;
  };
  return {
    batchingOf(model) {
      const unwatched = model.independence === 'unproven' ? 'alone' : 'together';
      return watchedOf(model)?.batching ?? unwatched;
    },
    ran(model, rows, runMs) {
      const state = watchedOf(model);
      if (state?.batching !== 'together') return undefined;
      if (!state.isChecked) return { isFirst: true, checkMs: Math.max(runMs, FIRST_CHECK_MS), row: rows - 1 };
      state.runMs += runMs;
      const checkMs = share * state.runMs - state.checkMs;
      const row = Math.floor(((state.checks * GOLDEN_RATIO) % 1) * rows);
      return checkMs > 0 ? { isFirst: false, checkMs, row } : undefined;
    },
    checked(model, { isFirst }, checkMs) {
      const state = watchedOf(model);
      if (state === undefined) return;
      state.isChecked = true;
      state.checks += 1;
      if (!isFirst) state.checkMs += checkMs;
    },
    proved(model, rows) {
      const state = watchedOf(model);
      if (state?.batching !== 'proving') return;
      state.provedRows += rows;
      state.provingRuns += 1;
      if (state.provedRows >= ROWS_THAT_PROVE) state.batching = 'together';
      else if (state.provingRuns === MOST_PROVING_RUNS) state.batching = 'alone';
    },
    stop(model) {
      const state = watchedOf(model);
      const before = state?.batching ?? 'alone';
      if (state !== undefined) state.batching = 'alone';
      return before;
    },
  };
}

function newState(batching: Batching): Watched {
  return { batching, isChecked: false, runMs: 0, checkMs: 0, checks: 0, provedRows: 0, provingRuns: 0 };
}
