import { describe, expect, it } from '@jest/globals';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { HIPAASecurityChecks, NIST80053R5Checks, ServerlessChecks } from 'cdk-nag';
import { type Compute, ecsCompute, ecsGpuCompute, lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { docPage } from '../helpers/docExamples.ts';
import { createScoring } from '../helpers/stacks.ts';
import { createCheckedStack, validate } from './checkedStack.ts';

const PRIVATE = [{ name: 'Functions', subnetType: SubnetType.PRIVATE_ISOLATED }];
const ALL = ['queue', 'table', 'bucket'] as const;
const PACKS = [HIPAASecurityChecks, NIST80053R5Checks, ServerlessChecks];

/** The rules that the deployment breaks, as one name for all packs. */
function rulesIn(found: readonly (readonly string[])[]): string[] {
  const ofScoring = found.filter(([, path = '']) => path.startsWith('Test/Scoring/'));
  const names = ofScoring.map(([rule = '']) => rule.replace(/^(HIPAA\.Security|NIST\.800\.53\.R5|Serverless)-/, ''));
  return [...new Set(names)].toSorted();
}

/** The rules that docs/operations.md names, each with the prop that follows it. */
function documented(): Map<string, string> {
  const [, section = ''] = docPage('operations.md').split('\n## Rules of HIPAA and NIST 800-53\n');
  const [table = ''] = section.split('\n## ');
  const rows = table.matchAll(/^\| `(\w+)` \| `(\w+)`/gm);
  return new Map([...rows].map(([, rule = '', prop = '']) => [rule, prop]));
}

describe('the packs for HIPAA, NIST 800-53 and serverless apps', () => {
  it('find what a prop follows, which docs/operations.md names, and nothing else', () => {
    const stack = createCheckedStack(...PACKS);
    createScoring({ results: ALL }, stack);
    expect(rulesIn(validate(stack).found)).toEqual([...documented().keys()].toSorted());
  });

  it.each([
    ['ecs', ecsCompute()],
    ['ecs-gpu', ecsGpuCompute()],
    ['ecs-gpu on a group', ecsGpuCompute({ capacity: 'asg' })],
  ] as const)('find nothing in a service once those props are set: %s', (_, compute) => {
    const stack = createCheckedStack(...PACKS);
    const alarmActions = [
      new SnsAction(Topic.fromTopicArn(stack, 'OnCall', 'arn:aws:sns:eu-central-1:123456789012:on-call')),
    ];
    const encryptionKey = new Key(stack, 'Key', { enableKeyRotation: true });
    createScoring<Compute>({ compute, results: ALL, alarmActions, encryptionKey }, stack);
    expect(rulesIn(validate(stack).found)).toEqual([]);
  });

  it('find nothing in jobs once those props are set', () => {
    const stack = createCheckedStack(...PACKS);
    const vpc = new Vpc(stack, 'Network', { subnetConfiguration: PRIVATE });
    const compute = lambdaCompute({ reservedConcurrency: 10, vpc });
    const topic = Topic.fromTopicArn(stack, 'OnCall', 'arn:aws:sns:eu-central-1:123456789012:on-call');
    const encryptionKey = new Key(stack, 'Key', { enableKeyRotation: true });
    const settings = { alarmActions: [new SnsAction(topic)], encryptionKey, tracing: true };
    createScoring({ ...settings, compute, jobs: { vpc } }, stack);
    expect(rulesIn(validate(stack).found)).toEqual([]);
  });

  it.each(['lambda', 'lambda-gpu'])('find nothing once those props are set: %s', (kind) => {
    const stack = createCheckedStack(...PACKS);
    const vpc = new Vpc(stack, 'Network', { subnetConfiguration: PRIVATE });
    const compute = kind === 'lambda' ? lambdaCompute({ reservedConcurrency: 10, vpc }) : lambdaGpuCompute();
    const alarmActions = [
      new SnsAction(Topic.fromTopicArn(stack, 'OnCall', 'arn:aws:sns:eu-central-1:123456789012:on-call')),
    ];
    const encryptionKey = new Key(stack, 'Key', { enableKeyRotation: true });
    createScoring({ compute, results: ALL, alarmActions, encryptionKey, tracing: true }, stack);
    expect(rulesIn(validate(stack).found)).toEqual([]);
  });
});
