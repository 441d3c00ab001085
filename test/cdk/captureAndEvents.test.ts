import { describe, expect, it } from '@jest/globals';
import { Duration, type Stack } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/assertions';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Topic } from 'aws-cdk-lib/aws-sns';
import {
  type BatchScoringProps,
  type ComputeForm,
  ecsCompute,
  ecsGpuCompute,
  lambdaGpuCompute,
} from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { createScoring, createStack, endpointsIn, environmentIn, synthesize, templateOf } from '../helpers/stacks.ts';
import { rightsIn, rightsOf } from './policies.ts';

function refusalOf(props: Partial<BatchScoringProps>, stack = createStack()): string {
  try {
    createScoring(props, stack);
    return 'not refused';
  } catch (error) {
    return String(error);
  }
}

describe('samples', () => {
  it.each([
    ['the function', {}, 'ComputelambdaRole'],
    ['workers', { compute: ecsCompute() }, 'ScoringComputeecsRole'],
  ] as const)(
    '%s put them into a bucket of their own, which expires, and can do nothing else there',
    (_, props, role) => {
      const stack = createStack();
      const encryptionKey = new Key(stack, 'Key');
      const scoring = createScoring(
        { ...props, encryptionKey, capture: { percent: 2.5, expiry: Duration.days(9) } } as object,
        stack,
      );
      const template = templateOf(scoring);
      expect(rightsOf(scoring, role, 's3').filter((right) => right.includes('CaptureBucket'))).toEqual([
        's3:PutObject <CaptureBucket>/captured/*',
      ]);
      template.hasResourceProperties('AWS::S3::Bucket', {
        BucketEncryption: Match.objectLike({
          ServerSideEncryptionConfiguration: [
            { BucketKeyEnabled: true, ServerSideEncryptionByDefault: Match.objectLike({ SSEAlgorithm: 'aws:kms' }) },
          ],
        }),
        LifecycleConfiguration: { Rules: [Match.objectLike({ ExpirationInDays: 9 })] },
        PublicAccessBlockConfiguration: Match.objectLike({ BlockPublicPolicy: true }),
      });
      expect(scoring.captureBucket).toBeDefined();
    },
  );

  it('are told to the host, and to no function of jobs; of none, or 0 per cent, there is no bucket', () => {
    const template = synthesize({ capture: { percent: 2.5 }, jobs: {} });
    const environment = environmentIn(template);
    expect(environment).toMatchObject({
      [CONFIG_KEYS.capturePercent]: '2.5',
      [CONFIG_KEYS.captureBucket]: expect.anything(),
    });
    const told = JSON.stringify(template.findResources('AWS::Lambda::Function')).match(/CAPTURE_PERCENT/g);
    expect(told).toHaveLength(1);
    for (const props of [{}, { capture: { percent: 0 } }]) {
      const { Resources } = synthesize(props).toJSON();
      const others = Object.values(Resources).filter(
        (one) => !JSON.stringify(one).includes('AWS::CloudWatch::Dashboard'),
      );
      expect(JSON.stringify(others)).not.toMatch(/capture/i);
    }
  });

  it('lie under the prefix of the deployment in a bucket that exists', () => {
    const stack = createStack();
    const bucket = new Bucket(stack, 'Lake');
    const scoring = createScoring({ capture: { percent: 100, bucket }, keyPrefix: 'fraud/' }, stack);
    expect(environmentIn(templateOf(scoring))[CONFIG_KEYS.capturePrefix]).toBe('fraud/');
    expect(rightsOf(scoring, 'ComputelambdaRole', 's3')).toContain('s3:PutObject <Lake>/fraud/captured/*');
  });

  const bucketOf = (stack = createStack()) => new Bucket(stack, 'Lake');
  it.each<[string, (bucket: Bucket) => Partial<BatchScoringProps>, string]>([
    [
      'inside results',
      (bucket) => ({ capture: { percent: 1, bucket }, keyPrefix: 'a/results/b/' }),
      "keyPrefix: expected a path that ends in '/', ",
    ],
    [
      'where files start jobs',
      (bucket) => ({ capture: { percent: 1, bucket }, jobs: { bucket, inputPrefix: 'batchscore/' } }),
      "keyPrefix: expected keys apart from jobs.inputPrefix, 'batchscore/'",
    ],
    [
      'expiring in a bucket that exists',
      (bucket) => ({ capture: { percent: 1, bucket, expiry: Duration.days(3) } }),
      'capture.expiry: expected only with a new capture bucket',
    ],
    [
      'more than all',
      () => ({ capture: { percent: 101 } }),
      'capture.percent: expected a number from 0 to 100, got 101',
    ],
    ['of an expiry in hours', () => ({ capture: { percent: 1, expiry: Duration.hours(3) } }), 'capture.expiry'],
  ])('are refused %s', (_, propsOf, sentence) => {
    const stack = createStack();
    expect(refusalOf(propsOf(bucketOf(stack)), stack)).toContain(sentence);
  });
});

