import { describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { type EcsGpuOptions, ecsGpuCompute } from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { containerIn, createScoring, createStack, only, templateOf, workerEnvironmentIn } from '../helpers/stacks.ts';
import { rightsIn } from './policies.ts';

const TASK = 'AWS::ECS::TaskDefinition';
const SERVICE = 'AWS::ECS::Service';
const PROVIDER = 'AWS::ECS::CapacityProvider';
const GROUP = 'AWS::AutoScaling::AutoScalingGroup';

const templateWith = (options: EcsGpuOptions = {}) => templateOf(createScoring({ compute: ecsGpuCompute(options) }));

/** Where the service starts its tasks. */
function providersIn(template: Template): unknown {
  expect(only(template, SERVICE)).not.toHaveProperty('LaunchType');
  return only(template, SERVICE).CapacityProviderStrategy;
}

/** What the policies in a role say, by the names of these. */
function inlineRights(template: Template, roleId: RegExp): Record<string, string[]> {
  const [found] = Object.entries(template.findResources('AWS::IAM::Role')).filter(([id]) => roleId.test(id));
  const policies: { PolicyName: string; PolicyDocument: { Statement: [] } }[] = found?.[1].Properties.Policies ?? [];
  return Object.fromEntries(
    policies.map(({ PolicyName, PolicyDocument }) => [PolicyName, rightsIn(PolicyDocument.Statement)]),
  );
}

const CLUSTER = '<ComputeecsgpuCluster>';
const INSTANCE = `arn:aws:ecs:REGION:ACCOUNT:container-instance/${CLUSTER}/*`;

describe('ecs-gpu on Managed Instances', () => {
  const template = templateWith();

  it('gives a task a GPU by its count, and not by the variable that would show it all devices', () => {
    expect(only(template, TASK)).toMatchObject({
      RequiresCompatibilities: ['MANAGED_INSTANCES'],
      NetworkMode: 'awsvpc',
      Cpu: '3072',
      Memory: '12288',
    });
    expect(containerIn(template).ResourceRequirements).toEqual([{ Type: 'GPU', Value: '1' }]);
    expect(workerEnvironmentIn(template)).not.toHaveProperty('NVIDIA_VISIBLE_DEVICES');
  });

  it('runs on CUDA, and never silently on the CPU', () => {
    const environment = workerEnvironmentIn(template);
    expect(environment[CONFIG_KEYS.providers]).toBe('cuda');
    expect(environment).not.toHaveProperty(CONFIG_KEYS.allowProviderFallback);
  });

  it('takes devices that ONNX Runtime has kernels for, with the memory that is asked for', () => {
    const expected = {
      AcceleratorCount: { Min: 1, Max: 1 },
      AcceleratorManufacturers: ['nvidia'],
      AcceleratorNames: ['t4', 'a10g', 'l4', 'l40s'],
      AcceleratorTotalMemoryMiB: { Min: 14_745 },
      AcceleratorTypes: ['gpu'],
      MemoryMiB: { Min: 12_288 },
      VCpuCount: { Min: 3 },
    };
    expect(launchTemplateIn(template)).toMatchObject({
      InstanceRequirements: expected,
      CapacityOptionType: 'ON_DEMAND',
    });
    const large = { gpuMemory: Size.gibibytes(24), vcpus: 7, memorySize: Size.gibibytes(28), spot: true };
    expect(launchTemplateIn(templateWith(large))).toMatchObject({
      InstanceRequirements: {
        AcceleratorTotalMemoryMiB: { Min: 22_118 },
        MemoryMiB: { Min: 28_672 },
        VCpuCount: { Min: 7 },
      },
      CapacityOptionType: 'SPOT',
    });
  });

  it('takes the instance types that are named, and several devices of one', () => {
    const own = templateWith({ instanceTypes: ['g6.12xlarge'], gpuCount: 4 });
    expect(launchTemplateIn(own)).toMatchObject({ InstanceRequirements: { AllowedInstanceTypes: ['g6.12xlarge'] } });
    expect(containerIn(own).ResourceRequirements).toEqual([{ Type: 'GPU', Value: '4' }]);
  });

  it('starts tasks on them, in private subnets and with a group that lets nothing in', () => {
    const [provider] = Object.keys(template.findResources(PROVIDER));
    expect(providersIn(template)).toEqual([{ CapacityProvider: { Ref: provider }, Weight: 1 }]);
    expect(only(template, SERVICE)).toMatchObject({
      NetworkConfiguration: { AwsvpcConfiguration: { AssignPublicIp: 'DISABLED' } },
    });
    for (const { Properties } of Object.values(template.findResources('AWS::EC2::SecurityGroup'))) {
      expect(Properties).not.toHaveProperty('SecurityGroupIngress');
    }
  });

  it('lets ECS hand only the role of the instances on to them, and the agent work with its own cluster alone', () => {
    expect(inlineRights(template, /Infrastructure/)).toEqual({
      PassInstanceRole: ['iam:PassRole <ComputeecsgpuInstanceRole> if {"StringLike":{"iam:PassedToService":"ec2.*"}}'],
    });
    expect(inlineRights(template, /InstanceRole/)).toEqual({
      Agent: [
        'ecs:DiscoverPollEndpoint *',
        `ecs:Poll ${INSTANCE}`,
        `ecs:PutSystemLogEvents ${INSTANCE}`,
        `ecs:RegisterContainerInstance ${CLUSTER}`,
        `ecs:StartTelemetrySession ${INSTANCE}`,
        `ecs:SubmitAttachmentStateChanges ${CLUSTER}`,
        `ecs:SubmitTaskStateChange ${CLUSTER}`,
      ],
    });
  });
});

describe('ecs-gpu on an Auto Scaling group', () => {
  const template = templateWith({ capacity: 'asg', maximumTasks: 3 });

  it('starts with no instance, has room for old and new tasks, and ends no instance that a task runs on', () => {
    expect(only(template, GROUP)).toMatchObject({ MinSize: '0', MaxSize: '6', NewInstancesProtectedFromScaleIn: true });
    expect(only(template, PROVIDER)).toMatchObject({
      AutoScalingGroupProvider: {
        ManagedTerminationProtection: 'ENABLED',
        ManagedDraining: 'ENABLED',
        ManagedScaling: { Status: 'ENABLED' },
      },
    });
  });

  it('runs on the AMI of ECS for GPUs, on an encrypted disk, with a role that containers cannot get', () => {
    expect(Object.values(template.toJSON().Parameters)).toContainEqual(
      expect.objectContaining({
        Default: '/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended/image_id',
      }),
    );
    expect(only(template, 'AWS::EC2::LaunchTemplate')).toMatchObject({
      LaunchTemplateData: {
        BlockDeviceMappings: [{ Ebs: { Encrypted: true } }],
        MetadataOptions: { HttpTokens: 'required', HttpPutResponseHopLimit: 1 },
      },
    });
  });

  it('lets instances do nothing outside their cluster but ask where to poll', () => {
    const { Agent = [] } = inlineRights(template, /InstanceRole/);
    expect(Agent.filter((right) => !right.includes(CLUSTER))).toEqual(['ecs:DiscoverPollEndpoint *']);
    expect(Agent).toContain(`ecs:UpdateContainerInstancesState ${INSTANCE}`);
    const attached = Object.values(template.findResources('AWS::IAM::Policy')).map(
      ({ Properties }) => Properties.Roles,
    );
    expect(JSON.stringify(attached)).not.toContain('InstanceRole');
  });

  it('has tasks with a GPU in the network of their instance', () => {
    expect(only(template, TASK)).toMatchObject({ RequiresCompatibilities: ['EC2'], NetworkMode: 'bridge' });
    expect(containerIn(template).ResourceRequirements).toEqual([{ Type: 'GPU', Value: '1' }]);
    const [provider] = Object.keys(template.findResources(PROVIDER));
    expect(providersIn(template)).toEqual([{ CapacityProvider: { Ref: provider }, Weight: 1 }]);
  });

  it.each<[string, EcsGpuOptions, string[]]>([
    [
      'by default',
      {},
      [
        'g4dn.xlarge',
        'g4dn.2xlarge',
        'g6.xlarge',
        'g6.2xlarge',
        'g5.xlarge',
        'g5.2xlarge',
        'g6e.xlarge',
        'g6e.2xlarge',
      ],
    ],
    [
      'with much memory',
      { memorySize: Size.gibibytes(28) },
      ['g4dn.2xlarge', 'g6.2xlarge', 'g5.2xlarge', 'g6e.xlarge', 'g6e.2xlarge'],
    ],
    ['with its vCPUs', { vcpus: 6, instanceTypes: ['g6.xlarge', 'g6.2xlarge'] }, ['g6.2xlarge']],
  ])('takes the types that a task fits, on demand: %s', (_, options, types) => {
    expect(only(templateWith({ capacity: 'asg', ...options }), GROUP).MixedInstancesPolicy).toMatchObject({
      InstancesDistribution: { OnDemandPercentageAboveBaseCapacity: 100 },
      LaunchTemplate: { Overrides: types.map((InstanceType) => ({ InstanceType })) },
    });
  });

  it('refuses types that no task fits', () => {
    expect(() => templateWith({ capacity: 'asg', gpuCount: 2, instanceTypes: ['g4dn.xlarge'] })).toThrow(
      'expected an instance that has 3 vCPUs, 12288 MB and 2 GPUs, each with 16 GiB of GPU memory, got only g4dn.xlarge; ' +
        'lower one of these or name a larger instance type',
    );
  });

  it('drains spot instances when their notice comes', () => {
    const spot = templateWith({ capacity: 'asg', spot: true });
    expect(only(spot, GROUP)).toMatchObject({
      MixedInstancesPolicy: { InstancesDistribution: { OnDemandPercentageAboveBaseCapacity: 0 } },
    });
    const userDataIn = (one: Template) => JSON.stringify(only(one, 'AWS::EC2::LaunchTemplate'));
    expect(userDataIn(spot)).toContain('ECS_ENABLE_SPOT_INSTANCE_DRAINING=true');
    expect(userDataIn(template)).not.toContain('ECS_ENABLE_SPOT_INSTANCE_DRAINING');
  });

  it('may run in public subnets, where its instances have an address', () => {
    const stack = createStack();
    const vpc = new Vpc(stack, 'Own', { restrictDefaultSecurityGroup: false });
    const compute = ecsGpuCompute({ capacity: 'asg', vpc, subnets: { subnetType: SubnetType.PUBLIC } });
    const own = templateOf(createScoring({ compute }, stack));
    expect(only(own, 'AWS::EC2::LaunchTemplate')).toMatchObject({
      LaunchTemplateData: { NetworkInterfaces: [{ AssociatePublicIpAddress: true }] },
    });
    expect(only(own, GROUP).VPCZoneIdentifier).toEqual(
      vpc.publicSubnets.map(({ subnetId }) => stack.resolve(subnetId)),
    );
  });
});

function launchTemplateIn(template: Template): unknown {
  const { ManagedInstancesProvider } = only(template, PROVIDER);
  return (ManagedInstancesProvider as { InstanceLaunchTemplate: unknown }).InstanceLaunchTemplate;
}
