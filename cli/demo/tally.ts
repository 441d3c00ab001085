import type { Telemetry } from '../../lambda/aws/telemetry.ts';

/** Milliseconds that each stage took in all. */
export interface StageTimes {
  readonly decode: number;
  readonly stack: number;
  readonly run: number;
  readonly encode: number;
  readonly write: number;
}

export interface Tally {
  readonly microBatches: number;
  readonly meanRows: number;
  /** Share of the rows run that nobody sent. */
  readonly paddingShare: number;
  /** Micro-batches by the reason they were closed for. */
  readonly closed: Readonly<Record<string, number>>;
  readonly stagesMs: StageTimes;
}

interface Counts {
  rows: number;
  paddedRows: number;
  closed: Record<string, number>;
  stagesMs: { -readonly [stage in keyof StageTimes]: number };
}

/** Telemetry that counts instead of sending anything anywhere. */
export interface DemoTally extends Telemetry {
  /** What was counted since it was called last. */
  take(): Tally;
  /** Errors that were answered, in all. */
  errors(): number;
}

export function createTally(problem: (error: unknown) => void): DemoTally {
  let counts = nothing();
  let errors = 0;
  return {
    middlewares: [],
    outcomes(outcomes) {
      for (const outcome of outcomes) if (outcome.status === 'answered') errors += outcome.failures.length;
    },
    hostEnds: () => {},
    observer: {
      microBatch({ rows, paddedRows, closedBecause, stackMs, runMs, encodeMs }) {
        counts.rows += rows;
        counts.paddedRows += paddedRows;
        counts.closed[closedBecause] = (counts.closed[closedBecause] ?? 0) + 1;
        counts.stagesMs.stack += stackMs;
        counts.stagesMs.run += runMs;
        counts.stagesMs.encode += encodeMs;
      },
      decoded: (decodeMs) => {
        counts.stagesMs.decode += decodeMs;
      },
      checked: () => {},
      batchMismatch: () => {},
      written: (writeMs) => {
        counts.stagesMs.write += writeMs;
      },
      runAbandoned: () => {},
      problem,
    },
    errors: () => errors,
    take() {
      const { rows, paddedRows, closed, stagesMs } = counts;
      counts = nothing();
      const microBatches = Object.values(closed).reduce((sum, count) => sum + count, 0);
      const meanRows = microBatches === 0 ? 0 : rows / microBatches;
      return { microBatches, meanRows, paddingShare: paddedRows === 0 ? 0 : 1 - rows / paddedRows, closed, stagesMs };
    },
  };
}

function nothing(): Counts {
  return { rows: 0, paddedRows: 0, closed: {}, stagesMs: { decode: 0, stack: 0, run: 0, encode: 0, write: 0 } };
}
