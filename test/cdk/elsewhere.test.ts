import { describe, expect, it } from '@jest/globals';
import { Duration, Stack } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/assertions';
import { Table } from 'aws-cdk-lib/aws-dynamodb';
import { Repository } from 'aws-cdk-lib/aws-ecr';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import {
  BatchScoring,
  type BatchScoringProps,
  type Compute,
  type ComputeForm,
  ecsCompute,
  lambdaCompute,
  lambdaGpuCompute,
} from '../../infra/index.ts';
import { createApp, createScoring, templateOf } from '../helpers/stacks.ts';
import { rightsOf, roleIn } from './policies.ts';

const HERE = { account: '123456789012', region: 'eu-central-1' };
const DIGEST = 'a'.repeat(64);

type Given = (stack: Stack, region: string, account?: string) => Partial<BatchScoringProps>;

const GIVEN: Record<string, Given> = {
  requestQueue: (stack, region, account = HERE.account) => {
    const dead = Queue.fromQueueArn(stack, 'Dead', `arn:aws:sqs:${region}:${account}:dead`);
    const queue = Queue.fromQueueArn(stack, 'Orders', `arn:aws:sqs:${region}:${account}:orders`);
    return { requestQueue: { queue, visibilityTimeout: Duration.seconds(400), deadLetterQueue: dead } };
  },
  'stores.resultQueue': (stack, region) => ({
    stores: { resultQueue: Queue.fromQueueArn(stack, 'Scores', `arn:aws:sqs:${region}:${HERE.account}:scores`) },
  }),
  'stores.resultTable': (stack, region, account = HERE.account) => ({
    results: ['table'],
    stores: { resultTable: Table.fromTableArn(stack, 'Scores', `arn:aws:dynamodb:${region}:${account}:table/scores`) },
  }),
  'stores.resultBucket': (stack, region) => ({
    results: ['bucket'],
    stores: { resultBucket: Bucket.fromBucketAttributes(stack, 'Scores', { bucketName: 'scores', region }) },
  }),
  payloadBucket: (stack, region) => ({
    payloadBucket: Bucket.fromBucketAttributes(stack, 'Payloads', { bucketName: 'payloads', region }),
  }),
  encryptionKey: (stack, region) => ({
    encryptionKey: Key.fromKeyArn(stack, 'Key', `arn:aws:kms:${region}:${HERE.account}:key/0a1b2c3d`),
  }),
  image: (stack, region) => ({
    image: {
      repository: Repository.fromRepositoryArn(stack, 'Own', `arn:aws:ecr:${region}:${HERE.account}:repository/own`),
      tagOrDigest: 'v1',
    },
  }),
  'models.bucket': (stack, region) => ({
    models: {
      uri: `s3://models/published/${DIGEST}`,
      bucket: Bucket.fromBucketAttributes(stack, 'Published', { bucketName: 'models', region }),
    },
  }),
};

function refusal(given: Given, region: string, account?: string, env: { region?: string } = HERE): string {
  const stack = new Stack(createApp(), 'Test', { env });
  try {
    createScoring(given(stack, region, account), stack);
    return 'not refused';
  } catch (error) {
    return (error as Error).message;
  }
}

describe.each(Object.entries(GIVEN))('an existing %s', (name, given) => {
  it('is refused where it is in another region than the stack', () => {
    expect(refusal(given, 'us-east-1')).toBe(
      `Test/Scoring: ${name}: expected one in the region of the stack, eu-central-1, because hosts use what is in their own region ` +
        'alone, got one in us-east-1; give one of eu-central-1, or deploy the stack to us-east-1',
    );
  });

  it('is taken in the region of the stack, and where the stack is for any region', () => {
    expect(refusal(given, HERE.region)).toBe('not refused');
    expect(refusal(given, 'us-east-1', undefined, {})).toBe('not refused');
  });
});

describe('of another account', () => {
  it('a table is refused, because it would be called by its name', () => {
    expect(refusal(GIVEN['stores.resultTable'] as Given, HERE.region, '210987654321')).toBe(
      'Test/Scoring: stores.resultTable: expected one in the account of the stack, 123456789012, because hosts call it by its name, ' +
        'got one in 210987654321; give one of 123456789012',
    );
  });

  const role = 'arn:aws:iam::210987654321:role/scoring';
  it.each<[string, Given]>([
    ['function', (stack) => ({ compute: lambdaCompute({ role: Role.fromRoleArn(stack, 'Role', role) }) })],
    ['task', (stack) => ({ compute: ecsCompute({ role: Role.fromRoleArn(stack, 'Role', role) }) as never })],
  ])('the role of a %s is refused', (_, given) => {
    expect(refusal(given, HERE.region)).toBe(
      'Test/Scoring: role: expected one in the account of the stack, 123456789012, because functions and tasks take no other, got one ' +
        'in 210987654321; give one of 123456789012',
    );
  });

  it('a request queue is taken: its own policy may allow it', () => {
    expect(refusal(GIVEN.requestQueue as Given, HERE.region, '210987654321')).toBe('not refused');
  });
});

