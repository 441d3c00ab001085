import { type Estimate, estimate } from '../../cli/job/submit.ts';
import { PRICES } from '../../infra/constructs/base/prices.ts';
import { JOB_MEMORY_MB, JOB_RANGES } from '../../lambda/core/limits.ts';

/** Rows of 500 bytes, 20,000 of them a second in a call. */
export function estimatedJob(rows: number): Estimate {
  const { partBytes, pieceBytes, concurrency } = JOB_RANGES;
  return estimate(
    {
      rows,
      bytes: 500 * rows,
      rowsPerSecond: 20_000,
      concurrency: concurrency.default,
      memoryMb: JOB_MEMORY_MB.default,
      architecture: 'arm64',
      partBytes: partBytes.default,
      pieceBytes: pieceBytes.default,
    },
    PRICES,
  );
}
