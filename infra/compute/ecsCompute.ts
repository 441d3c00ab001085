import { FargateService } from 'aws-cdk-lib/aws-ecs';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { Size } from 'aws-cdk-lib/core';
import { brokenOf, oneOf, outside, type Problem, unknownAtSynth } from '../common/problems.ts';
import { mebibytesOf } from '../common/units.ts';
import { ARCHITECTURES } from '../image/containerImage.ts';
import type { ComputeForm } from './compute.ts';
import { createPrivateNetwork, ENDPOINTS_OF_TASKS } from './privateNetwork.ts';
import { type ServiceOptions, type ServiceSettings, serviceDefaults, serviceProblems } from './serviceOptions.ts';
import { deploymentOf, type ServiceCompute, toCompute, workerForm } from './workerService.ts';
import { createCluster, createTask } from './workerTask.ts';

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
    ...workerForm(settings),
    kind: 'ecs',
    imageTarget: {
      stage: 'worker',
      architecture: settings.architecture,
      room: { memoryMb: settings.memoryMb, ephemeralStorageMb: settings.ephemeralStorageMb ?? FARGATE_STORAGE_MB },
    },
    problems: (batching) => [...serviceProblems(settings, batching), ...fargateProblems(settings)],
    create(scope, wiring) {
      const network = createPrivateNetwork(scope, settings, wiring, ENDPOINTS_OF_TASKS);
      const cluster = createCluster(scope, network.vpc, wiring.encryptionKey, 'fargate');
      const task = createTask(scope, cluster, 'fargate', settings, wiring);
      const service = new FargateService(scope, 'Service', {
        ...deploymentOf(wiring),
        cluster,
        taskDefinition: task.definition,
        vpcSubnets: { subnets: network.subnets },
        securityGroups: [network.securityGroup],
        assignPublicIp: settings.isPublic,
        capacityProviderStrategies: [{ capacityProvider: settings.spot ? 'FARGATE_SPOT' : 'FARGATE', weight: 1 }],
      });
      return toCompute(scope, { network, cluster, service, task }, settings, wiring);
    },
  };
}

interface FargateSettings extends ServiceSettings {
  readonly architecture: Architecture;
  readonly vcpus: number;
  readonly memoryMb: number;
  readonly ephemeralStorageMb: number | undefined;
}

const GIB = 1024;
/** Fargate's default. @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-task-storage.html */
const FARGATE_STORAGE_MB = 20 * GIB;

/** MiB by vCPUs. @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-cpu-memory-error.html */
const MEMORY = new Map([
  [0.5, { min: GIB, max: 4 * GIB, step: GIB }],
  [1, { min: 2 * GIB, max: 8 * GIB, step: GIB }],
  [2, { min: 4 * GIB, max: 16 * GIB, step: GIB }],
  [4, { min: 8 * GIB, max: 30 * GIB, step: GIB }],
  [8, { min: 16 * GIB, max: 60 * GIB, step: 4 * GIB }],
  [16, { min: 32 * GIB, max: 120 * GIB, step: 8 * GIB }],
]);

/** @see https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ContainerDefinition.html */
const LONGEST_STOP_SECONDS = 120;

function fargateProblems(settings: FargateSettings): Problem[] {
  const { architecture, vcpus, memoryMb, ephemeralStorageMb, stopTimeoutSeconds } = settings;
  const memory = MEMORY.get(vcpus);
  const { min, max, step } = memory ?? { min: 0, max: Number.POSITIVE_INFINITY, step: 1 };
  return [
    oneOf('architecture', architecture.name, ARCHITECTURES),
    unknownAtSynth('vcpus', vcpus),
    oneOf('vcpus', vcpus, [...MEMORY.keys()]),
    outside('ephemeralStorageSize', ephemeralStorageMb, { min: 21 * GIB, max: 200 * GIB }, 'MiB'),
    ...brokenOf([
      [
        memory !== undefined && (memoryMb < min || memoryMb > max || memoryMb % step !== 0),
        `memorySize: expected ${min} to ${max} MiB in steps of ${step}, which Fargate has with ${vcpus} vCPU, ` +
          `got ${memoryMb}; choose one of these or other vcpus`,
      ],
      [
        stopTimeoutSeconds > LONGEST_STOP_SECONDS,
        `stopTimeout: expected at most ${LONGEST_STOP_SECONDS} seconds, which is what Fargate waits, got ` +
          `${stopTimeoutSeconds}; lower it, and timeout with it`,
      ],
    ]),
  ];
}
