import { Size, Stack, Validations } from 'aws-cdk-lib';
import {
  AcceleratorManufacturer,
  AcceleratorName,
  AcceleratorType,
  type InstanceRequirementsConfig,
} from 'aws-cdk-lib/aws-ec2';
import { CapacityOptionType, type Cluster, ManagedInstancesCapacityProvider } from 'aws-cdk-lib/aws-ecs';
import {
  InstanceProfile,
  ManagedPolicy,
  PolicyDocument,
  PolicyStatement,
  Role,
  ServicePrincipal,
} from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { acknowledgeWildcard } from '../base/acknowledge.ts';
import type { Network } from '../compute/privateNetwork.ts';

export interface ManagedInstancesSettings {
  readonly gpuCount: number;
  readonly gpuMemoryGiB: number;
  readonly vcpus: number;
  readonly memoryMb: number;
  readonly instanceTypes: readonly string[] | undefined;
  readonly spot: boolean;
}

const MANAGED_POLICY = 'AmazonECSInfrastructureRolePolicyForManagedInstances';

/** Instances with GPUs, which ECS chooses, starts for tasks that need one, and ends when there are none. */
export function addManagedInstances(
  scope: Construct,
  cluster: Cluster,
  { subnets, securityGroup }: Network,
  settings: ManagedInstancesSettings,
): ManagedInstancesCapacityProvider {
  const instanceRole = createInstanceRole(scope, cluster);
  const provider = new ManagedInstancesCapacityProvider(scope, 'Capacity', {
    subnets,
    securityGroups: [securityGroup],
    infrastructureRole: createInfrastructureRole(scope, instanceRole),
    ec2InstanceProfile: new InstanceProfile(scope, 'InstanceProfile', { role: instanceRole }),
    instanceRequirements: requirementsOf(settings),
    capacityOptionType: settings.spot ? CapacityOptionType.SPOT : CapacityOptionType.ON_DEMAND,
  });
  cluster.addManagedInstancesCapacityProvider(provider);
  return provider;
}

/** Those that ONNX Runtime has kernels for, and that are not priced for training. */
const CARDS = [AcceleratorName.T4, AcceleratorName.A10G, AcceleratorName.L4, AcceleratorName.L40S];

/** EC2 reports less memory than cards are named after: 22,888 MiB for an L4 of 24 GB. */
const REPORTED_SHARE = 0.9;
const MIB_PER_GIB = 1024;

function requirementsOf(settings: ManagedInstancesSettings): InstanceRequirementsConfig {
  const { gpuCount, gpuMemoryGiB, vcpus, memoryMb, instanceTypes } = settings;
  const least = { vCpuCountMin: vcpus, memoryMin: Size.mebibytes(memoryMb) };
  if (instanceTypes !== undefined) return { ...least, allowedInstanceTypes: [...instanceTypes] };
  return {
    ...least,
    acceleratorTypes: [AcceleratorType.GPU],
    acceleratorManufacturers: [AcceleratorManufacturer.NVIDIA],
    acceleratorNames: CARDS,
    acceleratorCountMin: gpuCount,
    acceleratorCountMax: gpuCount,
    acceleratorTotalMemoryMin: Size.mebibytes(Math.floor(gpuCount * gpuMemoryGiB * MIB_PER_GIB * REPORTED_SHARE)),
  };
}

/** The role with which ECS starts and terminates instances. It may hand the role of the instances on to them. */
function createInfrastructureRole(scope: Construct, instanceRole: Role): Role {
  // The managed policy knows roles of a certain name alone, and a name would be shared by all regions of the account.
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
  Validations.of(role).acknowledge({
    id: `AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/${MANAGED_POLICY}]`,
    reason: 'AWS maintains the permissions that ECS needs to manage EC2 instances; they change with the service',
  });
  return role;
}

/**
 * What the agent on an instance does, with its own cluster alone.
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
  acknowledgeWildcard(role, '*', 'The address to poll is asked for before an instance is part of a cluster');
  acknowledgeWildcard(role, instances, 'Instances get their names when they register; the cluster has no others');
  return role;
}
