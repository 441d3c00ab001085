import { Architecture, type ICapacityProvider } from 'aws-cdk-lib/aws-lambda';
import { MAXIMUM_CONCURRENCY, outside } from '../../../lambda/core/limits.ts';
import { oneOf, type Problem } from '../base/refuse.ts';

/** @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances.html */
const GPU_MEMORY_GIB = [3, 6, 12, 16, 24, 48];

export interface GpuSettings {
  readonly architecture: Architecture;
  readonly gpuMemoryGiB: number;
  readonly memoryMb: number;
  readonly minimumEnvironments: number;
  readonly maximumEnvironments: number;
  readonly instanceTypes: readonly string[] | undefined;
  readonly maximumConcurrency: number | undefined;
  readonly capacityProvider: ICapacityProvider | undefined;
  readonly vpc: unknown;
  readonly subnets: unknown;
}

/** What Lambda Managed Instances refuse, and what they accept but then throttle. */
export function gpuProblems(settings: GpuSettings, shards: number): Problem[] {
  return [
    armProblem(settings.architecture),
    oneOf('gpuMemoryGiB', settings.gpuMemoryGiB, GPU_MEMORY_GIB),
    ...(settings.instanceTypes ?? []).map(withoutKernels),
    besidesProvider(settings),
    outside('memoryMb', settings.memoryMb, { least: 2048, most: 32_768 }),
    outside('minimumEnvironments', settings.minimumEnvironments, { least: 0, most: 15_000 }),
    outside('maximumEnvironments', settings.maximumEnvironments, { least: 2, most: 1000 }),
    fewerThanMinimum(settings),
    moreInvocationsThanEnvironments(settings),
    fewerThanInvocations(settings, shards),
  ];
}

function armProblem(architecture: Architecture): Problem {
  if (architecture.name === Architecture.X86_64.name) return undefined;
  return `architecture: expected x86_64, because Lambda has no GPU with ${architecture.name}; set x86_64 or compute=lambda`;
}

/** B200 and B300. ONNX Runtime has kernels for compute capabilities 7.5, 8.0, 8.6, 8.9, 9.0 and 12.0; these have 10. */
const NO_KERNELS = /^p6/;

export function withoutKernels(instanceType: string): Problem {
  if (!NO_KERNELS.test(instanceType)) return undefined;
  return (
    'instanceTypes: expected GPUs that ONNX Runtime has kernels for, such as those of g4dn, g5, g6 and g6e, ' +
    `got ${instanceType}, for whose B200 or B300 it has none; take one of those`
  );
}

/** What the instances are, and where, was said when the provider was made. */
function besidesProvider({ capacityProvider, instanceTypes, vpc, subnets }: GpuSettings): Problem {
  if (capacityProvider === undefined) return undefined;
  const given = Object.entries({ instanceTypes, vpc, subnets }).filter(([, value]) => value !== undefined);
  if (given.length === 0) return undefined;
  return (
    'capacityProvider: expected without what is its own, the instance types and their network, ' +
    `got it with ${given.map(([name]) => name).join(', ')}; leave out one or the other`
  );
}

function fewerThanMinimum({ minimumEnvironments, maximumEnvironments }: GpuSettings): Problem {
  if (minimumEnvironments <= maximumEnvironments) return undefined;
  return (
    `maximumEnvironments: expected at least minimumEnvironments, ${minimumEnvironments}, ` +
    `got ${maximumEnvironments}; raise it`
  );
}

function moreInvocationsThanEnvironments({ maximumConcurrency, maximumEnvironments }: GpuSettings): Problem {
  if (maximumConcurrency === undefined || maximumConcurrency <= maximumEnvironments) return undefined;
  return (
    `maximumConcurrency: expected at most maximumEnvironments, ${maximumEnvironments}, because each runs one ` +
    `invocation at a time and more are throttled, got ${maximumConcurrency}; lower it or raise maximumEnvironments`
  );
}

function fewerThanInvocations({ maximumEnvironments }: GpuSettings, shards: number): Problem {
  const least = shards * MAXIMUM_CONCURRENCY.least;
  if (maximumEnvironments >= least || shards === 1) return undefined;
  return (
    `maximumEnvironments: expected at least ${least}, because SQS starts at least ${MAXIMUM_CONCURRENCY.least} ` +
    `invocations at a time from each of ${shards} shards, got ${maximumEnvironments}; raise it or lower shards`
  );
}