it('an image of another region is taken for workers, as ECS pulls it from there', () => {
  const given: Given = (stack, region) => ({ ...GIVEN.image?.(stack, region), compute: ecsCompute() as never });
  expect(refusal(given, 'us-east-1')).toBe('not refused');
});

describe('of another stack of the app', () => {
  const made = (propsOf: (other: Stack) => Partial<BatchScoringProps>) => {
    const app = createApp();
    const stack = new Stack(app, 'Test', { env: HERE });
    const scoring = createScoring(propsOf(new Stack(app, 'Other', { env: HERE })), stack);
    return { scoring, template: templateOf(scoring) };
  };

  it.each<[string, string, (role: Role) => BatchScoringProps['compute']]>([
    ['function', 'lambda', (role) => lambdaCompute({ role })],
    ['task', 'ecs-tasks', (role) => ecsCompute({ role }) as never],
  ])('the role of a %s gets its policy in the stack of the deployment', (_, service, compute) => {
    const { template } = made((other) => ({ compute: compute(roleIn(other, 'Ours', service)) }));
    const policies = Object.values(template.findResources('AWS::IAM::Policy')).map(({ Properties }) => Properties);
    const ofOurs = policies.filter(({ Roles }) => JSON.stringify(Roles).includes('ExportsOutputFnGetAttOurs'));
    expect(JSON.stringify(ofOurs)).toContain('sqs:ReceiveMessage');
  });

  it('a bucket of files tells the function of jobs, and its stack needs nothing of the other', () => {
    const { scoring, template } = made((other) => ({ jobs: { bucket: new Bucket(other, 'Files') } }));
    template.hasResourceProperties('Custom::S3BucketNotifications', {
      BucketName: { 'Fn::ImportValue': Match.stringLikeRegexp('ExportsOutputRefFiles') },
      NotificationConfiguration: { LambdaFunctionConfigurations: [Match.anyValue()] },
      Managed: false,
    });
    expect(rightsOf(scoring, 'JobsScoreRole', 's3').join()).toContain('s3:GetObject');
  });
});

it('a topic in another region is refused where the new network has no way to it', () => {
  const refusalWith = (compute: ComputeForm) => {
    const stack = new Stack(createApp(), 'Test', { env: HERE });
    const jobEvents = Topic.fromTopicArn(stack, 'Told', `arn:aws:sns:us-east-1:${HERE.account}:told`);
    return () => createScoring<Compute>({ jobEvents, compute }, stack);
  };
  const said = 'jobEvents: expected one in the region of the stack, eu-central-1';
  for (const compute of [ecsCompute(), lambdaGpuCompute()]) expect(refusalWith(compute)).toThrow(said);
  expect(refusalWith(lambdaCompute())).not.toThrow();
});

it('a key lets the logs of its own partition use it', () => {
  const stack = new Stack(createApp(), 'Test', { env: { ...HERE, region: 'cn-north-1' } });
  const template = templateOf(createScoring({ encryptionKey: new Key(stack, 'Key') }, stack));
  template.hasResourceProperties('AWS::KMS::Key', {
    KeyPolicy: {
      Statement: Match.arrayWith([
        Match.objectLike({
          Sid: 'LogGroups',
          Principal: { Service: { 'Fn::Join': ['', ['logs.cn-north-1.', { Ref: 'AWS::URLSuffix' }]] } },
        }),
      ]),
    },
  });
});

it('stacks of two accounts refer to each other: to a queue, a bucket and a role', () => {
  const app = createApp({ context: { '@aws-cdk/core:defaultCrossStackReferences': 'weak' } });
  const other = new Stack(app, 'Other', { env: { ...HERE, account: '210987654321' } });
  const stack = new Stack(app, 'Test', { env: HERE });
  const payloadBucket = new Bucket(other, 'Payloads', { bucketName: 'payloads-of-others' });
  const producer = new Role(other, 'Producer', {
    roleName: 'producer',
    assumedBy: new ServicePrincipal('ec2.amazonaws.com'),
  });
  const first = createScoring({ payloadBucket }, stack);
  first.grantSubmit(producer);
  const own = new BatchScoring(stack, 'Own', { image: first.image });
  own.grantSubmit(producer);
  expect(() => app.synth()).not.toThrow();
});
