import { describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import { Annotations, Match } from 'aws-cdk-lib/assertions';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { type BatchScoringProps, ecsCompute, ecsGpuCompute, type ServiceCompute } from '../../infra/index.ts';
import { containerIn, createScoring, createStack, only, templateOf } from '../helpers/stacks.ts';
import { actionsOfRole } from './policies.ts';

const KEY_ARN = 'arn:aws:kms:eu-central-1:123456789012:key/0a1b';

function warningsOf(props: Partial<BatchScoringProps<ServiceCompute>>, stack = createStack()): unknown[] {
  createScoring(props, stack);
  return Annotations.fromStack(stack)
    .findWarning('*', Match.anyValue())
    .map(({ entry }) => entry.data);
}

describe('a service of workers', () => {
  it('runs with a role of your own, which gets what scoring needs', () => {
    const stack = createStack();
    const role = new Role(stack, 'Ours', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') });
    const scoring = createScoring({ compute: ecsCompute({ role }) }, stack);
    const template = templateOf(scoring);
    expect(only(template, 'AWS::ECS::TaskDefinition').TaskRoleArn).toEqual(stack.resolve(role.roleArn));
    expect(actionsOfRole(template, 'Ours')).toEqual(
      expect.arrayContaining(['ecs:UpdateTaskProtection', 'sqs:ReceiveMessage']),
    );
    expect(scoring.grantPrincipal).toBe(role);
  });

  it('logs to a group of your own, which keeps its own retention', () => {
    const stack = createStack();
    const logGroup = new LogGroup(stack, 'Ours', { retention: RetentionDays.ONE_YEAR });
    const template = templateOf(createScoring({ compute: ecsGpuCompute({ logGroup }) }, stack));
    expect(containerIn(template).LogConfiguration).toMatchObject({
      Options: { 'awslogs-group': stack.resolve(logGroup.logGroupName) },
    });
    template.hasResourceProperties('AWS::Logs::LogGroup', { RetentionInDays: 365 });
  });
});

describe('what works, and may fail later, is warned of', () => {
  it('an imported key that Fargate may not use for disks', () => {
    const withKey = (compute: BatchScoringProps<ServiceCompute>['compute']) => {
      const stack = createStack();
      return warningsOf({ compute, encryptionKey: Key.fromKeyArn(stack, 'Key', KEY_ARN) }, stack);
    };
    const ofDisks = expect.stringContaining('encryptionKey: expected a key that Fargate may encrypt disks with');
    expect(withKey(ecsCompute())).toContainEqual(ofDisks);
    expect(withKey(ecsGpuCompute())).not.toContainEqual(ofDisks);
    expect(warningsOf({ compute: ecsCompute() })).toEqual([]);
  });

  it('batches of large messages that a worker never fills', () => {
    const compute = ecsCompute();
    expect(warningsOf({ compute, batchSize: 1000, largestMessage: Size.bytes(33_554) })).toEqual([]);
    expect(warningsOf({ compute, batchSize: 1000, largestMessage: Size.bytes(33_555) })).toEqual([
      expect.stringContaining(
        'batchSize: expected at most 33554432 bytes in one batch of a worker, got 1000 × 33555 bytes = 33555000; lower ' +
          'batchSize to 999',
      ),
    ]);
  });

  it('more messages in the hands of all tasks than the queues hand out', () => {
    const compute = ecsCompute({ maximumTasks: 5, pipelineDepth: 1 });
    expect(warningsOf({ compute, batchSize: 10_000, shards: 1 })).toEqual([]);
    const more = ecsCompute({ maximumTasks: 7, pipelineDepth: 1 });
    expect(warningsOf({ compute: more, batchSize: 10_000, shards: 2 })).toEqual([]);
    expect(warningsOf({ compute: more, batchSize: 10_000, shards: 1 })).toEqual([
      expect.stringContaining(
        'batchSize: expected at most 120000 messages in flight from one queue, which is what SQS hands out, got 10000 × ' +
          '2 batches × 7 tasks = 140000 from 1; lower batchSize or maximumTasks, or raise shards',
      ),
    ]);
  });
});
