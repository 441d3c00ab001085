import type { RangeWithDefault } from './configuration.ts';
import { FUNCTION_TIMEOUT_SECONDS } from './eventSourceMapping.ts';

const MIB = 1024 * 1024;

/** The numbers of jobs, declared once: the functions refuse others at start, the infrastructure at synth. */
export const JOB_RANGES = {
  /**
   * Bytes of a part, which a child of the map scores: six pieces. Each part costs three transitions of Step Functions,
   * 0.000075 $; of 96 MiB that is a fifth of what a job costs at 20,000 rows of 500 bytes a second.
   */
  partBytes: { least: 1, most: 1024 * MIB, default: 96 * MIB },
  /** Bytes of a piece, which is read, scored and put as one; a call holds two of them and the rows of two. */
  pieceBytes: { least: 1, most: 64 * MIB, default: 16 * MIB },
  /** Calls at a time. A distributed map starts at most 10,000 children at a time. */
  concurrency: { least: 1, most: 10_000, default: 200 },
} satisfies Readonly<Record<string, RangeWithDefault>>;

/** As long as Lambda allows: the longer a call, the fewer parts are cut short. */
export const JOB_TIMEOUT_SECONDS = FUNCTION_TIMEOUT_SECONDS.most;

/** Memory of the function that scores jobs, in MiB; one whole vCPU comes with the default. */
export const JOB_MEMORY_MB = { least: 128, most: 10_240, default: 1769 } satisfies RangeWithDefault;

/** Where files are looked for, and what is scored goes, unless the deployment says otherwise. */
export const JOB_PREFIXES = { input: 'jobs/in/', output: 'jobs/out/' };
