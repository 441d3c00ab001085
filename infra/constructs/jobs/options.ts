import type { Size } from 'aws-cdk-lib';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { JOB_MEMORY_MB, JOB_PREFIXES, JOB_RANGES } from '../../../lambda/core/limits.ts';
import { mebibytesOf } from '../base/units.ts';
import type { FunctionNetwork } from '../compute/functionNetwork.ts';

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
export interface JobSettings extends FunctionNetwork {
  readonly bucket: IBucket | undefined;
  readonly inputPrefix: string;
  readonly outputPrefix: string;
  readonly concurrency: number;
  readonly reservedConcurrency: number;
  readonly memoryMb: number;
  readonly partMb: number;
}

const MIB = 1024 * 1024;

/** @throws Error when an amount is a token */
export function jobSettings(options: JobOptions): JobSettings {
  const concurrency = options.concurrency ?? JOB_RANGES.concurrency.default;
  return {
    ...options,
    bucket: options.bucket,
    inputPrefix: options.inputPrefix ?? JOB_PREFIXES.input,
    outputPrefix: options.outputPrefix ?? JOB_PREFIXES.output,
    concurrency,
    reservedConcurrency: options.reservedConcurrency ?? concurrency,
    memoryMb: mebibytesOf('jobsMemoryMb', options.memorySize) ?? JOB_MEMORY_MB.default,
    partMb: mebibytesOf('jobsPartMb', options.partSize) ?? JOB_RANGES.partBytes.default / MIB,
  };
}
