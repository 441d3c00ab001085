import type { Telemetry } from '../../lambda/adapters/telemetry/telemetry.ts';

export interface Tally {
  readonly microBatches: number;
  readonly meanRows: number;
  /** Micro-batches by the reason they were closed for. */
  readonly closed: Readonly<Record<string, number>>;
}

/** Telemetry that counts micro-batches instead of sending them anywhere. */
export function createTally(problem: (error: unknown) => void): Telemetry & { take(): Tally } {
  let rows = 0;
  let closed: Record<string, number> = {};
  return {
    middlewares: [],
    outcomes: () => {},
    observer: {
      microBatch: (report) => {
        rows += report.rows;
        closed[report.closedBecause] = (closed[report.closedBecause] ?? 0) + 1;
      },
      decoded: () => {},
      problem,
    },
    take() {
      const microBatches = Object.values(closed).reduce((sum, count) => sum + count, 0);
      const taken = { microBatches, meanRows: microBatches === 0 ? 0 : rows / microBatches, closed };
      rows = 0;
      closed = {};
      return taken;
    },
  };
}
