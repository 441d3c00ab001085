import { describe, expect, it } from '@jest/globals';
import { Duration, type Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import {
  BatchScoring,
  type BatchScoringProps,
  type Compute,
  ecsCompute,
  ecsGpuCompute,
  lambdaCompute,
  lambdaGpuCompute,
} from '../../infra/index.ts';
import { createScoring, createStack, imageOf, templateOf } from '../helpers/stacks.ts';
import { rightsIn, rightsOf, roleIn, type Statement } from './policies.ts';

type Props = Partial<BatchScoringProps<Compute>>;
const ALL = ['queue', 'table', 'bucket'] as const;
const HOST = 'ComputelambdaRole';
const visibilityTimeout = Duration.seconds(400);

/** A deployment with a producer, a consumer and an operator. What docs/operations.md says of these is tested with it. */
function deployed(props: Props = {}, stack = createStack()): BatchScoring<Compute> {
  const scoring = createScoring<Compute>({ results: ALL, ...props }, stack);
  scoring.grantSubmit(roleIn(scoring, 'Producer'));
  scoring.grantCollect(roleIn(scoring, 'Consumer'));
  scoring.grantOperate(roleIn(scoring, 'Operator'));
  return scoring;
}

/** The right to list what begins with a prefix, which is to know what is not there. */
const listing = (bucket: string, prefix: string) =>
  `s3:ListBucket <${bucket}> if {"StringLike":{"s3:prefix":"${prefix}*"}}`;

const SCORING = [
  'dynamodb:BatchWriteItem <ResultTable>',
  's3:GetObject <PayloadBucket>/requests/*',
  listing('PayloadBucket', 'requests/'),
  's3:PutObject <PayloadBucket>/results/*',
  's3:PutObject <ResultBucket>/results/*',
  'sqs:ChangeMessageVisibility <Requests>',
  'sqs:DeleteMessage <Requests>',
  'sqs:GetQueueAttributes <Requests>',
  'sqs:GetQueueAttributes <Results>',
  'sqs:GetQueueUrl <Requests>',
  'sqs:GetQueueUrl <Results>',
  'sqs:ReceiveMessage <Requests>',
  'sqs:SendMessage <Results>',
];
const logging = (id: string) => ['logs:CreateLogStream', 'logs:PutLogEvents'].map((action) => `${action} <${id}Log>`);
const protecting = (id: string) =>
  ['ecs:GetTaskProtection', 'ecs:UpdateTaskProtection'].map(
    (action) => `${action} arn:aws:ecs:REGION:ACCOUNT:task/<${id}Cluster>/*`,
  );

describe('the host', () => {
  it.each<[string, Props['compute'], string[]]>([
    ['Computelambda', lambdaCompute(), logging('Computelambda')],
    ['Computelambdagpu', lambdaGpuCompute(), logging('Computelambdagpu')],
    ['Computeecs', ecsCompute(), protecting('Computeecs')],
    ['Computeecsgpu', ecsGpuCompute(), protecting('Computeecsgpu')],
  ])('may do what scoring needs, and nothing else: %s', (id, compute, more) => {
    expect(rightsOf(deployed({ compute }), `Scoring${id}Role`)).toEqual([...SCORING, ...more].toSorted());
  });

  it.each([
    ['queue', /<Result(Table|Bucket)>/],
    ['table', /<Result(s|Bucket)>/],
    ['bucket', /<Result(s|Table)>/],
  ] as const)('may write results to the %s alone where that is all', (store, others) => {
    const expected = [...SCORING, ...logging('Computelambda')].filter((right) => !others.test(right));
    expect(rightsOf(deployed({ results: [store] }), HOST)).toEqual(expected.toSorted());
  });
});

it('of buckets that exist already, each reaches the keys of this deployment for requests or results alone', () => {
  const stack = createStack();
  const payloadBucket = new Bucket(stack, 'Shared');
  const stores = { resultBucket: new Bucket(stack, 'Lake') };
  const scoring = deployed({ payloadBucket, stores, keyPrefix: 'team/fraud/' }, stack);
  const toS3 = Object.fromEntries(['Producer', 'Consumer', HOST].map((who) => [who, rightsOf(scoring, who, 's3')]));
  expect(toS3).toEqual({
    Producer: ['s3:PutObject <Shared>/team/fraud/requests/*'],
    Consumer: [
      's3:GetObject <Lake>/team/fraud/results/*',
      's3:GetObject <Shared>/team/fraud/results/*',
      listing('Lake', 'team/fraud/results/'),
      listing('Shared', 'team/fraud/results/'),
    ],
    [HOST]: [
      's3:GetObject <Shared>/team/fraud/requests/*',
      listing('Shared', 'team/fraud/requests/'),
      's3:PutObject <Lake>/team/fraud/results/*',
      's3:PutObject <Shared>/team/fraud/results/*',
    ],
  });
});

it('two deployments that share a bucket have different prefixes', () => {
  const stack = createStack();
  const payloadBucket = new Bucket(stack, 'Shared');
  const image = imageOf(stack);
  const props = { image, payloadBucket, results: ['bucket'], stores: { resultBucket: payloadBucket } } as const;
  const [one, other] = [new BatchScoring(stack, 'One', props), new BatchScoring(stack, 'Other', props)];
  for (const scoring of [one, other]) scoring.grantSubmit(roleIn(scoring, `${scoring.node.id}Producer`));
  const prefix = 's3:PutObject <Shared>/batchscore/<AWS::AccountId>/<AWS::Region>';
  expect(rightsOf(one, 'OneProducer', 's3')).toEqual([expect.stringMatching(`^${prefix}/Test-One-\\w+/requests/\\*$`)]);
  expect(rightsOf(one, 'OtherProducer', 's3')).toEqual([expect.stringContaining(`${prefix}/Test-Other-`)]);
});

describe('of three shards', () => {
  const scoring = deployed({ shards: 3 });
  const MAPPING = 'arn:aws:lambda:REGION:ACCOUNT:event-source-mapping:<ComputelambdaFunctionSqsEventSourceTestScoring';

  it.each([
    ['the host consumes', HOST, /^sqs:(Receive|Delete|ChangeMessageVis)\w+ <Requests/, 9],
    ['a producer sends to', 'Producer', /^sqs:SendMessage <Requests/, 3],
    ['an operator sends to and empties', 'Operator', /^sqs:(Send|Purge)\w+ <Requests/, 6],
    ['an operator switches', 'Operator', new RegExp(`^lambda:UpdateEventSourceMapping ${MAPPING}`), 3],
  ] as const)('%s each', (_, who, rights, count) => {
    expect(rightsOf(scoring, who).filter((right) => rights.test(right))).toHaveLength(count);
  });
});

describe('an operator', () => {
  it('may not lead the mapping of a GPU to another function', () => {
    const scoring = deployed({ compute: lambdaGpuCompute() });
    const [, switching = ''] = rightsOf(scoring, 'Operator', 'lambda');
    const arns = '["<ComputelambdagpuFunction>","<ComputelambdagpuFunction>:*"]';
    expect(switching.split(' if ')[1]).toBe(`{"ArnLike":{"lambda:FunctionArn":${arns}}}`);
  });

  it('may empty an existing queue that was given without dead letters', () => {
    const stack = createStack();
    const queue = new Queue(stack, 'Orders', { visibilityTimeout });
    expect(rightsOf(deployed({ requestQueue: { queue, visibilityTimeout } }, stack), 'Operator', 'sqs')).toEqual([
      'sqs:GetQueueAttributes <Orders>',
      'sqs:GetQueueUrl <Orders>',
      'sqs:PurgeQueue <Orders>',
    ]);
  });
});

const DECRYPT = ['kms:Decrypt'];
const REENCRYPT = ['kms:Decrypt', 'kms:GenerateDataKey'];

/** Existing queues and a bucket without a key. */
function withoutKey(stack: Stack): Props {
  const deadLetterQueue = { queue: new Queue(stack, 'Dead'), maxReceiveCount: 5 };
  const queue = new Queue(stack, 'Orders', { visibilityTimeout, deadLetterQueue });
  return {
    results: ['queue'],
    requestQueue: { queue, visibilityTimeout },
    stores: { resultQueue: new Queue(stack, 'Scores') },
    payloadBucket: new Bucket(stack, 'Payloads'),
  };
}

describe('the key', () => {
  it.each<[string, (stack: Stack) => Props, Record<'host' | 'producer' | 'consumer' | 'operator', string[]>]>([
    [
      'of your own encrypts what each sends, and opens what each takes',
      (stack) => ({ results: ['queue', 'bucket'], encryptionKey: new Key(stack, 'Key') }),
      {
        host: [...DECRYPT, 'kms:Encrypt', 'kms:GenerateDataKey', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'],
        producer: [...DECRYPT, 'kms:Encrypt', 'kms:GenerateDataKey', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'],
        consumer: DECRYPT,
        operator: REENCRYPT,
      },
    ],
    [
      'of your own opens nothing but the environment where all that exists has another or none',
      (stack) => ({ ...withoutKey(stack), encryptionKey: new Key(stack, 'Key') }),
      { host: DECRYPT, producer: [], consumer: [], operator: [] },
    ],
    [
      'of a bucket encrypts for a producer and decrypts for a consumer, and not the other way round',
      (stack) => {
        const encryption = { encryption: BucketEncryption.KMS, encryptionKey: new Key(stack, 'Key') };
        return { results: ['queue'], payloadBucket: new Bucket(stack, 'Shared', encryption) };
      },
      { host: REENCRYPT, producer: ['kms:GenerateDataKey'], consumer: DECRYPT, operator: [] },
    ],
  ])('%s', (_, propsIn, expected) => {
    const stack = createStack();
    const scoring = deployed(propsIn(stack), stack);
    const actionsOf = (who: string) => [
      ...new Set(rightsOf(scoring, who, 'kms').map((right) => right.split(' ')[0] ?? '')),
    ];
    expect({
      host: actionsOf(HOST),
      producer: actionsOf('Producer'),
      consumer: actionsOf('Consumer'),
      operator: actionsOf('Operator'),
    }).toEqual(expected);
  });
});

/** Why a statement may stand for every resource: in a key's policy * is the key itself. */
const WILDCARDS = [
  // The account's access to its own key.
  'kms:* *',
  // CloudWatch Logs, for log groups of this account.
  ...['Decrypt', 'DescribeKey', 'Encrypt', 'GenerateDataKey*', 'ReEncrypt*'].map((action) => `kms:${action} *`),
];

/** What AWS has for every resource alone. @see https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerservice.html */
const OF_ECS = ['ecr:GetAuthorizationToken *', 'ecs:DiscoverPollEndpoint *'];

/** In the key's policy: Fargate encrypts the disks of tasks with it. */
const OF_FARGATE_DISKS = ['kms:CreateGrant *', 'kms:GenerateDataKeyWithoutPlaintext *'];

describe('no statement allows more than it must', () => {
  it.each([
    ['lambda', lambdaCompute, false, []],
    ['lambda', lambdaCompute, true, WILDCARDS],
    ['lambda-gpu', lambdaGpuCompute, false, []],
    ['lambda-gpu', lambdaGpuCompute, true, WILDCARDS],
    ['ecs', ecsCompute, false, ['ecr:GetAuthorizationToken *']],
    ['ecs', ecsCompute, true, ['ecr:GetAuthorizationToken *', ...OF_FARGATE_DISKS, ...WILDCARDS]],
    ['ecs-gpu', ecsGpuCompute, false, OF_ECS],
    ['ecs-gpu', ecsGpuCompute, true, [...OF_ECS, ...WILDCARDS]],
  ] as const)('%s, own key or none: %#', (_, compute, hasKey, expected) => {
    const stack = createStack();
    const encryptionKey = hasKey ? new Key(stack, 'Key') : undefined;
    const rights = allowedIn(templateOf(deployed({ compute: compute(), encryptionKey }, stack)));
    const wild = rights.filter((right) => / \*( if |$)|:\* /.test(right)).map((right) => right.split(' if ')[0]);
    expect(wild.toSorted()).toEqual(expected.toSorted());
  });
});

/** What every policy of a template allows, but that of an endpoint: it limits what roles may do there. */
function allowedIn(template: Template): string[] {
  type Document = { readonly Statement: readonly Statement[] };
  interface Resource {
    readonly Type: string;
    readonly Properties?: {
      readonly PolicyDocument?: Document;
      readonly KeyPolicy?: Document;
      readonly Policies?: readonly { readonly PolicyDocument: Document }[];
    };
  }
  const resources: Resource[] = Object.values(template.toJSON().Resources);
  const documents = resources
    .filter(({ Type }) => Type !== 'AWS::EC2::VPCEndpoint')
    .flatMap(({ Properties: { PolicyDocument, KeyPolicy, Policies = [] } = {} }) => [
      PolicyDocument,
      KeyPolicy,
      ...Policies.map((policy) => policy.PolicyDocument),
    ]);
  const statements = documents.flatMap((document) => document?.Statement ?? []);
  return rightsIn(statements.filter(({ Effect }) => Effect === 'Allow'));
}
