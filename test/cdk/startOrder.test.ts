import { describe, expect, it } from '@jest/globals';
import { Key } from 'aws-cdk-lib/aws-kms';
import { type Compute, type ComputeForm, ecsCompute, ecsGpuCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { createScoring, createStack, templateOf } from '../helpers/stacks.ts';

type Resources = Record<string, { Type: string; DependsOn?: string[] }>;

/** IDs that a resource names, or says to depend on, directly. */
function namedBy(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const { Ref, 'Fn::GetAtt': attribute, DependsOn } = value as Record<string, unknown>;
  const here = [Ref, Array.isArray(attribute) ? attribute[0] : undefined, ...[DependsOn ?? []].flat()];
  return [...here.filter((id) => typeof id === 'string'), ...Object.values(value).flatMap(namedBy)];
}

/** Everything that CloudFormation creates before the only resource of a type, and deletes after it. */
function createdBefore(resources: Resources, type: string): string[] {
  const [start = ''] = Object.keys(resources).filter((id) => resources[id]?.Type === type);
  const found = new Set<string>([start]);
  for (const id of found) for (const named of namedBy(resources[id])) if (named in resources) found.add(named);
  return [...found];
}

const idsOf = (resources: Resources, type: string): string[] =>
  Object.keys(resources).filter((id) => resources[id]?.Type === type);

const FORMS: [string, string, () => ComputeForm][] = [
  ['lambda-gpu', 'AWS::Lambda::Version', () => lambdaGpuCompute()],
  ['ecs', 'AWS::ECS::Service', () => ecsCompute()],
  ['ecs-gpu', 'AWS::ECS::Service', () => ecsGpuCompute()],
];

describe.each(FORMS)('in a new network, %s', (_, type, compute) => {
  it('starts once all endpoints are there', () => {
    const { Resources: resources } = templateOf(createScoring<Compute>({ compute: compute() })).toJSON();
    const endpoints = idsOf(resources, 'AWS::EC2::VPCEndpoint');
    expect(endpoints.length).toBeGreaterThan(3);
    expect(createdBefore(resources, type)).toEqual(expect.arrayContaining(endpoints));
  });
});

it('GPUs start once their disks may be encrypted with a key of your own', () => {
  const stack = createStack();
  const encryptionKey = new Key(stack, 'Key');
  const { Resources: resources } = templateOf(
    createScoring({ encryptionKey, compute: lambdaGpuCompute() }, stack),
  ).toJSON();
  const [policy] = idsOf(resources, 'AWS::IAM::Policy').filter((id) => id.includes('Operator'));
  expect(JSON.stringify(resources[policy ?? ''])).toContain('kms:CreateGrant');
  expect(createdBefore(resources, 'AWS::Lambda::Version')).toContain(policy);
});
