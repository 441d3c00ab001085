import { describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { type EcsGpuOptions, ecsGpuCompute } from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { containerIn, createScoring, only, templateOf, workerEnvironmentIn } from '../helpers/stacks.ts';
import { rightsIn } from './policies.ts';

const TASK = 'AWS::ECS::TaskDefinition';
const SERVICE = 'AWS::ECS::Service';
const PROVIDER = 'AWS::ECS::CapacityProvider';

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

function launchTemplateIn(template: Template): unknown {
  const { ManagedInstancesProvider } = only(template, PROVIDER);
  return (ManagedInstancesProvider as { InstanceLaunchTemplate: unknown }).InstanceLaunchTemplate;
}