describe('events', () => {
  it.each([
    ['a bus', (stack: ReturnType<typeof createStack>) => new EventBus(stack, 'Bus'), 'events:PutEvents <Bus>'],
    ['a topic', (stack: ReturnType<typeof createStack>) => new Topic(stack, 'Topic'), 'sns:Publish <Topic>'],
  ] as const)(
    'go to %s: of dead letters from the host, of jobs from the function that every end calls',
    (_, make, right) => {
      const stack = createStack();
      const scoring = createScoring({ jobEvents: make(stack), jobs: {} }, stack);
      const template = templateOf(scoring);
      expect(rightsOf(scoring, 'ComputelambdaRole')).toContain(right);
      expect(rightsOf(scoring, 'JobsControlRole')).toEqual(
        expect.arrayContaining([right, 'states:DescribeExecution arn:aws:states:REGION:ACCOUNT:execution:<Jobs>:*']),
      );
      expect(rightsOf(scoring, 'JobsScoreRole').join()).not.toContain(right);
      template.hasResourceProperties('AWS::Events::Rule', {
        EventPattern: {
          source: ['aws.states'],
          'detail-type': ['Step Functions Execution Status Change'],
          detail: { stateMachineArn: [Match.anyValue()], status: ['SUCCEEDED', 'FAILED', 'TIMED_OUT', 'ABORTED'] },
        },
        Targets: [Match.objectLike({ Arn: { 'Fn::GetAtt': [Match.stringLikeRegexp('JobsControl'), 'Arn'] } })],
      });
      const functions = JSON.stringify(template.findResources('AWS::Lambda::Function'));
      expect(functions.match(/EVENTS_ARN/g)).toHaveLength(2);
      expect(environmentIn(template)[CONFIG_KEYS.maxReceiveCount]).toBe('20');
    },
  );

  const bus = (stack: Stack) => new EventBus(stack, 'Bus');
  const topic = (stack: Stack) => new Topic(stack, 'Topic');
  it.each<[string, ComputeForm, (stack: Stack) => EventBus | Topic, string]>([
    ['tasks', ecsCompute(), bus, '* <Bus>'],
    ['instances of ECS', ecsGpuCompute(), topic, '* <Topic>'],
    ['instances of Lambda', lambdaGpuCompute(), bus, '* <Bus>'],
  ])(
    'leave the new network of %s through an endpoint, which leads to that bus or topic alone',
    (_, compute, make, right) => {
      const stack = createStack();
      const template = templateOf(createScoring({ compute, jobEvents: make(stack) }, stack));
      const [endpoint] = Object.entries(template.findResources('AWS::EC2::VPCEndpoint')).filter(([id]) =>
        /Events/.test(id),
      );
      expect(endpointsIn(template)).toContain(make === bus ? 'events' : 'sns');
      expect(rightsIn(endpoint?.[1].Properties.PolicyDocument.Statement)).toEqual([expect.stringContaining(right)]);
    },
  );

  it('are none without a bus or a topic, and refused for a FIFO topic', () => {
    synthesize({ jobs: {} }).resourceCountIs('AWS::Events::Rule', 0);
    const stack = createStack();
    expect(refusalOf({ jobEvents: new Topic(stack, 'Topic', { fifo: true }) }, stack)).toContain('got a FIFO topic');
  });
});
