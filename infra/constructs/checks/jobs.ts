import { JOB_MEMORY_MB, JOB_RANGES, outside, shareOfMemory } from '../../../lambda/core/limits.ts';
import type { Problem } from '../base/refuse.ts';
import type { ModelPlace } from '../storage/models.ts';
import { networkProblems } from './network.ts';

/** What was said of jobs. */
export interface JobNumbers {
  readonly inputPrefix: string;
  readonly outputPrefix: string;
  readonly concurrency: number;
  readonly reservedConcurrency: number;
  readonly memoryMb: number;
  readonly partMb: number;
  readonly vpc?: unknown;
  readonly subnets?: unknown;
  readonly securityGroups?: readonly unknown[] | undefined;
}

/** What the rest of the deployment says. */
interface Deployment {
  readonly compute: { readonly kind: string; readonly imageTarget: { readonly stage: string } };
  readonly models: ModelPlace;
}

const MIB = 1024 * 1024;
const PIECE_MB = JOB_RANGES.pieceBytes.default / MIB;
/** One piece at least. */
const PART_MB = { least: PIECE_MB, most: JOB_RANGES.partBytes.most / MIB };

/** What would start jobs without end, never start one, or fail at the first file. */
export function jobProblems(jobs: JobNumbers | undefined, { compute, models }: Deployment): Problem[] {
  if (jobs === undefined) return [];
  return [
    otherImage(compute),
    notPrefix('jobsInputPrefix', jobs.inputPrefix),
    notPrefix('jobsOutputPrefix', jobs.outputPrefix),
    overlap(jobs),
    outside('jobsConcurrency', jobs.concurrency, JOB_RANGES.concurrency),
    moreThanReserved(jobs),
    outside('jobsMemoryMb', jobs.memoryMb, JOB_MEMORY_MB),
    lessThanPieceTakes(jobs),
    outside('jobsPartMb', jobs.partMb, PART_MB),
    ...networkProblems(jobs).map((problem) => problem && `jobs.${problem}`),
    noNetwork(jobs, models),
  ];
}

/** A worker's image has no runtime of Lambda, and one with CUDA holds models that name cards. */
function otherImage({ kind, imageTarget: { stage } }: Deployment['compute']): Problem {
  if (stage === 'lambda') return undefined;
  return (
    'jobs: expected the image of a function on CPUs, because functions from the same image score jobs, ' +
    `got compute ${kind}, whose image is built for ${stage}; leave jobs out, and deploy them as a stack of their own ` +
    'with compute lambda'
  );
}

const MOST_CHARACTERS = 512;
/** No wildcard of IAM, nothing that a URL or an event would spell otherwise. */
const PREFIX = /^([A-Za-z0-9_-][A-Za-z0-9._-]*\/)+$/;

function notPrefix(name: string, prefix: string): Problem {
  if (prefix.length <= MOST_CHARACTERS && PREFIX.test(prefix)) return undefined;
  return (
    `${name}: expected a path that ends in '/', of at most ${MOST_CHARACTERS} letters, digits and . _ -, ` +
    `got '${prefix}'; change it`
  );
}

function overlap({ inputPrefix, outputPrefix }: JobNumbers): Problem {
  if (!inputPrefix.startsWith(outputPrefix) && !outputPrefix.startsWith(inputPrefix)) return undefined;
  return (
    'jobsOutputPrefix: expected one that neither begins with jobsInputPrefix nor is its beginning, because what jobs ' +
    `write would start jobs, got '${outputPrefix}' with '${inputPrefix}'; put them side by side, such as jobs/in/ and jobs/out/`
  );
}

function moreThanReserved({ concurrency, reservedConcurrency }: JobNumbers): Problem {
  const problem = outside('jobsReservedConcurrency', reservedConcurrency, { least: 1, most: 100_000 });
  if (problem !== undefined || concurrency <= reservedConcurrency) return problem;
  return (
    `jobsConcurrency: expected at most jobsReservedConcurrency, ${reservedConcurrency}, because calls beyond it are ` +
    `throttled, got ${concurrency}; lower it or raise jobsReservedConcurrency`
  );
}

/** Two pieces are held at a time, and parsed JSON takes up to twenty times its text. */
function lessThanPieceTakes({ memoryMb }: JobNumbers): Problem {
  if (shareOfMemory(memoryMb) >= PIECE_MB * MIB) return undefined;
  const least = PIECE_MB * 64;
  return (
    `jobsMemoryMb: expected at least ${least} = 64 × ${PIECE_MB} MiB, the piece of a file that is scored at a time, ` +
    `got ${memoryMb}, a 64th of which is ${memoryMb / 64} MiB; raise it`
  );
}

/** @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-filesystem.html */
function noNetwork({ vpc }: JobNumbers, { efs }: ModelPlace): Problem {
  if (efs === undefined || vpc !== undefined) return undefined;
  return (
    'jobs: expected a vpc, because a file system with models is mounted through a network, got none; give jobs the vpc ' +
    'of the file system, or take models in S3'
  );
}
