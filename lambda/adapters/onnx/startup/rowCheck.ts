import type { Part } from '../../../core/plan/microBatch.ts';

/** At start more rows tell no more: one probe among others, at several places. */
export const MOST_PROBES = 4;

/** Rows of one trailing shape that the model is tried with. */
export interface ProbeSet {
  /** As the start log calls them. */
  readonly name: string;
  readonly probes: readonly Part[];
}

export interface RowCheck {
  /** `unknown`: no probe could be run, all were answered alike, answers are random, or time ran out before the first comparison. */
  readonly verdict: 'independent' | 'dependent' | 'unknown';
  /** What was found, or why nothing was. */
  readonly finding: string;
  /** The largest difference that was taken for rounding, as a share of the answer, where rows are independent. */
  readonly largest?: number | undefined;
  /** How many rows were run alone and in company. */
  readonly probes?: number;
  /** Set where the runs of several rows failed. */
  readonly failed?: boolean;
  /** Set where it runs with many rows, and not with the most that a run may have: how many, and why no more. */
  readonly fewer?: { readonly rows: number; readonly reason: string } | undefined;
}
