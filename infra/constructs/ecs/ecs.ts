import type { Size } from 'aws-cdk-lib';
import { FargateService } from 'aws-cdk-lib/aws-ecs';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { mebibytesOf } from '../base/units.ts';
import { fargateProblems } from '../checks/fargate.ts';
import { networkProblems } from '../checks/network.ts';
import { serviceProblems } from '../checks/service.ts';
import type { ComputeForm } from '../compute/compute.ts';
import { createPrivateNetwork } from '../compute/privateNetwork.ts';
import { createCluster } from './cluster.ts';
import { ENDPOINTS_OF_TASKS } from './endpoints.ts';
import { deploymentOf, isPublic, type ServiceCompute, toCompute, wakeSecondsOf } from './service.ts';
import { fargateTaskHour } from './serviceCost.ts';
import { type ServiceOptions, serviceDefaults } from './serviceOptions.ts';
import { createTask } from './task.ts';
import { leastWorkerVisibility } from './visibility.ts';

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
    machine: { memoryMb: settings.memoryMb, vcpus: settings.vcpus },
    wakeSeconds: wakeSecondsOf(settings, START_SECONDS),
    problems: (batching) => [
      ...serviceProblems(settings, batching),
      ...fargateProblems(settings),
      ...networkProblems(options),
    ],
    leastVisibility: (batching) => leastWorkerVisibility(timeoutSeconds, batching),
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
