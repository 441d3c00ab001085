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
  maxRequestsPerMessage: { least: 1, most: 1_000_000, default: 10_000 },
  deadlineMarginMs: { least: 1, most: 60_000, default: 1_000 },
  checkPercent: { least: 0, most: 100, default: 1 },
  timeoutSeconds: { least: 1, most: 3_600, default: 60 },
  /** SQS hides a message for twelve hours at most. */
  visibilitySeconds: { least: 1, most: 43_200, default: 60 },
  stopSeconds: { least: 2, most: 7_200, default: 30 },
  mostPolls: { least: 1, most: 64, default: 16 },
  pipelineDepth: { least: 1, most: 16, default: 2 },
  healthPort: { least: 0, most: 65_535, default: 0 },
  resultsPerMessage: { least: 1, most: 10_000, default: 1 },
  /** SQS bills each 64 KiB as one request, and takes 1 MiB. */
  resultMessageBytes: { least: 1024, most: 1_048_576, default: 65_536 },
  resultTtlSeconds: { least: 1, most: 315_360_000, default: 604_800 },
} satisfies Readonly<Record<string, RangeWithDefault>>;

/** Threads of the worker; their default is as many as the cores have room for. */
export const HOP_THREADS = { least: 0, most: 64 } satisfies Range;

/** Numbers of the configuration whose default is {@link shareOfMemory}. */
export const RANGES_BY_MEMORY = {
  maxAnswerCharacters: { least: 1, most: 268_435_456 },
  maxPayloadBytes: { least: 1, most: 1_073_741_824 },
} satisfies Readonly<Record<string, Range>>;

/** In place of a number of results in a message: as many as fit. */
export const FILL = 'fill';
export type ResultsPerMessage = number | typeof FILL;

const MIB = 1024 * 1024;

/**
 * What one message may take of the host's memory: a 64th. Parsed JSON takes up to twenty times its text, and one payload
 * is parsed at a time.
 *
 * @returns bytes: 28,983,296 with 1,769 MB
 */
export function shareOfMemory(memoryMb: number): number {
  return Math.floor((memoryMb * MIB) / 64);
}

/** How much the function logs, most first. Each level holds those after it. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The kinds of result store. */
export const STORES = ['queue', 'table', 'bucket'] as const;
export type Store = (typeof STORES)[number];
