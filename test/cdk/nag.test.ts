import { describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import { TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket, CfnBucket } from 'aws-cdk-lib/aws-s3';
import { AwsSolutionsChecks } from 'cdk-nag';
import { type Compute, ecsCompute, ecsGpuCompute, lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { createScoring } from '../helpers/stacks.ts';
import { acknowledgementsIn, createCheckedStack, validate } from './checkedStack.ts';

const ALL = ['queue', 'table', 'bucket'] as const;
const KEY = { enableKeyRotation: true };

describe('cdk-nag and the CloudFormation validator', () => {
  it.each([
    ['lambda', { compute: lambdaCompute(), results: ALL }, false],
    ['lambda, FIFO, own key', { compute: lambdaCompute(), results: ALL, fifo: true }, true],
    ['lambda, three shards', { compute: lambdaCompute(), results: ALL, shards: 3 }, false],
    ['lambda, traced', { compute: lambdaCompute(), tracing: true }, false],
    ['lambda-gpu, traced', { compute: lambdaGpuCompute(), results: ALL, tracing: true }, false],
    ['lambda, models in S3', { compute: lambdaCompute(), models: `s3://models/${'0'.repeat(64)}` }, false],
    ['lambda, jobs', { compute: lambdaCompute(), jobs: {} }, false],
    ['lambda, jobs, traced, own key', { compute: lambdaCompute(), jobs: {}, tracing: true }, true],
    ['lambda-gpu', { compute: lambdaGpuCompute(), results: ALL }, false],
    ['lambda-gpu, FIFO, own key', { compute: lambdaGpuCompute(), results: ALL, fifo: true }, true],
    ['ecs', { compute: ecsCompute(), results: ALL }, false],
    ['ecs, FIFO, own key', { compute: ecsCompute({ minimumTasks: 1 }), results: ALL, fifo: true }, true],
    ['ecs-gpu', { compute: ecsGpuCompute(), results: ALL, shards: 2 }, false],
    ['ecs-gpu, FIFO, own key', { compute: ecsGpuCompute({ spot: true }), results: ALL, fifo: true }, true],
    ['ecs-gpu, group', { compute: ecsGpuCompute({ capacity: 'asg' }), results: ALL }, false],
    ['ecs-gpu, group, own key', { compute: ecsGpuCompute({ capacity: 'asg', spot: true }) }, true],
  ] as const)('find nothing that is not acknowledged with a reason: %s', (_, props, ownKey) => {
    const stack = createCheckedStack(AwsSolutionsChecks);
    createScoring<Compute>({ ...props, ...(ownKey && { encryptionKey: new Key(stack, 'Key', KEY) }) }, stack);
    expect(validate(stack)).toEqual({ found: [], messages: [] });
    const acknowledged = acknowledgementsIn(stack);
    expect(acknowledged.length).toBeGreaterThan(0);
    for (const { id, reason } of acknowledged) expect([id, reason]).toEqual([id, expect.stringMatching(/(\w+ ){4}/)]);
  });

  it('find nothing with a role of your own either', () => {
    const stack = createCheckedStack(AwsSolutionsChecks);
    const role = new Role(stack, 'Ours', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    const scoring = createScoring({ compute: lambdaCompute({ role }), results: ALL }, stack);
    scoring.grantOperate(new Role(stack, 'Operator', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') }));
    expect(validate(stack)).toEqual({ found: [], messages: [] });
  });

  it('find nothing with jobs in a bucket and a network of your own', () => {
    const stack = createCheckedStack(AwsSolutionsChecks);
    const bucket = Bucket.fromBucketAttributes(stack, 'Files', {
      bucketArn: 'arn:aws:s3:::files',
      encryptionKey: Key.fromKeyArn(stack, 'Theirs', 'arn:aws:kms:eu-central-1:123456789012:key/0a1b'),
    });
    const vpc = new Vpc(stack, 'Network', { restrictDefaultSecurityGroup: false });
    createScoring({ jobs: { bucket, vpc } }, stack).grantSubmitJobs(
      new Role(stack, 'Someone', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') }),
    );
    const { found, messages } = validate(stack);
    const ofOthers = /^Test\/(Network|Someone)/;
    expect(found.filter(([, path = '']: readonly string[]) => !ofOthers.test(path))).toEqual([]);
    expect(messages).toEqual([]);
  });

  it('find nothing with more pollers than the library itself allows', () => {
    const stack = createCheckedStack(AwsSolutionsChecks);
    createScoring({ batchSize: 1, compute: lambdaCompute({ minimumPollers: 2, maximumPollers: 10_000 }) }, stack);
    expect(validate(stack)).toEqual({ found: [], messages: [] });
  });

  it('find nothing in a function with a network, a canary and warm environments', () => {
    const stack = createCheckedStack(AwsSolutionsChecks);
    const vpc = new Vpc(stack, 'Network', { restrictDefaultSecurityGroup: false });
    const trafficRouting = TrafficRouting.timeBasedCanary({ percentage: 10, interval: Duration.minutes(15) });
    const compute = lambdaCompute({ vpc, trafficRouting, provisionedConcurrency: 1 });
    createScoring({ compute, tracing: true }, stack);
    const { found, messages } = validate(stack);
    expect(found.filter(([, path]: readonly string[]) => path?.startsWith('Test/Scoring'))).toEqual([]);
    expect(messages).toEqual([]);
  });

  it('do look: a bucket that is open is found', () => {
    const stack = createCheckedStack(AwsSolutionsChecks);
    createScoring({}, stack);
    new CfnBucket(stack, 'Open');
    expect(validate(stack).found).toEqual(expect.arrayContaining([['AwsSolutions-S10', 'Test/Open']]));
  });
});
