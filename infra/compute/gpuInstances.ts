import type { Problem } from '../constructs/problems.ts';
import type { Prices } from '../priceList.ts';

/**
 * Instance families whose GPU the CUDA kernels in ONNX Runtime run on, by compute capability. There is no PTX, from which
 * a driver could compile for others.
 *
 * @see https://developer.nvidia.com/cuda-gpus
 */
const FAMILIES = {
  sm_75: ['g4dn'],
  sm_80: ['p4d', 'p4de'],
  sm_86: ['g5'],
  sm_89: ['g6', 'g6e', 'g6f', 'gr6', 'gr6f'],
  sm_90: ['p5', 'p5e', 'p5en'],
  sm_120: ['g7e'],
};

/** What is wrong with an instance type that has no GPU, or one that ONNX Runtime cannot use. */
export function withoutKernels(instanceType: string): Problem {
  const families = Object.values(FAMILIES).flat().toSorted();
  if (families.some((family) => instanceType.startsWith(`${family}.`))) return undefined;
  return (
    `instanceTypes: expected types whose GPU the CUDA kernels of ONNX Runtime run on (${listed(Object.keys(FAMILIES))}, x86_64), ` +
    `which those of ${listed(families)} have, got ${instanceType}; take one of those`
  );
}

function listed(names: readonly string[]): string {
  return `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

/** What an instance has, of which an environment takes a share. */
interface Instance {
  readonly vcpus: number;
  readonly gpuGiB: number;
  readonly memoryGiB: number;
}

/** The sizes with one GPU that most environments fit, by instance type. @see https://aws.amazon.com/ec2/instance-types/ */
const INSTANCES: Readonly<Record<string, Instance>> = {
  'g4dn.xlarge': { vcpus: 4, gpuGiB: 16, memoryGiB: 16 },
  'g4dn.2xlarge': { vcpus: 8, gpuGiB: 16, memoryGiB: 32 },
  'g5.xlarge': { vcpus: 4, gpuGiB: 24, memoryGiB: 16 },
  'g5.2xlarge': { vcpus: 8, gpuGiB: 24, memoryGiB: 32 },
  'g6.xlarge': { vcpus: 4, gpuGiB: 24, memoryGiB: 16 },
  'g6.2xlarge': { vcpus: 8, gpuGiB: 24, memoryGiB: 32 },
  'g6e.xlarge': { vcpus: 4, gpuGiB: 48, memoryGiB: 32 },
  'g6e.2xlarge': { vcpus: 8, gpuGiB: 48, memoryGiB: 64 },
};

/** More than any price. */
const UNKNOWN = Number.MAX_VALUE;

/** An estimate: what the host keeps for itself. */
const HOSTS_SHARE = 0.1;

export interface Environment {
  readonly gpuMemoryGiB: number;
  readonly memoryMb: number;
  /** vCPUs that are reserved. @default none: Lambda gives shares of them */
  readonly vcpus?: number;
  /** @default 1 */
  readonly gpuCount?: number;
  /** Instance types that may be used. @default the cheapest that fits */
  readonly instanceTypes?: readonly string[] | undefined;
}

/** Where environments run, as far as it can be known before Lambda chooses. */
export interface DeviceAssignment {
  readonly instanceType: string;
  /** US dollars, without the fee for Managed Instances; undefined where the price list has none. */
  readonly instanceHour: number | undefined;
  readonly environmentsPerInstance: number;
}

/**
 * The cheapest instance that an environment fits, of the types that were given or of those above. Of a type that is not
 * above, one environment is taken to fill it.
 *
 * @throws Error when no type fits
 */
export function assignmentOf(environment: Environment, prices: Prices): DeviceAssignment {
  const [cheapest] = assignmentsOf(environment, prices);
  if (cheapest !== undefined) return cheapest;
  const { gpuMemoryGiB, memoryMb, vcpus, gpuCount = 1, instanceTypes } = environment;
  const gpus = gpuCount === 1 ? '' : `${gpuCount} GPUs, each with `;
  throw new Error(
    `memorySize: expected an instance that has ${vcpus === undefined ? '' : `${vcpus} vCPUs, `}${memoryMb} MB and ` +
      `${gpus}${gpuMemoryGiB} GiB of GPU memory, got only ${(instanceTypes ?? Object.keys(INSTANCES)).join(', ')}; ` +
      'lower one of these or name a larger instance type',
  );
}

/** The types that an environment fits, the cheapest first, and last those without a price. */
export function instanceTypesFor(environment: Environment, prices: Prices): string[] {
  return assignmentsOf(environment, prices).map(({ instanceType }) => instanceType);
}

function assignmentsOf(environment: Environment, prices: Prices): DeviceAssignment[] {
  return (environment.instanceTypes ?? Object.keys(INSTANCES))
    .map((instanceType) => ({
      instanceType,
      instanceHour: prices.instanceHour[instanceType],
      environmentsPerInstance: howManyFit(INSTANCES[instanceType], environment),
    }))
    .filter(({ environmentsPerInstance }) => environmentsPerInstance > 0)
    .toSorted(({ instanceHour: a = UNKNOWN }, { instanceHour: b = UNKNOWN }) => a - b);
}

function howManyFit(instance: Instance | undefined, environment: Environment): number {
  const { gpuMemoryGiB, memoryMb, vcpus = 0, gpuCount = 1 } = environment;
  if (instance === undefined) return 1;
  if (vcpus > instance.vcpus || gpuCount > 1) return 0;
  const usable = instance.memoryGiB * (1 - HOSTS_SHARE);
  return Math.min(Math.floor(instance.gpuGiB / gpuMemoryGiB), Math.floor(usable / (memoryMb / 1024)));
}
