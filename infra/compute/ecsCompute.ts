import { Compatibility } from 'aws-cdk-lib/aws-ecs';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { Size } from 'aws-cdk-lib/core';
import { oneOf, outside, type Problem, unknownAtSynth } from '../common/problems.ts';
import { MIB_PER_GIB, mebibytesOf } from '../common/units.ts';
import type { ComputeForm } from './compute.ts';
import { ENDPOINTS_OF_TASKS, networkProblems } from './privateNetwork.ts';
import { type ServiceOptions, serviceDefaults, serviceProblems } from './serviceOptions.ts';
import { type ServiceCompute, workerForm } from './workerService.ts';

export interface EcsOptions extends ServiceOptions {
  /** Processor architecture. ARM costs 20 % less for the same time. @default Architecture.ARM_64 */
  readonly architecture?: Architecture;
  /** vCPUs of a task: 0.5, 1, 2, 4, 8 or 16. @default 1 */
  readonly vcpus?: number;
  /**
   * Memory of a task, in the range that Fargate has for the vCPUs, such as 2 to 8 GiB for one.
   * @default 2 GiB for each vCPU
   */
  readonly memorySize?: Size;
  /** Disk of a task, 21 to 200 GiB. Models in S3 are fetched to it. @default 20 GiB, which is Fargate's own */
  readonly ephemeralStorageSize?: Size;
}

/** @see https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ContainerDefinition.html */
const FARGATE_STOP_SECONDS = 120;

/** Estimated seconds for Fargate to start a task, fetch the image and load the models. */
const START_SECONDS = 180;

/** Returns compute that is a service of workers on Fargate, without a GPU, from a container image. */
export function ecsCompute(options: EcsOptions = {}): ComputeForm<ServiceCompute> {
  const vcpus = options.vcpus ?? 1;
  const settings = {
    ...serviceDefaults(options),
    startSeconds: START_SECONDS,
    architecture: options.architecture ?? Architecture.ARM_64,
    vcpus,
    memoryMb: mebibytesOf('memorySize', options.memorySize) ?? 2048 * vcpus,
    ephemeralStorageMb: mebibytesOf('ephemeralStorageSize', options.ephemeralStorageSize),
  };
  return {
    ...workerForm(settings, {
      compatibility: Compatibility.FARGATE,
      endpoints: ENDPOINTS_OF_TASKS,
      capacityOf: () => (settings.spot ? 'FARGATE_SPOT' : 'FARGATE'),
    }),
    kind: 'ecs',
    imageTarget: {
      stage: 'worker',
      architecture: settings.architecture,
      room: { memoryMb: settings.memoryMb, ephemeralStorageMb: settings.ephemeralStorageMb ?? FARGATE_STORAGE_MB },
    },
    problems: (batching) => [
      ...fargateProblems(vcpus, settings.memoryMb, settings.ephemeralStorageMb),
      ...networkProblems(settings, undefined),
      ...serviceProblems(settings, batching, FARGATE_STOP_SECONDS),
    ],
  };
}

/**
 * Memory by vCPUs, in GiB: minimum, maximum, step.
 * @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-cpu-memory-error.html
 */
const MEMORY_GIB: ReadonlyMap<number, readonly [min: number, max: number, step: number]> = new Map([
  [0.5, [1, 4, 1]],
  [1, [2, 8, 1]],
  [2, [4, 16, 1]],
  [4, [8, 30, 1]],
  [8, [16, 60, 4]],
  [16, [32, 120, 8]],
]);

/** Returns problems with a size that Fargate does not have. */
function fargateProblems(vcpus: number, memoryMb: number, ephemeralStorageMb: number | undefined): Problem[] {
  const memory = memoryMb / MIB_PER_GIB;
  const range = MEMORY_GIB.get(vcpus);
  if (range === undefined) return [unknownAtSynth('vcpus', vcpus), oneOf('vcpus', vcpus, [...MEMORY_GIB.keys()])];
  const [min, max, step] = range;
  return [
    outside(
      'ephemeralStorageSize',
      ephemeralStorageMb && ephemeralStorageMb / MIB_PER_GIB,
      { min: 21, max: 200 },
      'GiB',
    ),
    (memory < min || memory > max || memory % step !== 0) &&
      `memorySize: expected ${min} to ${max} GiB in steps of ${step} with ${vcpus} vCPUs, got ${memory}; change one of the two`,
  ];
}

/** Fargate's default. @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-task-storage.html */
const FARGATE_STORAGE_MB = 20 * MIB_PER_GIB;
