import { outside } from '../../../lambda/core/limits.ts';
import type { Problem } from '../base/refuse.ts';
import { withoutKernels } from './gpu.ts';

/** Where tasks with a GPU run: on instances that ECS manages, or on those of an Auto Scaling group. */
export const CAPACITIES = ['managed-instances', 'asg'] as const;
export type GpuCapacity = (typeof CAPACITIES)[number];

export interface GpuTaskSettings {
  readonly capacity: string;
  readonly architecture: { readonly name: string };
  readonly gpuCount: number;
  readonly gpuMemoryGiB: number;
  readonly vcpus: number;
  readonly memoryMb: number;
  readonly instanceTypes: readonly string[] | undefined;
  /** Whether the subnets that were given are public ones. */
  readonly isPublic: boolean;
}

/** What ECS refuses, and what would never get a card or a way out. */
export function gpuTaskProblems(settings: GpuTaskSettings): Problem[] {
  const { capacity, gpuCount, instanceTypes, isPublic } = settings;
  return [
    capacityProblem(capacity),
    armProblem(settings.architecture.name),
    outside('gpuCount', gpuCount, { least: 1, most: 16 }),
    gpuCount > 1 && instanceTypes === undefined
      ? `instanceTypes: expected some with gpuCount above 1, so that it is known what they cost, got none with ${gpuCount}; ` +
        'name types with so many GPUs, such as g5.12xlarge with 4, and their prices'
      : undefined,
    instanceTypes?.length === 0
      ? 'instanceTypes: expected at least one, got none; leave it out or name some'
      : undefined,
    ...(instanceTypes ?? []).map(withoutKernels),
    outside('gpuMemoryGiB', settings.gpuMemoryGiB, { least: 1, most: 1024 }),
    outside('vcpus', settings.vcpus, { least: 1, most: 192 }),
    outside('memoryMb', settings.memoryMb, { least: 1024, most: 2_097_152 }),
    capacity === 'managed-instances' && isPublic
      ? 'subnets: expected private ones with managed-instances, whose tasks get no public address and would reach nothing, ' +
        'got public ones; give private subnets or capacity=asg'
      : undefined,
  ];
}

function capacityProblem(capacity: string): Problem {
  if (CAPACITIES.some((known) => known === capacity)) return undefined;
  const because = capacity === 'fargate' ? ', because Fargate has no GPU' : '';
  return `capacity: expected one of ${CAPACITIES.join(', ')}${because}, got ${capacity}; take one of them`;
}

function armProblem(architecture: string): Problem {
  if (architecture === 'x86_64') return undefined;
  return `architecture: expected x86_64 with a GPU, because CUDA is built for it, got ${architecture}; set x86_64 or compute=ecs`;
}
