import type { Part } from '../../core/microBatch.ts';

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
  /** The most rows of the runs that were compared, where rows are independent; fewer than a run may have where time ran out. */
  readonly provedRows?: number | undefined;
  /** How many rows were run alone and in company. */
  readonly probes?: number;
  /** Set where the runs of several rows failed, or where the number of rows alone changes answers: fewer rows may do. */
  readonly because?: 'failed' | 'row count';
  /** Set where fewer rows run well than a run may have: how many, with how many not, and why. */
  readonly fewer?:
    | {
        readonly rows: number;
        readonly tried: number;
        readonly reason: string;
        readonly because: NonNullable<RowCheck['because']>;
      }
    | undefined;
}
