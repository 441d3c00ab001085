import { Size, Validations } from 'aws-cdk-lib';
import { AutoScalingGroup, OnDemandAllocationStrategy, SpotAllocationStrategy } from 'aws-cdk-lib/aws-autoscaling';
import { BlockDeviceVolume, EbsDeviceVolumeType, InstanceType, LaunchTemplate, UserData } from 'aws-cdk-lib/aws-ec2';
import { AmiHardwareType, AsgCapacityProvider, type Cluster, EcsOptimizedImage } from 'aws-cdk-lib/aws-ecs';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { acknowledgeActions, acknowledgeStandards, acknowledgeWildcard } from '../base/acknowledge.ts';
import type { Network } from '../compute/privateNetwork.ts';

export interface GroupSettings {
  /** Each of which a task fits on, alone. */
  readonly instanceTypes: readonly string[];
  readonly maximumTasks: number;
  readonly spot: boolean;
  readonly isPublic: boolean;
}

/** The AMI with driver and libraries, the image with CUDA, unpacked, and models that are fetched. */
const DISK = Size.gibibytes(100);

/** Instances with GPUs in an Auto Scaling group: as many as tasks need, none without tasks. */
export function addAutoScalingGroup(
  scope: Construct,
  cluster: Cluster,
  network: Network,
  settings: GroupSettings,
): AsgCapacityProvider {
  const autoScalingGroup = createGroup(scope, network, settings);
  const provider = new AsgCapacityProvider(scope, 'Capacity', {
    autoScalingGroup,
    enableManagedTerminationProtection: true,
    enableManagedDraining: true,
  });
  cluster.addAsgCapacityProvider(provider);
  return provider;
}

function createGroup(scope: Construct, network: Network, settings: GroupSettings): AutoScalingGroup {
  const { instanceTypes, maximumTasks, spot } = settings;
  const group = new AutoScalingGroup(scope, 'Group', {
    vpc: network.vpc,
    vpcSubnets: { subnets: network.subnets },
    minCapacity: 0,
    // While a new version takes over, there are twice as many tasks.
    maxCapacity: 2 * maximumTasks,
    mixedInstancesPolicy: {
      launchTemplate: createLaunchTemplate(scope, network, settings),
      launchTemplateOverrides: instanceTypes.map((type) => ({ instanceType: new InstanceType(type) })),
      instancesDistribution: {
        onDemandPercentageAboveBaseCapacity: spot ? 0 : 100,
        onDemandAllocationStrategy: OnDemandAllocationStrategy.LOWEST_PRICE,
        spotAllocationStrategy: SpotAllocationStrategy.PRICE_CAPACITY_OPTIMIZED,
      },
    },
  });
  Validations.of(group).acknowledge({
    id: 'AwsSolutions-EC26',
    reason: 'The disk of the launch template is encrypted, which the rule does not see where types are mixed',
  });
  acknowledgeStandards(
    group,
    'EC2IMDSv2Enabled',
    'The launch template requires it, which the rule does not see where types are mixed',
  );
  Validations.of(group).acknowledge({
    id: 'AwsSolutions-AS3',
    reason: 'Instances come and go with the backlog; the alarm on a backlog without a task tells when none comes',
  });
  return group;
}

function createLaunchTemplate(scope: Construct, { securityGroup }: Network, settings: GroupSettings): LaunchTemplate {
  const userData = UserData.forLinux();
  // ECS sets it by itself only where the group has a spot price.
  if (settings.spot) userData.addCommands('echo ECS_ENABLE_SPOT_INSTANCE_DRAINING=true >> /etc/ecs/ecs.config');
  return new LaunchTemplate(scope, 'LaunchTemplate', {
    machineImage: EcsOptimizedImage.amazonLinux2023(AmiHardwareType.GPU),
    userData,
    role: createInstanceRole(scope),
    securityGroup,
    // One hop: a container, which is one further, cannot get the role of the instance.
    requireImdsv2: true,
    httpPutResponseHopLimit: 1,
    blockDevices: [
      {
        deviceName: '/dev/xvda',
        volume: BlockDeviceVolume.ebs(DISK.toGibibytes(), { encrypted: true, volumeType: EbsDeviceVolumeType.GP3 }),
      },
    ],
    ...(settings.isPublic && { associatePublicIpAddress: true }),
  });
}

function createInstanceRole(scope: Construct): Role {
  const role = new Role(scope, 'InstanceRole', {
    assumedBy: new ServicePrincipal('ec2.amazonaws.com'),
    description: 'GPU instances: they register with ECS and run its tasks',
  });
  acknowledgeWildcard(role, '*', 'The CDK lets the agent poll ECS, log in at ECR and log: these know no resources');
  acknowledgeActions(role, ['ecs:Submit*'], 'These are variants of one action, on one cluster');
  return role;
}
