import type { Size } from 'aws-cdk-lib';
import { type Cluster, Ec2Service, FargateService } from 'aws-cdk-lib/aws-ecs';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { gibibytesOf, mebibytesOf } from '../base/units.ts';
import { type GpuCapacity, gpuTaskProblems } from '../checks/gpuTask.ts';
import { networkProblems } from '../checks/network.ts';
import { serviceProblems } from '../checks/service.ts';
import type { ComputeForm, Wiring } from '../compute/compute.ts';
import { instanceTypesFor } from '../compute/gpuInstances.ts';
import { createPrivateNetwork, type Network } from '../compute/privateNetwork.ts';
import { addAutoScalingGroup } from './autoScalingGroup.ts';
import { createCluster } from './cluster.ts';
import { ENDPOINTS_OF_INSTANCES } from './endpoints.ts';
import { addManagedInstances } from './managedInstances.ts';
import { deploymentOf, isPublic, type ServiceCompute, toCompute, wakeSecondsOf } from './service.ts';
import { gpuTaskHour } from './serviceCost.ts';
import { type ServiceOptions, serviceDefaults } from './serviceOptions.ts';
import { createTask, type Task } from './task.ts';
import { leastWorkerVisibility } from './visibility.ts';

export interface EcsGpuOptions extends ServiceOptions {
  /**
   * What tasks run on: instances that ECS manages, for 15 % of their price, or those of an Auto Scaling group of your own.
   * @default 'managed-instances'
   */
  readonly capacity?: GpuCapacity;
  /** The processor; a GPU comes only with x86_64. @default Architecture.X86_64 */
  readonly architecture?: Architecture;
  /** vCPUs of a task. @default 3: a g4dn.xlarge has four */
  readonly vcpus?: number;
  /** Memory of a task besides the GPU's. @default 12 GiB: a g4dn.xlarge has 16 */
  readonly memorySize?: Size;
  /** GPUs of a task; more than one need `instanceTypes`. @default 1 */
  readonly gpuCount?: number;
  /** The least memory of each GPU. @default 16 GiB */
  readonly gpuMemory?: Size;
  /** EC2 instance types that may be used. @default those of g4dn, g5, g6 and g6e that a task fits */
  readonly instanceTypes?: readonly string[];
}

/** An instance is started, the image fetched, and models are loaded. */
const START_SECONDS = 600;

/** A service of workers with GPUs, from a container image. */
export function ecsGpuCompute(options: EcsGpuOptions = {}): ComputeForm<ServiceCompute> {
  const settings = withDefaults(options);
  const { architecture, timeoutSeconds } = settings;
  return {
    kind: 'ecs-gpu',
    feed: 'worker',
    imageTarget: { stage: 'worker-gpu', architecture, cards: settings.gpuCount },
    providers: 'cuda',
    timeoutSeconds,
    wakeSeconds: wakeSecondsOf(settings, START_SECONDS),
    problems: (batching) => [
      ...serviceProblems(settings, batching),
      ...gpuTaskProblems(settings),
      ...networkProblems(options),
    ],
    leastVisibility: (batching) => leastWorkerVisibility(timeoutSeconds, batching),
    create(scope, wiring) {
      const network = createPrivateNetwork(scope, settings, wiring, ENDPOINTS_OF_INSTANCES);
      const cluster = createCluster(scope, network.vpc, { onFargate: false, encryptionKey: wiring.encryptionKey });
      const task = createTask(scope, cluster, { ...settings, launch: settings.capacity }, wiring);
      const create = settings.capacity === 'asg' ? createOnGroup : createOnManagedInstances;
      const service = create(scope, { cluster, network, task }, settings, wiring);
      const taskHour = gpuTaskHour(settings, wiring.prices);
      const scaling = { ...settings, startSeconds: START_SECONDS, taskHour };
      return { ...toCompute(scope, { network, cluster, service, task }, scaling, wiring), measuresGpus: true };
    },
  };
}

type Settings = ReturnType<typeof withDefaults>;

function withDefaults(options: EcsGpuOptions) {
  const defaults = serviceDefaults(options);
  return {
    ...defaults,
    capacity: options.capacity ?? ('managed-instances' as const),
    architecture: options.architecture ?? Architecture.X86_64,
    vcpus: options.vcpus ?? 3,
    memoryMb: mebibytesOf('memoryMb', options.memorySize) ?? 12_288,
    gpuCount: options.gpuCount ?? 1,
    gpuMemoryGiB: gibibytesOf('gpuMemoryGiB', options.gpuMemory) ?? 16,
    instanceTypes: options.instanceTypes,
    isPublic: isPublic(defaults),
  };
}

interface Parts {
  readonly cluster: Cluster;
  readonly network: Network;
  readonly task: Task;
}

/** Managed Instances take services of the kind that Fargate has. */
function createOnManagedInstances(
  scope: Construct,
  { cluster, network, task }: Parts,
  settings: Settings,
  wiring: Wiring,
): FargateService {
  const { capacityProviderName } = addManagedInstances(scope, cluster, network, settings);
  return new FargateService(scope, 'Service', {
    ...deploymentOf(wiring),
    cluster,
    taskDefinition: task.definition,
    vpcSubnets: { subnets: network.subnets },
    securityGroups: [network.securityGroup],
    capacityProviderStrategies: [{ capacityProvider: capacityProviderName, weight: 1 }],
  });
}

function createOnGroup(
  scope: Construct,
  { cluster, network, task }: Parts,
  settings: Settings,
  wiring: Wiring,
): Ec2Service {
  const instanceTypes = instanceTypesFor(settings, wiring.prices);
  const { capacityProviderName } = addAutoScalingGroup(scope, cluster, network, { ...settings, instanceTypes });
  return new Ec2Service(scope, 'Service', {
    ...deploymentOf(wiring),
    cluster,
    taskDefinition: task.definition,
    capacityProviderStrategies: [{ capacityProvider: capacityProviderName, weight: 1 }],
  });
}
