import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Size } from 'aws-cdk-lib/core';
import { JOB_MEMORY_MB, JOB_PREFIXES, JOB_RANGES, shareOfMemory } from '../../lambda/core/limits.ts';
import type { ModelPlace } from '../common/models.ts';
import { brokenOf, exceeds, known, networkProblems, outside, type Problem, type Rule } from '../common/problems.ts';
import { mebibytesOf } from '../common/units.ts';
import type { ComputeForm } from '../compute/compute.ts';
import type { FunctionNetwork } from '../compute/scoringFunction.ts';

/** Jobs: a file in S3 in, a scored file out. They have functions of their own, and never slow the scoring of messages. */
export interface JobOptions extends FunctionNetwork {
  /** An existing bucket, of the stack's account and region, for input and output. @default a new one */
  readonly bucket?: IBucket | undefined;
  /** What the keys of files begin with that are scored as soon as they are put; it ends in `/`. @default 'jobs/in/' */
  readonly inputPrefix?: string | undefined;
  /** What the keys of everything begin with that jobs write; it ends in `/`. @default 'jobs/out/' */
  readonly outputPrefix?: string | undefined;
  /** Most calls that score one job at a time, 1 to 10,000. @default 200 */
  readonly concurrency?: number | undefined;
  /**
   * Concurrency that is set aside for the calls of all jobs, which is also the most that they take of the account's: jobs
   * at the same time share it. @default `concurrency`
   */
  readonly reservedConcurrency?: number | undefined;
  /** Memory of the function that scores, 1,024 to 10,240 MiB; 1,769 MiB come with one whole vCPU. @default 1,769 MiB */
  readonly memorySize?: Size | undefined;
  /** What one child of the map scores, 16 MiB to 1 GiB. @default 96 MiB */
  readonly partSize?: Size | undefined;
}

/** The options with plain numbers and defaults. */
export type JobSettings = ReturnType<typeof jobSettings>;

const MIB = 1024 * 1024;

/** @throws ValidationError when an amount is a token */
export function jobSettings(options: JobOptions) {
  const concurrency = options.concurrency ?? JOB_RANGES.concurrency.default;
  return {
    ...options,
    inputPrefix: options.inputPrefix ?? JOB_PREFIXES.input,
    outputPrefix: options.outputPrefix ?? JOB_PREFIXES.output,
    concurrency,
    reservedConcurrency: options.reservedConcurrency ?? concurrency,
    memoryMb: mebibytesOf('jobs.memorySize', options.memorySize) ?? JOB_MEMORY_MB.default,
    partMb: mebibytesOf('jobs.partSize', options.partSize) ?? JOB_RANGES.partBytes.default / MIB,
  };
}

const PIECE_MB = JOB_RANGES.pieceBytes.default / MIB;
/** One piece at least. */
const PART_MB = { min: PIECE_MB, max: JOB_RANGES.partBytes.max / MIB };

const MAX_CHARACTERS = 512;
/** No wildcard of IAM, nothing that a URL or an event would write otherwise. */
const PREFIX = /^([A-Za-z0-9_-][A-Za-z0-9._-]*\/)+$/;

/** What would start jobs without end, never start one, or fail at the first file. */
export function jobProblems(
  jobs: JobSettings | undefined,
  { compute, models }: { readonly compute: ComputeForm; readonly models: ModelPlace },
): Problem[] {
  if (jobs === undefined) return [];
  const { inputPrefix, outputPrefix, concurrency, reservedConcurrency, memoryMb } = jobs;
  const { stage } = compute.imageTarget;
  const prefixes = Object.entries({ inputPrefix, outputPrefix }).map(
    ([name, prefix]): Rule => [
      known(prefix) !== undefined && (prefix.length > MAX_CHARACTERS || !PREFIX.test(prefix)),
      `jobs.${name}: expected a path that ends in '/', of at most ${MAX_CHARACTERS} letters, digits and . _ -, ` +
        `got '${prefix}'; change it`,
    ],
  );
  return [
    outside('jobs.concurrency', concurrency, JOB_RANGES.concurrency),
    outside('jobs.reservedConcurrency', reservedConcurrency, { min: 1, max: 100_000 }),
    outside('jobs.memorySize', memoryMb, JOB_MEMORY_MB, 'MiB'),
    outside('jobs.partSize', jobs.partMb, PART_MB, 'MiB'),
    ...networkProblems(jobs).map((problem) => problem && `jobs.${problem}`),
    ...brokenOf([
      [
        // A worker's image has no runtime of Lambda, and one with CUDA holds models that name devices.
        stage !== 'lambda',
        'jobs: expected the image of a function on CPUs, because functions from the same image score jobs, ' +
          `got compute ${compute.kind}, whose image is built for ${stage}; leave jobs out, and deploy them as a stack of ` +
          'their own with lambdaCompute()',
      ],
      ...prefixes,
      [
        known(inputPrefix + outputPrefix) !== undefined &&
          (inputPrefix.startsWith(outputPrefix) || outputPrefix.startsWith(inputPrefix)),
        'jobs.outputPrefix: expected one that neither begins with jobs.inputPrefix nor is its beginning, because what jobs ' +
          `write would start jobs, got '${outputPrefix}' with '${inputPrefix}'; put them side by side, such as jobs/in/ ` +
          'and jobs/out/',
      ],
      [
        exceeds(concurrency, reservedConcurrency),
        `jobs.concurrency: expected at most jobs.reservedConcurrency, ${reservedConcurrency}, because calls beyond it are ` +
          `throttled, got ${concurrency}; lower it or raise jobs.reservedConcurrency`,
      ],
      [
        // Two pieces are held at a time, and parsed JSON takes up to twenty times its text.
        shareOfMemory(memoryMb) < PIECE_MB * MIB,
        `jobs.memorySize: expected at least ${PIECE_MB * 64} = 64 × ${PIECE_MB} MiB, the piece of a file that is scored at a ` +
          `time, got ${memoryMb}, a 64th of which is ${memoryMb / 64} MiB; raise it`,
      ],
      [
        models.efs !== undefined && jobs.vpc === undefined,
        'jobs: expected a vpc, because a file system with models is mounted through a network, got none; give jobs the vpc ' +
          'of the file system, or take models in S3',
      ],
    ]),
  ];
}
