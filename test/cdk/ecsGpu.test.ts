import { beforeAll, describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import { Match, type Template } from 'aws-cdk-lib/assertions';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { type EcsGpuOptions, ecsGpuCompute } from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { containerIn, createScoring, createStack, only, templateOf, workerEnvironmentIn } from '../helpers/stacks.ts';
import { policiesOf } from './policies.ts';

const TASK = 'AWS::ECS::TaskDefinition';
const SERVICE = 'AWS::ECS::Service';
const PROVIDER = 'AWS::ECS::CapacityProvider';
const GROUP = 'AWS::AutoScaling::AutoScalingGroup';

const templateWith = (options: EcsGpuOptions = {}) => templateOf(createScoring({ compute: ecsGpuCompute(options) }));

describe('ecs-gpu on Managed Instances', () => {
  let template: Template;
  beforeAll(() => {
    template = templateWith();
  });

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
    expect(requirementsIn(template)).toEqual({
      AcceleratorCount: { Min: 1, Max: 1 },
      AcceleratorManufacturers: ['nvidia'],
      AcceleratorNames: ['t4', 'a10g', 'l4', 'l40s'],
      AcceleratorTotalMemoryMiB: { Min: 14_745 },
      AcceleratorTypes: ['gpu'],
      MemoryMiB: { Min: 12_288 },
      VCpuCount: { Min: 3 },
    });
    const large = requirementsIn(
      templateWith({ gpuMemory: Size.gibibytes(24), vcpus: 7, memorySize: Size.gibibytes(28) }),
    );
    expect(large).toMatchObject({
      AcceleratorTotalMemoryMiB: { Min: 22_118 },
      MemoryMiB: { Min: 28_672 },
      VCpuCount: { Min: 7 },
    });
  });

  it('takes the instance types that are named, and several devices of one', () => {
    const own = templateOf(
      createScoring({
        compute: ecsGpuCompute({ instanceTypes: ['g6.12xlarge'], gpuCount: 4 }),
        prices: { instanceHour: { 'g6.12xlarge': 4.6016 } },
      }),
    );
    expect(requirementsIn(own)).toMatchObject({ AllowedInstanceTypes: ['g6.12xlarge'] });
    expect(containerIn(own).ResourceRequirements).toEqual([{ Type: 'GPU', Value: '4' }]);
  });

  it.each([
    [false, 'ON_DEMAND'],
    [true, 'SPOT'],
  ])('buys them with spot %s: %s', (spot, CapacityOptionType) => {
    expect(launchTemplateIn(templateWith({ spot }))).toMatchObject({ CapacityOptionType });
  });

  it('starts tasks on them, in private subnets and with a group that lets nothing in', () => {
    const [provider] = Object.keys(template.findResources(PROVIDER));
    expect(only(template, SERVICE)).toMatchObject({
      CapacityProviderStrategy: [{ CapacityProvider: { Ref: provider }, Weight: 1 }],
      NetworkConfiguration: { AwsvpcConfiguration: { AssignPublicIp: 'DISABLED' } },
    });
    expect(only(template, SERVICE)).not.toHaveProperty('LaunchType');
    for (const { Properties } of Object.values(template.findResources('AWS::EC2::SecurityGroup'))) {
      expect(Properties).not.toHaveProperty('SecurityGroupIngress');
    }
  });

  it('lets ECS hand only the role of the instances on to them, and the agent work with its own cluster alone', () => {
    const instanceRole = idOf(template, 'InstanceRole');
    const [cluster] = Object.keys(template.findResources('AWS::ECS::Cluster'));
    template.hasResourceProperties('AWS::IAM::Role', {
      AssumeRolePolicyDocument: Match.objectLike({
        Statement: [Match.objectLike({ Principal: { Service: 'ecs.amazonaws.com' } })],
      }),
      Policies: [
        {
          PolicyName: 'PassInstanceRole',
          PolicyDocument: Match.objectLike({
            Statement: [
              Match.objectLike({ Action: 'iam:PassRole', Resource: { 'Fn::GetAtt': [instanceRole, 'Arn'] } }),
            ],
          }),
        },
      ],
    });
    const { Policies } = template.findResources('AWS::IAM::Role')[instanceRole]?.Properties ?? {};
    const [, ...ofCluster] = Policies[0].PolicyDocument.Statement;
    for (const { Resource } of ofCluster) expect(JSON.stringify(Resource)).toContain(cluster);
  });
});

