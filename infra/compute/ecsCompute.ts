import type { Size } from 'aws-cdk-lib';
import { FargateService } from 'aws-cdk-lib/aws-ecs';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { outside } from '../../lambda/core/limits.ts';
import { networkProblems, oneOf, type Problem } from '../constructs/problems.ts';
import { mebibytesOf } from '../constructs/units.ts';
import { ARCHITECTURES } from '../image/containerImage.ts';
import type { ComputeForm } from './compute.ts';
import { createPrivateNetwork, ENDPOINTS_OF_TASKS } from './privateNetwork.ts';
import { minWorkerVisibility, type ServiceOptions, serviceDefaults, serviceProblems } from './serviceOptions.ts';
import {
  deploymentOf,
  fargateTaskHour,
  isPublic,
  type ServiceCompute,
  toCompute,
  wakeSecondsOf,
} from './workerService.ts';
import { createCluster, createTask } from './workerTask.ts';

export interface EcsOptions extends ServiceOptions {
  /** The processor. ARM costs 20 % less for the same time. @default Architecture.ARM_64 */
  readonly architecture?: Architecture;
  /** vCPUs of a task: 0.5, 1, 2, 4, 8 or 16. @default 1 */
  readonly vcpus?: number;
  /** Memory of a task, as Fargate has it with so many vCPUs: 2 to 8 GiB with one. @default 2 GiB for each vCPU */
  readonly memorySize?: Size;
  /** Disk of a task, 21 to 200 GiB; models in S3 need room there. @default 20 GiB, which is Fargate's own */
  readonly ephemeralStorageSize?: Size;
}

/** What Fargate takes to start a task, which then fetches the image and loads the models: an estimate. */
const START_SECONDS = 180;

/** A service of workers on Fargate, without a GPU, from a container image. */
export function ecsCompute(options: EcsOptions = {}): ComputeForm<ServiceCompute> {
  const settings = withDefaults(options);
  const { architecture, timeoutSeconds } = settings;
  return {
    kind: 'ecs',
    feed: 'worker',
    imageTarget: { stage: 'worker', architecture },
    timeoutSeconds,
    wakeSeconds: wakeSecondsOf(settings, START_SECONDS),
    problems: (batching) => [
      ...serviceProblems(settings, batching),
      ...fargateProblems(settings),
      ...networkProblems(options),
    ],
    minVisibility: (batching) => minWorkerVisibility(timeoutSeconds, batching),
    create(scope, wiring) {
      const network = createPrivateNetwork(scope, settings, wiring, ENDPOINTS_OF_TASKS);
      const cluster = createCluster(scope, network.vpc, { onFargate: true, encryptionKey: wiring.encryptionKey });
      const task = createTask(scope, cluster, { ...settings, launch: 'fargate' }, wiring);
      const service = new FargateService(scope, 'Service', {
        ...deploymentOf(wiring),
        cluster,
        taskDefinition: task.definition,
        vpcSubnets: { subnets: network.subnets },
        securityGroups: [network.securityGroup],
        assignPublicIp: isPublic(settings),
        capacityProviderStrategies: [{ capacityProvider: settings.spot ? 'FARGATE_SPOT' : 'FARGATE', weight: 1 }],
      });
      const taskHour = fargateTaskHour(settings, wiring.prices);
      return toCompute(
        scope,
        { network, cluster, service, task },
        { ...settings, startSeconds: START_SECONDS, taskHour },
        wiring,
      );
    },
  };
}

function withDefaults(options: EcsOptions) {
  const vcpus = options.vcpus ?? 1;
  return {
    ...serviceDefaults(options),
    architecture: options.architecture ?? Architecture.ARM_64,
    vcpus,
    memoryMb: mebibytesOf('memoryMb', options.memorySize) ?? 2048 * vcpus,
    ephemeralStorageMb: mebibytesOf('ephemeralStorageMb', options.ephemeralStorageSize),
  };
}

interface FargateSettings {
  readonly architecture: { readonly name: string };
  readonly vcpus: number;
  readonly memoryMb: number;
  readonly ephemeralStorageMb: number | undefined;
  readonly stopTimeoutSeconds: number;
}

interface Memory {
  readonly least: number;
  readonly most: number;
  readonly step: number;
}

const GIB = 1024;

/** In MiB, by vCPUs. @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-cpu-memory-error.html */
const MEMORY: Readonly<Record<number, Memory>> = {
  0.5: { least: GIB, most: 4 * GIB, step: GIB },
  1: { least: 2 * GIB, most: 8 * GIB, step: GIB },
  2: { least: 4 * GIB, most: 16 * GIB, step: GIB },
  4: { least: 8 * GIB, most: 30 * GIB, step: GIB },
  8: { least: 16 * GIB, most: 60 * GIB, step: 4 * GIB },
  16: { least: 32 * GIB, most: 120 * GIB, step: 8 * GIB },
};

/** @see https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ContainerDefinition.html */
const LONGEST_STOP_SECONDS = 120;

/** What Fargate refuses. */
function fargateProblems(settings: FargateSettings): Problem[] {
  const { architecture, vcpus, ephemeralStorageMb, stopTimeoutSeconds } = settings;
  return [
    oneOf('architecture', architecture.name, ARCHITECTURES),
    oneOf(
      'vcpus',
      vcpus,
      Object.keys(MEMORY)
        .map(Number)
        .toSorted((a, b) => a - b),
    ),
    memoryProblem(settings),
    outside('ephemeralStorageMb', ephemeralStorageMb, { least: 21 * GIB, most: 200 * GIB }),
    stopTimeoutSeconds > LONGEST_STOP_SECONDS
      ? `stopTimeoutSeconds: expected at most ${LONGEST_STOP_SECONDS}, which is what Fargate waits, got ` +
        `${stopTimeoutSeconds}; lower it, and timeoutSeconds with it`
      : undefined,
  ];
}

function memoryProblem({ vcpus, memoryMb }: FargateSettings): Problem {
  const memory = MEMORY[vcpus];
  if (memory === undefined) return undefined;
  const { least, most, step } = memory;
  if (memoryMb >= least && memoryMb <= most && memoryMb % step === 0) return undefined;
  return (
    `memoryMb: expected ${least} to ${most} in steps of ${step}, which Fargate has with ${vcpus} vCPU, ` +
    `got ${memoryMb}; choose one of these or other vcpus`
  );
}
