import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Size } from 'aws-cdk-lib/core';
import { JOB_MEMORY_MB, JOB_PREFIXES, JOB_RANGES } from '../../lambda/core/limits.ts';
import type { ModelPlace } from '../common/models.ts';
import { exceeds, known, outside, type Problem } from '../common/problems.ts';
import { mebibytesOf } from '../common/units.ts';
import type { ComputeForm } from '../compute/compute.ts';
import { type FunctionNetwork, networkProblems } from '../compute/privateNetwork.ts';

/**
 * Options of jobs, which score files in S3 and write scored files. They have their own functions, so they never slow
 * down the scoring of messages.
 */
export interface JobOptions extends FunctionNetwork {
  /** Existing bucket for input and output, in the stack's account and region. @default a new one */
  readonly bucket?: IBucket;
  /** Prefix of keys whose files are scored as soon as they are put. It ends in `/`. @default 'jobs/in/' */
  readonly inputPrefix?: string;
  /** Prefix of keys of all job output. It ends in `/`. @default 'jobs/out/' */
  readonly outputPrefix?: string;
  /** Maximum calls that score one job at a time, 1 to 10,000. @default 200 */
  readonly concurrency?: number;
  /** Concurrency that is reserved for the calls of all jobs. It is also their maximum. @default `concurrency` */
  readonly reservedConcurrency?: number;
  /** Memory of the function that scores, 1,024 to 10,240 MiB. 1,769 MiB have one vCPU. @default 1,769 MiB */
  readonly memorySize?: Size;
}

/** Options as plain numbers, with defaults. */
export type JobSettings = ReturnType<typeof jobSettings>;

const MIB = 1024 * 1024;

/** @throws ValidationError if an amount is a token */
export function jobSettings(options: JobOptions) {
  const concurrency = options.concurrency ?? JOB_RANGES.concurrency.default;
  return {
    ...options,
    inputPrefix: options.inputPrefix ?? JOB_PREFIXES.input,
    outputPrefix: options.outputPrefix ?? JOB_PREFIXES.output,
    concurrency,
    reservedConcurrency: options.reservedConcurrency ?? concurrency,
    memoryMb: mebibytesOf('jobs.memorySize', options.memorySize) ?? JOB_MEMORY_MB.default,
  };
}

const PIECE_MB = JOB_RANGES.pieceBytes.default / MIB;

const MAX_CHARACTERS = 512;
/** Prefix without IAM wildcards and without characters that URLs or events encode. */
const PREFIX = /^([A-Za-z0-9_-][A-Za-z0-9._-]*\/)+$/;

/** Returns problems with options that start jobs in a loop, never start a job, or fail with the first file. */
export function jobProblems(
  jobs: JobSettings | undefined,
  { compute, models }: { readonly compute: ComputeForm; readonly models: ModelPlace },
): Problem[] {
  if (jobs === undefined) return [];
  const { inputPrefix, outputPrefix, concurrency, reservedConcurrency, memoryMb } = jobs;
  const { stage } = compute.imageTarget;
  const prefixes = Object.entries({ inputPrefix, outputPrefix }).map(
    ([name, prefix]) =>
      known(prefix) !== undefined &&
      (prefix.length > MAX_CHARACTERS || !PREFIX.test(prefix)) &&
      `jobs.${name}: expected a path that ends in '/', of at most ${MAX_CHARACTERS} letters, digits and . _ -, ` +
        `got '${prefix}'; change it`,
  );
  return [
    ...networkProblems(jobs, 'functions', 'jobs.'),
    outside('jobs.concurrency', concurrency, JOB_RANGES.concurrency),
    outside('jobs.reservedConcurrency', reservedConcurrency, { min: 1, max: 100_000 }),
    // Two pieces are in memory at a time, and parsed JSON needs up to twenty times the memory of its text.
    outside('jobs.memorySize', memoryMb, { min: 64 * PIECE_MB, max: JOB_MEMORY_MB.max }, 'MiB'),
    // A worker's image has no Lambda runtime, and models in an image with CUDA may name devices.
    stage !== 'lambda' &&
      'jobs: expected the image of a function on CPUs, because functions from the same image score jobs, ' +
        `got compute ${compute.kind}, whose image is built for ${stage}; leave jobs out, and deploy them as a stack of ` +
        'their own with lambdaCompute()',
    ...prefixes,
    known(inputPrefix + outputPrefix) !== undefined &&
      (inputPrefix.startsWith(outputPrefix) || outputPrefix.startsWith(inputPrefix)) &&
      'jobs.outputPrefix: expected one that neither begins with jobs.inputPrefix nor is its beginning, because what jobs ' +
        `write would start jobs, got '${outputPrefix}' with '${inputPrefix}'; put them side by side, such as jobs/in/ ` +
        'and jobs/out/',
    exceeds(concurrency, reservedConcurrency) &&
      `jobs.concurrency: expected at most jobs.reservedConcurrency, ${reservedConcurrency}, because calls beyond it are ` +
        `throttled, got ${concurrency}; lower it or raise jobs.reservedConcurrency`,
    models.efs !== undefined &&
      jobs.vpc === undefined &&
      'jobs: expected a vpc, because a file system with models is mounted through a network, got none; give jobs the vpc ' +
        'of the file system, or take models in S3',
  ];
}