describe('ecs-gpu on an Auto Scaling group', () => {
  let template: Template;
  beforeAll(() => {
    template = templateWith({ capacity: 'asg', maximumTasks: 3 });
  });

  it('starts with no instance, and has room for old and new tasks', () => {
    expect(only(template, GROUP)).toMatchObject({ MinSize: '0', MaxSize: '6', NewInstancesProtectedFromScaleIn: true });
  });

  it('ends no instance that a task runs on, and drains it before', () => {
    expect(only(template, PROVIDER)).toMatchObject({
      AutoScalingGroupProvider: {
        ManagedTerminationProtection: 'ENABLED',
        ManagedDraining: 'ENABLED',
        ManagedScaling: { Status: 'ENABLED' },
      },
    });
  });

  it('runs on the AMI of ECS for GPUs, on an encrypted disk, with a role that containers cannot get', () => {
    const parameters = Object.values(template.toJSON().Parameters) as { Default?: string }[];
    expect(parameters.map(({ Default }) => Default)).toContain(
      '/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended/image_id',
    );
    expect(only(template, 'AWS::EC2::LaunchTemplate')).toMatchObject({
      LaunchTemplateData: {
        BlockDeviceMappings: [{ Ebs: { Encrypted: true } }],
        MetadataOptions: { HttpTokens: 'required', HttpPutResponseHopLimit: 1 },
      },
    });
  });

  it('lets instances do nothing outside their cluster but ask where to poll', () => {
    const { Policies = [] } =
      template.findResources('AWS::IAM::Role')[idOf(template, 'InstanceRole')]?.Properties ?? {};
    const [discover, ...ofCluster] = Policies[0].PolicyDocument.Statement;
    expect(discover).toMatchObject({ Action: 'ecs:DiscoverPollEndpoint', Resource: '*' });
    const [cluster] = Object.keys(template.findResources('AWS::ECS::Cluster'));
    for (const { Resource } of ofCluster) expect(JSON.stringify(Resource)).toContain(cluster);
    expect(JSON.stringify(ofCluster)).toContain('ecs:UpdateContainerInstancesState');
    expect(policiesOf(template, 'InstanceRole')).toEqual([]);
  });

  it('has tasks with a GPU in the network of their instance', () => {
    expect(only(template, TASK)).toMatchObject({ RequiresCompatibilities: ['EC2'], NetworkMode: 'bridge' });
    expect(containerIn(template).ResourceRequirements).toEqual([{ Type: 'GPU', Value: '1' }]);
    const [provider] = Object.keys(template.findResources(PROVIDER));
    expect(only(template, SERVICE)).toMatchObject({
      CapacityProviderStrategy: [{ CapacityProvider: { Ref: provider }, Weight: 1 }],
    });
  });

  it('takes the types that a task fits, on demand', () => {
    const types = ['g4dn.xlarge', 'g4dn.2xlarge', 'g6.xlarge', 'g6.2xlarge', 'g5.xlarge', 'g5.2xlarge', 'g6e.xlarge'];
    expect(policyIn(template)).toMatchObject({
      InstancesDistribution: { OnDemandPercentageAboveBaseCapacity: 100 },
      LaunchTemplate: { Overrides: [...types, 'g6e.2xlarge'].map((InstanceType) => ({ InstanceType })) },
    });
    const large = templateWith({ capacity: 'asg', memorySize: Size.gibibytes(28) });
    expect(policyIn(large)).toMatchObject({
      LaunchTemplate: {
        Overrides: ['g4dn.2xlarge', 'g6.2xlarge', 'g5.2xlarge', 'g6e.xlarge', 'g6e.2xlarge'].map((InstanceType) => ({
          InstanceType,
        })),
      },
    });
  });

  it('takes types alone that a task fits with its vCPUs and its devices', () => {
    const overridesOf = (options: EcsGpuOptions) => {
      const { MixedInstancesPolicy } = only(templateWith({ capacity: 'asg', ...options }), GROUP);
      const { LaunchTemplate } = MixedInstancesPolicy as { LaunchTemplate: { Overrides: { InstanceType: string }[] } };
      return LaunchTemplate.Overrides.map(({ InstanceType }) => InstanceType);
    };
    expect(overridesOf({ vcpus: 6, instanceTypes: ['g6.xlarge', 'g6.2xlarge'] })).toEqual(['g6.2xlarge']);
    expect(() => templateWith({ gpuCount: 2, instanceTypes: ['g4dn.xlarge'] })).toThrow(
      'expected an instance that has 3 vCPUs, 12288 MB and 2 GPUs, each with 16 GiB of GPU memory, got only g4dn.xlarge; ' +
        'lower one of these or name a larger instance type',
    );
  });

  it('drains spot instances when their notice comes', () => {
    const spot = templateWith({ capacity: 'asg', spot: true });
    expect(policyIn(spot)).toMatchObject({ InstancesDistribution: { OnDemandPercentageAboveBaseCapacity: 0 } });
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
    expect(only(own, GROUP)).toMatchObject({
      VPCZoneIdentifier: vpc.publicSubnets.map(({ subnetId }) => stack.resolve(subnetId)),
    });
  });
});

function launchTemplateIn(template: Template): Record<string, unknown> {
  const { ManagedInstancesProvider } = only(template, PROVIDER);
  return (ManagedInstancesProvider as { InstanceLaunchTemplate: Record<string, unknown> }).InstanceLaunchTemplate;
}

function requirementsIn(template: Template): unknown {
  return launchTemplateIn(template).InstanceRequirements;
}

function policyIn(template: Template): unknown {
  return only(template, GROUP).MixedInstancesPolicy;
}

function idOf(template: Template, part: string): string {
  const found = Object.keys(template.findResources('AWS::IAM::Role')).filter((id) => id.includes(part));
  if (found.length !== 1) throw new Error(`expected one role with ${part}, got ${found.length}`);
  return found[0] ?? '';
}
