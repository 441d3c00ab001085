import { describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { CapacityProvider } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { BatchScoring, type LambdaGpuOptions, lambdaGpuCompute } from '../../infra/index.ts';
import { createStack, imageOf, SCORING, templateOf } from '../helpers/stacks.ts';

const NAME = 'gpus-of-the-team';

/** Two deployments in one stack: the second on the provider of the first, or both on a given one. */
function createTwo(given?: (scope: Construct) => LambdaGpuOptions) {
  const stack = createStack();
  const image = imageOf(stack);
  const options = given?.(stack);
  const first = new BatchScoring(stack, 'First', { image, compute: lambdaGpuCompute(options) });
  const { capacityProvider } = first.compute;
  const second = new BatchScoring(stack, 'Second', {
    image,
    compute: lambdaGpuCompute({ capacityProvider, gpuMemory: Size.gibibytes(3), maximumEnvironments: 7 }),
  });
  return { stack, first, second, template: templateOf(first) };
}

const importProvider = (scope: Construct): LambdaGpuOptions => ({
  capacityProvider: CapacityProvider.fromCapacityProviderName(scope, 'Given', NAME),
});

function providersOf({ template }: ReturnType<typeof createTwo>): unknown[] {
  const functions = Object.values(template.findResources('AWS::Lambda::Function', { Properties: SCORING }));
  return functions.map(({ Properties }) => {
    const { CapacityProviderArn, ...rest } =
      Properties.CapacityProviderConfig.LambdaManagedInstancesCapacityProviderConfig;
    expect(rest).toEqual({ PerExecutionEnvironmentMaxConcurrency: 1, ExecutionEnvironmentMemoryGiBPerVCpu: 4 });
    expect(Properties.PublishToLatestPublished).toBe(false);
    return CapacityProviderArn;
  });
}

describe('two deployments on GPUs', () => {
  it('share the instances of the first', () => {
    const two = createTwo();
    const provider = two.stack.resolve(two.first.compute.capacityProvider.capacityProviderArn);
    expect(providersOf(two)).toEqual([provider, provider]);
    expect(two.second.compute.capacityProvider).toBe(two.first.compute.capacityProvider);
    for (const type of ['AWS::Lambda::CapacityProvider', 'AWS::EC2::VPC']) two.template.resourceCountIs(type, 1);
  });

  it('share those of a provider that exists, and create neither network nor a role for instances', () => {
    const two = createTwo(importProvider);
    const arn = { 'Fn::Join': ['', expect.arrayContaining([`:capacity-provider:${NAME}`])] };
    expect(providersOf(two)).toEqual([arn, arn]);
    for (const type of ['AWS::Lambda::CapacityProvider', 'AWS::EC2::VPC', 'AWS::EC2::SecurityGroup']) {
      two.template.resourceCountIs(type, 0);
    }
    expect(Object.keys(two.template.findResources('AWS::IAM::Role')).filter((id) => id.includes('Operator'))).toEqual(
      [],
    );
    two.template.resourceCountIs('AWS::Logs::LogGroup', 2);
  });
});

describe('a given provider', () => {
  it('is the whole of what instances are: type and network besides it are refused at once', () => {
    const stack = createStack();
    const vpc = new Vpc(stack, 'Network');
    const compute = lambdaGpuCompute({
      ...importProvider(stack),
      instanceTypes: ['g6.xlarge'],
      vpc,
      subnets: { subnetType: SubnetType.PRIVATE_WITH_EGRESS },
    });
    expect(() => new BatchScoring(stack, 'Scoring', { image: imageOf(stack), compute })).toThrow(
      'Test/Scoring: capacityProvider: expected without what is its own, the instance types and their network, ' +
        'got it with instanceTypes, vpc, subnets; leave out one or the other',
    );
  });
});

describe('the published version of a function on GPUs', () => {
  const versionOf = (options: (scope: Construct) => LambdaGpuOptions): string => {
    const stack = createStack();
    const compute = lambdaGpuCompute(options(stack));
    const template = templateOf(new BatchScoring(stack, 'Scoring', { image: imageOf(stack), compute }));
    return Object.keys(template.findResources('AWS::Lambda::Version')).join();
  };

  it.each<[string, (scope: Construct) => LambdaGpuOptions]>([
    ['another GPU', () => ({ gpuMemory: Size.gibibytes(12) })],
    ['instance types', () => ({ instanceTypes: ['g6.xlarge'] })],
    ['a network', (scope) => ({ vpc: new Vpc(scope, 'Vpc', { natGateways: 1 }) })],
  ])('is a new one with %s, for which the capacity provider may be another', (_, options) => {
    expect(versionOf(options)).not.toBe(versionOf(() => ({})));
    expect(versionOf(options)).toBe(versionOf(options));
  });
});
