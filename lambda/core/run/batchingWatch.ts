import type { Model } from '../contract/model.ts';
import type { MicroBatch } from '../plan/microBatch.ts';
import type { Sharing } from '../plan/planner.ts';

/**
 * How the requests of a model are run: `together`; `alone`; or `proving`, alone as well, and then once more together, to
 * be compared.
 */
export type Batching = 'together' | 'proving' | 'alone';

/** How models may be batched, by what is known of them and what real requests have shown since the process began. */
export interface BatchingWatch {
  batchingOf(model: Model): Batching;
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
  stop(model: Model, maxRows: number): Batching;
}

export interface CheckAllowance {
  /** Most requests to run alone. */
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
  batching: Batching;
  /** Of the largest run whose requests got the answers that they get alone. */
  provedRows: number;
  /** No run has more, whatever is proved. */
  maxRows: number;
  /** Different requests that got the same in a micro-batch and alone. */
  compared: number;
  runMs: number;
  checkMs: number;
  checks: number;
  provedRequests: number;
  provingRuns: number;
}

/**
 * Until so many different requests agree, every micro-batch is compared before it is written; a model of which nothing is
 * known is not batched before. Rarer than one in so many, what disturbs a run is left to the checks of later runs.
 */
export const REQUESTS_THAT_PROVE = 64;
/** A model that so many runs have not proved stays unbatched: the runs cost more than they may ever save. */
const MAX_PROVING_RUNS = 64;
/** Most requests of a later micro-batch that are run alone as well. */
const REQUESTS_A_CHECK = 8;
/** What comparing an early micro-batch may take, in runs of it, and at least. */
const EARLY_CHECK_RUNS = 4;
const EARLY_CHECK_MS = 250;
/** Multiples of it, as fractions of a whole, spread evenly however many there are. */
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
  const batchingOf = (model: Model): Batching => {
    const { independence = 'trusted' } = model;
    const unwatched = independence === 'unproven' || independence === 'dependent' ? 'alone' : 'together';
    return watchedOf(model)?.batching ?? unwatched;
  };
  return {
    batchingOf,
    sharingOf(model) {
      const { provedRows = Number.POSITIVE_INFINITY } = model;
      const state = watchedOf(model);
      const bound = state?.maxRows ?? model.maxSharedRows;
      const next = state === undefined ? provedRows : nextSize(model, state.provedRows);
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
      const isLarger = paddedRows > state.provedRows;
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
      if (agreed > 0) state.provedRows = Math.max(state.provedRows, paddedRows);
      if (isCharged) state.checkMs += checkMs;
    },
    proved(model, requests, rows) {
      const state = watchedOf(model);
      if (state?.batching !== 'proving') return;
      state.provedRequests += requests;
      state.provingRuns += 1;
      if (requests > 0) state.provedRows = Math.max(state.provedRows, rows);
      if (state.provedRequests >= REQUESTS_THAT_PROVE) state.batching = 'together';
      else if (state.provingRuns === MAX_PROVING_RUNS) state.batching = 'alone';
    },
    stop(model, maxRows) {
      const state = watchedOf(model);
      const before = state?.batching ?? 'alone';
      if (state === undefined) return before;
      state.maxRows = Math.min(state.maxRows, maxRows);
      state.provedRows = Math.min(state.provedRows, state.maxRows);
      if (state.maxRows === 1) state.batching = 'alone';
      return before;
    },
  };
}

function newState({ independence, maxBatchRows, provedRows, maxSharedRows = maxBatchRows }: Model): Watched {
  return {
    batching: independence === 'proved' ? 'together' : 'proving',
    provedRows: independence === 'proved' ? (provedRows ?? maxSharedRows) : REQUESTS_THAT_PROVE,
    maxRows: maxSharedRows,
    compared: 0,
    runMs: 0,
    checkMs: 0,
    checks: 0,
    provedRequests: 0,
    provingRuns: 0,
  };
}

/** The rows that a run may have next: the next rung, or twice as many. */
function nextSize({ ladder, maxBatchRows }: Model, provedRows: number): number {
  if (provedRows >= maxBatchRows) return maxBatchRows;
  return ladder.find((rung) => rung > provedRows) ?? Math.min(maxBatchRows, 2 * provedRows);
}
