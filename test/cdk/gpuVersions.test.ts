import { describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import type { Construct } from 'constructs';
import { BatchScoring, type LambdaGpuOptions, lambdaGpuCompute } from '../../infra/index.ts';
import { createStack, imageOf, templateOf } from '../helpers/stacks.ts';

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
