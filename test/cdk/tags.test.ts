import { describe, expect, it } from '@jest/globals';
import { Tags } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { type Compute, type ComputeForm, ecsCompute, ecsGpuCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { createScoring, only, templateOf } from '../helpers/stacks.ts';

const TAGS = [{ Key: 'team', Value: 'risk' }];

/** Of a deployment whose team pays for it. */
function taggedTemplate(compute: ComputeForm<Compute>): Template {
  const scoring = createScoring({ compute });
  Tags.of(scoring).add('team', 'risk');
  return templateOf(scoring);
}

describe('tags of a deployment reach what its compute is billed for', () => {
  it.each([
    ['Fargate', ecsCompute()],
    ['Managed Instances', ecsGpuCompute()],
  ])('tasks on %s', (_, compute) => {
    expect(only(taggedTemplate(compute), 'AWS::ECS::Service')).toMatchObject({ PropagateTags: 'SERVICE', Tags: TAGS });
  });

  it('instances that ECS manages', () => {
    expect(only(taggedTemplate(ecsGpuCompute()), 'AWS::ECS::CapacityProvider')).toMatchObject({
      ManagedInstancesProvider: { PropagateTags: 'CAPACITY_PROVIDER' },
      Tags: TAGS,
    });
  });

  it('instances that Lambda manages; without tags nothing is said of them', () => {
    const PROVIDER = 'AWS::Lambda::CapacityProvider';
    expect(only(taggedTemplate(lambdaGpuCompute()), PROVIDER)).toMatchObject({
      PropagateTags: { Mode: 'Explicit', ExplicitTags: TAGS },
      Tags: TAGS,
    });
    const untagged = templateOf(createScoring<Compute>({ compute: lambdaGpuCompute() }));
    expect(only(untagged, PROVIDER)).not.toHaveProperty('PropagateTags');
  });
});
