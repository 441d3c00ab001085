import type { Range } from './range.ts';

/** A range, and the number that is taken where none is given. */
export interface RangeWithDefault extends Range {
  readonly default: number;
}

/** The numbers of the configuration, declared once: the host refuses others at start, the infrastructure at synth. */
export const RANGES = {
  maxBatchRows: { least: 1, most: 65_536, default: 512 },
  maxBatchElements: { least: 1, most: 1_073_741_824, default: 4_194_304 },
  maxRequestRows: { least: 1, most: 1_000_000, default: 10_000 },
  deadlineMarginMs: { least: 1, most: 60_000, default: 2_000 },
  resultTtlSeconds: { least: 1, most: 315_360_000, default: 604_800 },
  maxPayloadBytes: { least: 1, most: 1_073_741_824, default: 104_857_600 },
} satisfies Readonly<Record<string, RangeWithDefault>>;

/** The kinds of result store. */
export const STORES = ['queue', 'table', 'bucket'] as const;
export type Store = (typeof STORES)[number];
