import type { RangeWithDefault } from './configuration.ts';

const MIB = 1024 * 1024;

/** What is read, scored, written and retried as one, unless the local stack, whose S3 takes no more, sets less. */
export const PIECE_BYTES = 16 * MIB;

/** What one child of the map scores, in MiB: one piece at least. */
export const PART_MB = { least: PIECE_BYTES / MIB, most: 1024, default: 96 } satisfies RangeWithDefault;

/**
 * Calls that score a job at a time. A map has no more children at work.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
 */
export const JOB_CONCURRENCY = { least: 1, most: 10_000, default: 200 } satisfies RangeWithDefault;

/** Memory of the function that scores jobs; one whole vCPU comes with the default. */
export const JOB_MEMORY_MB = { least: 128, most: 10_240, default: 1769 } satisfies RangeWithDefault;

/** Of both functions of jobs: the most that Lambda has. */
export const JOB_TIMEOUT_SECONDS = 900;

/** Where jobs are looked for and answered, unless the deployment says otherwise. */
export const JOB_PREFIXES = { input: 'jobs/in/', output: 'jobs/out/' };
