import {
  AcceleratorManufacturer,
  AcceleratorName,
  AcceleratorType,
  type InstanceRequirementsConfig,
} from 'aws-cdk-lib/aws-ec2';
import {
  CapacityOptionType,
  type Cluster,
  Compatibility,
  ManagedInstancesCapacityProvider,
  PropagateManagedInstancesTags,
} from 'aws-cdk-lib/aws-ecs';
import {
  InstanceProfile,
  ManagedPolicy,
  PolicyDocument,
  PolicyStatement,
  Role,
  ServicePrincipal,
} from 'aws-cdk-lib/aws-iam';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { Size, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { acknowledgeManagedPolicy, acknowledgeWildcard } from '../common/nag.ts';
import { outside, unknownAtSynth } from '../common/problems.ts';
import { gibibytesOf, MIB_PER_GIB, mebibytesOf } from '../common/units.ts';
import { instanceProblems } from '../image/containerImage.ts';
import type { ComputeForm } from './compute.ts';
import { ENDPOINTS_OF_INSTANCES, type Network, networkProblems } from './privateNetwork.ts';
import { type ServiceOptions, serviceDefaults, serviceProblems } from './serviceOptions.ts';
import { type ServiceCompute, workerForm } from './workerService.ts';

export interface EcsGpuOptions extends ServiceOptions {
  /** vCPUs of a task. @default 3: a g4dn.xlarge has four */
  readonly vcpus?: number;
  /** Memory of a task, without the GPU's, not compared with `instanceTypes`. @default 12 GiB: a g4dn.xlarge has 16 */
  readonly memorySize?: Size;
  /** GPUs of a task. More than one require `instanceTypes`. @default 1 */
  readonly gpuCount?: number;
  /** Minimum memory of each GPU. @default 16 GiB */
  readonly gpuMemory?: Size;
  /** Allowed EC2 instance types. @default those of g4dn, g5, g6 and g6e that a task fits */
  readonly instanceTypes?: readonly string[];
}

/** Seconds between the notice of a spot interruption and the end of the task. */
const SPOT_NOTICE_SECONDS = 120;

/** Estimated seconds to start an instance, fetch the image and load the models. */
const GPU_START_SECONDS = 600;

/**
 * Returns compute that is a service of workers with GPUs, on instances that ECS manages.
 *
 * @experimental It has not run on AWS
 */
export function ecsGpuCompute(options: EcsGpuOptions = {}): ComputeForm<ServiceCompute> {
  const { vcpus = 3, gpuCount = 1, gpuMemory, instanceTypes } = options;
  const memoryMb = mebibytesOf('memorySize', options.memorySize) ?? 12_288;
  const gpuMemoryGiB = gibibytesOf('gpuMemory', gpuMemory) ?? 16;
  const architecture = Architecture.X86_64;
  const startSeconds = GPU_START_SECONDS;
  const settings = { ...serviceDefaults(options), startSeconds, architecture, vcpus, memoryMb, gpuCount };
  const maxStopSeconds = settings.spot ? SPOT_NOTICE_SECONDS : Number.POSITIVE_INFINITY;
  return {
    ...workerForm(settings, {
      compatibility: Compatibility.MANAGED_INSTANCES,
      endpoints: ENDPOINTS_OF_INSTANCES,
      capacityOf: (scope, cluster, network) =>
        addManagedInstances(scope, cluster, network, settings.spot, {
          vCpuCountMin: vcpus,
          memoryMin: Size.mebibytes(memoryMb),
          ...(instanceTypes ? { allowedInstanceTypes: [...instanceTypes] } : withGpus(gpuCount, gpuMemoryGiB)),
        }),
    }),
    kind: 'ecs-gpu',
    imageTarget: { stage: 'worker-gpu', architecture, devices: gpuCount, room: { memoryMb } },
    problems: (batching) => [
      ...serviceProblems(settings, batching, maxStopSeconds),
      unknownAtSynth('vcpus', vcpus),
      unknownAtSynth('gpuCount', gpuCount),
      outside('gpuCount', gpuCount, { min: 1, max: 8 }),
      ...instanceProblems(instanceTypes, gpuMemory ? gpuMemoryGiB : 0, vcpus),
      ...networkProblems(options, 'tasks on Managed Instances'),
      outside('gpuMemory', gpuMemoryGiB, { min: 1, max: 1024 }, 'GiB'),
      outside('vcpus', vcpus, { min: 1, max: instanceTypes ? 192 : MOST_VCPUS }),
      outside('memorySize', memoryMb, { min: 1024, max: 2_097_152 }, 'MiB'),
      gpuCount > 1 &&
        (instanceTypes ?? ['']).every((type) => mostGpusOf(type) < gpuCount) &&
        `instanceTypes: expected one with ${gpuCount} GPUs, because a task has all of its GPUs from one instance, got ` +
          `${instanceTypes?.join(', ') ?? 'none, and those that are taken otherwise have one'}; name types with so many GPUs, such as ` +
          'g5.12xlarge with 4, or lower gpuCount',
    ],
  };
}

/** vCPUs of the largest instance with one GPU, such as g6.16xlarge. */
const MOST_VCPUS = 64;

/** Returns the GPUs that an instance type has at most, by its size, in all families of `instanceProblems`. */
function mostGpusOf(type: string): number {
  if (type === '' || /\.(x|2x|4x|8x|16x)large$/.test(type)) return 1;
  return /^g.*\.(12|24)xlarge$/.test(type) ? 4 : 8;
}

const MANAGED_POLICY = 'AmazonECSInfrastructureRolePolicyForManagedInstances';

/** Adds instances with GPUs. ECS chooses them, starts them for tasks that need one, and ends them if there are none. */
function addManagedInstances(
  scope: Construct,
  cluster: Cluster,
  { subnets, securityGroup }: Network,
  isSpot: boolean,
  instanceRequirements: InstanceRequirementsConfig,
): string {
  const instanceRole = createInstanceRole(scope, cluster);
  const provider = new ManagedInstancesCapacityProvider(scope, 'Capacity', {
    subnets,
    securityGroups: [securityGroup],
    infrastructureRole: createInfrastructureRole(scope, instanceRole),
    ec2InstanceProfile: new InstanceProfile(scope, 'InstanceProfile', { role: instanceRole }),
    instanceRequirements,
    propagateTags: PropagateManagedInstancesTags.CAPACITY_PROVIDER,
    capacityOptionType: isSpot ? CapacityOptionType.SPOT : CapacityOptionType.ON_DEMAND,
  });
  cluster.addManagedInstancesCapacityProvider(provider);
  return provider.capacityProviderName;
}

/** Accelerators that ONNX Runtime has kernels for, without the expensive ones for training. */
const ACCELERATORS = [AcceleratorName.T4, AcceleratorName.A10G, AcceleratorName.L4, AcceleratorName.L40S];

/** Share of a GPU's nominal memory that EC2 reports: 22,888 MiB for an L4 of 24 GB. */
const REPORTED_SHARE = 0.9;

/** Returns the requirement of GPUs like these. */
function withGpus(count: number, gibOfEach: number): Partial<InstanceRequirementsConfig> {
  return {
    acceleratorTypes: [AcceleratorType.GPU],
    acceleratorManufacturers: [AcceleratorManufacturer.NVIDIA],
    acceleratorNames: ACCELERATORS,
    acceleratorCountMin: count,
    acceleratorCountMax: count,
    acceleratorTotalMemoryMin: Size.mebibytes(Math.floor(count * gibOfEach * MIB_PER_GIB * REPORTED_SHARE)),
  };
}

/** Creates the role that lets ECS start and terminate instances. It may pass the instances' role to them. */
function createInfrastructureRole(scope: Construct, instanceRole: Role): Role {
  // The managed policy allows only a role of a certain name, which all regions of the account would share.
  const passRole = new PolicyStatement({
    actions: ['iam:PassRole'],
    resources: [instanceRole.roleArn],
    conditions: { StringLike: { 'iam:PassedToService': 'ec2.*' } },
  });
  const role = new Role(scope, 'Infrastructure', {
    assumedBy: new ServicePrincipal('ecs.amazonaws.com'),
    description: 'Lets ECS manage the GPU instances',
    managedPolicies: [ManagedPolicy.fromAwsManagedPolicyName(MANAGED_POLICY)],
    inlinePolicies: { PassInstanceRole: new PolicyDocument({ statements: [passRole] }) },
  });
  acknowledgeManagedPolicy(role, MANAGED_POLICY, 'ECS needs to manage EC2 instances');
  return role;
}

/**
 * Creates the role of the ECS agent on an instance, for its own cluster only. The task's execution role pulls images
 * and writes logs.
 *
 * @see https://docs.aws.amazon.com/AmazonECS/latest/developerguide/managed-instances-instance-profile.html
 */
function createInstanceRole(scope: Construct, cluster: Cluster): Role {
  const instances = Stack.of(scope).formatArn({
    service: 'ecs',
    resource: 'container-instance',
    resourceName: `${cluster.clusterName}/*`,
  });
  const ofCluster = ['ecs:RegisterContainerInstance', 'ecs:SubmitAttachmentStateChanges', 'ecs:SubmitTaskStateChange'];
  const ofInstances = ['ecs:Poll', 'ecs:StartTelemetrySession', 'ecs:PutSystemLogEvents'];
  const role = new Role(scope, 'InstanceRole', {
    assumedBy: new ServicePrincipal('ec2.amazonaws.com'),
    description: 'GPU instances: they register with ECS and run its tasks',
    inlinePolicies: {
      Agent: new PolicyDocument({
        statements: [
          new PolicyStatement({ actions: ['ecs:DiscoverPollEndpoint'], resources: ['*'] }),
          new PolicyStatement({ actions: ofCluster, resources: [cluster.clusterArn] }),
          new PolicyStatement({ actions: ofInstances, resources: [instances] }),
        ],
      }),
    },
  });
  acknowledgeWildcard(role, '*', 'pollEndpoint');
  acknowledgeWildcard(role, instances, 'instances');
  return role;
}
