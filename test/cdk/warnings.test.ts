import { describe, expect, it } from '@jest/globals';
import { Duration, Stack, Validations } from 'aws-cdk-lib';
import { AttributeType, Table, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import {
  GatewayVpcEndpointAwsService,
  InterfaceVpcEndpoint,
  InterfaceVpcEndpointAwsService,
  SubnetType,
  Vpc,
} from 'aws-cdk-lib/aws-ec2';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { IConstruct } from 'constructs';
import { type BatchScoringProps, type Compute, ecsCompute, ecsGpuCompute, lambdaCompute } from '../../infra/index.ts';
import { createApp, createScoring, createStack } from '../helpers/stacks.ts';

type Props = Partial<BatchScoringProps<Compute>>;

const KEY_ARN = 'arn:aws:kms:eu-central-1:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9';
const QUEUE_ARN = 'arn:aws:sqs:eu-central-1:123456789012:orders';
const visibilityTimeout = Duration.seconds(400);

/** What synth warns of, each without the tag of its ID. Read from the constructs, which takes no synth. */
function warningsOf(scoring: IConstruct): string[] {
  return Stack.of(scoring)
    .node.findAll()
    .flatMap(({ node }) => node.metadata)
    .filter(({ type }) => type === 'aws:cdk:warning')
    .map(({ data }) => String(data).replace(/ \[ack: batchscore:\w+\]$/, ''));
}

const warningsWith = (props: Props, stack = createStack()) => warningsOf(createScoring<Compute>(props, stack));

/** An existing request queue, of which the CDK knows no more than the ARN, and its dead letters. */
function orders(stack: Stack, keyArn?: string): BatchScoringProps['requestQueue'] {
  const queue = Queue.fromQueueAttributes(stack, 'Orders', { queueArn: QUEUE_ARN, ...(keyArn && { keyArn }) });
  return { queue, visibilityTimeout, deadLetterQueue: Queue.fromQueueArn(stack, 'Dead', `${QUEUE_ARN}-dead`) };
}

/** A request queue of the app, with dead letters. */
function ownQueue(stack: Stack, timeout = visibilityTimeout): BatchScoringProps['requestQueue'] {
  const deadLetterQueue = { queue: new Queue(stack, 'Dead'), maxReceiveCount: 5 };
  const queue = new Queue(stack, 'Orders', { visibilityTimeout: timeout, deadLetterQueue });
  return { queue, visibilityTimeout: timeout };
}

describe('an imported key', () => {
  it('is warned of once, with the page that has the statement for logs', () => {
    const stack = createStack();
    expect(warningsWith({ encryptionKey: Key.fromKeyArn(stack, 'Key', KEY_ARN) }, stack)).toEqual([
      'encryptionKey: expected a key that CloudWatch Logs may use, got an imported one, whose policy the CDK neither knows ' +
        'nor changes; add the statement of https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html ' +
        'to its policy',
    ]);
  });

  it('is warned of once if several log groups use it', () => {
    const stack = createStack();
    const encryptionKey = Key.fromKeyArn(stack, 'Key', KEY_ARN);
    expect(warningsWith({ encryptionKey, jobs: {} }, stack)).toHaveLength(1);
  });

  it('is warned of where Fargate needs it for disks', () => {
    const withKey = (compute: Props['compute']) => {
      const stack = createStack();
      return warningsWith({ compute, encryptionKey: Key.fromKeyArn(stack, 'Key', KEY_ARN) }, stack);
    };
    const ofDisks = expect.stringContaining('encryptionKey: expected a key that Fargate may encrypt disks with');
    expect(withKey(ecsCompute())).toContainEqual(ofDisks);
    expect(withKey(ecsGpuCompute())).not.toContainEqual(ofDisks);
  });
});

describe('an imported queue, table or bucket', () => {
  it('is warned of where its key is not known, with the way to import it', () => {
    const stack = createStack();
    const stores = {
      resultQueue: Queue.fromQueueArn(stack, 'Scores', `${QUEUE_ARN}-scores`),
      resultTable: Table.fromTableName(stack, 'Table', 'scores'),
      resultBucket: Bucket.fromBucketName(stack, 'Bucket', 'scores'),
    };
    const payloadBucket = Bucket.fromBucketName(stack, 'Payloads', 'payloads');
    const scoring = createScoring(
      { requestQueue: orders(stack), results: ['queue', 'table', 'bucket'], stores, payloadBucket },
      stack,
    );
    const said = (name: string, how: string) =>
      `${name}: expected to know the key that it is encrypted with, got an imported one without; if it has a key of its ` +
      `own, import it with ${how}`;
    const bucket = 'Bucket.fromBucketAttributes and encryptionKey';
    expect(warningsOf(scoring)).toEqual([
      said('requestQueue', 'Queue.fromQueueAttributes and keyArn'),
      said('stores.resultQueue', 'Queue.fromQueueAttributes and keyArn'),
      said('stores.resultTable', 'Table.fromTableAttributes and encryptionKey'),
      said('stores.resultBucket', bucket),
      said('payloadBucket', bucket),
    ]);
  });

  it('is not warned of where its key is known', () => {
    const stack = createStack();
    const encryptionKey = Key.fromKeyArn(stack, 'Key', KEY_ARN);
    const stores = {
      resultTable: Table.fromTableAttributes(stack, 'Table', { tableName: 'scores', encryptionKey }),
      resultBucket: Bucket.fromBucketAttributes(stack, 'Bucket', { bucketName: 'scores', encryptionKey }),
    };
    const results = ['table', 'bucket'] as const;
    expect(warningsOf(createScoring({ requestQueue: orders(stack, KEY_ARN), results, stores }, stack))).toEqual([]);
  });

  it('is not warned of when it is of the app', () => {
    const stack = createStack();
    const stores = { resultBucket: new Bucket(stack, 'Scores') };
    const props = { requestQueue: ownQueue(stack), results: ['bucket'], stores } as const;
    expect(warningsWith({ ...props, payloadBucket: new Bucket(stack, 'Payloads') }, stack)).toEqual([]);
  });
});

describe('a table of the app', () => {
  const warningsOfTable = (timeToLiveAttribute: string | undefined, Kind: typeof Table | typeof TableV2 = Table) => {
    const stack = createStack();
    const partitionKey = { name: 'messageId', type: AttributeType.STRING };
    const resultTable = new Kind(stack, 'Table', { partitionKey, ...(timeToLiveAttribute && { timeToLiveAttribute }) });
    return warningsWith({ results: ['table'], stores: { resultTable } }, stack);
  };

  it('is warned of where its items do not expire by the attribute of results', () => {
    const said = (attribute: string) =>
      'stores.resultTable: expected the TTL attribute expiresAt, because results never expire without, got ' +
      `${attribute}; set it as the table's timeToLiveAttribute`;
    expect(warningsOfTable(undefined)).toEqual([said('none')]);
    expect(warningsOfTable('ttl')).toEqual([said('ttl')]);
    expect(warningsOfTable('ttl', TableV2)).toEqual([said('ttl')]);
    expect(warningsOfTable('expiresAt')).toEqual([]);
    expect(warningsOfTable('expiresAt', TableV2)).toEqual([]);
  });
});

describe('a network of your own', () => {
  const isolatedVpc = (stack: Stack) =>
    new Vpc(stack, 'Own', {
      natGateways: 0,
      restrictDefaultSecurityGroup: false,
      subnetConfiguration: [{ name: 'Isolated', subnetType: SubnetType.PRIVATE_ISOLATED }],
    });

  it.each<[string, (vpc: Vpc) => Props]>([
    ['a function', (vpc) => ({ compute: lambdaCompute({ vpc }) })],
    ['tasks', (vpc) => ({ compute: ecsCompute({ vpc }) })],
  ])('is warned of where %s would reach nothing, and not with the endpoint of SQS', (_, propsOf) => {
    const stack = createStack();
    const vpc = isolatedVpc(stack);
    vpc.addInterfaceEndpoint('Logs', { service: InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS });
    expect(warningsWith(propsOf(vpc), stack)).toEqual([
      'vpc: expected subnets with a way to SQS, got isolated ones of Test/Own without its endpoint; add that before, with ' +
        'vpc.addInterfaceEndpoint or vpc.addGatewayEndpoint, or take subnets with a NAT gateway',
    ]);
    const other = createStack();
    const otherVpc = isolatedVpc(other);
    new InterfaceVpcEndpoint(other, 'Sqs', { vpc: otherVpc, service: InterfaceVpcEndpointAwsService.SQS });
    expect(warningsWith(propsOf(otherVpc), other)).toEqual([]);
  });

  it('is warned of where jobs reach no files and no state machine', () => {
    const stack = createStack();
    const vpc = isolatedVpc(stack);
    vpc.addInterfaceEndpoint('Sqs', { service: InterfaceVpcEndpointAwsService.SQS });
    const wayTo = (service: string) =>
      expect.stringContaining(`expected subnets with a way to ${service}, got isolated`);
    expect(warningsWith({ jobs: { vpc } }, stack)).toEqual([wayTo('S3'), wayTo('Step Functions')]);
    const other = createStack();
    const otherVpc = isolatedVpc(other);
    otherVpc.addGatewayEndpoint('S3', { service: GatewayVpcEndpointAwsService.S3 });
    otherVpc.addInterfaceEndpoint('States', { service: InterfaceVpcEndpointAwsService.STEP_FUNCTIONS });
    expect(warningsWith({ jobs: { vpc: otherVpc } }, other)).toEqual([]);
  });
});

it('a queue and a key of another account are warned of, as their owner must let this one use them', () => {
  const env = { account: '210987654321', region: 'eu-central-1' };
  const stack = new Stack(createApp(), 'Test', { env });
  const encryptionKey = Key.fromKeyArn(stack, 'Key', KEY_ARN);
  const warnings = warningsWith({ requestQueue: orders(stack), encryptionKey }, stack);
  for (const name of ['requestQueue', 'encryptionKey']) {
    expect(warnings).toContain(
      `${name}: expected one in the account of the stack, 210987654321, because the CDK cannot change the policy of others, ` +
        'got one in 123456789012; have its owner let account 210987654321 use it in its policy, and deploy then',
    );
  }
});

describe('an existing request queue', () => {
  it('is warned of where it hides messages for less than AWS recommends, with the arithmetic', () => {
    const warningsAt = (seconds: number) => {
      const stack = createStack();
      return warningsWith({ requestQueue: ownQueue(stack, Duration.seconds(seconds)) }, stack);
    };
    expect(warningsAt(361)).toEqual([]);
    expect(warningsAt(360)).toEqual([
      expect.stringContaining('expected at least 361 seconds = 6 × 60 s timeout + 1 s window, which AWS recommends'),
    ]);
  });

  it.each([
    ['standard', {}, 1],
    ['FIFO, where their days begin anew', { fifo: true }, 0],
  ])('is warned of where its dead letters expire before they can be read: %s', (_, kind, count) => {
    const stack = createStack();
    const dead = new Queue(stack, 'Dead', { ...kind, retentionPeriod: Duration.days(1) });
    const deadLetterQueue = { queue: dead, maxReceiveCount: 5 };
    const queue = new Queue(stack, 'Orders', { ...kind, visibilityTimeout, deadLetterQueue });
    const said =
      'requestQueue.deadLetterQueue: expected it to keep messages for at least 345600 seconds, as the request queue does, ' +
      'because SQS counts from the first send, got 86400; raise its retentionPeriod';
    expect(warningsWith({ requestQueue: { queue, visibilityTimeout } }, stack)).toEqual(Array(count).fill(said));
  });

  it.each([
    ['of the app', (stack: Stack) => new Queue(stack, 'Orders', { visibilityTimeout })],
    [
      'imported',
      (stack: Stack) => Queue.fromQueueAttributes(stack, 'Orders', { queueArn: QUEUE_ARN, keyArn: KEY_ARN }),
    ],
  ])('is warned of where it has no dead letters, with the policy that it needs: %s', (_, queueIn) => {
    const stack = createStack();
    expect(warningsWith({ requestQueue: { queue: queueIn(stack), visibilityTimeout } }, stack)).toEqual([
      'requestQueue: expected a queue with dead letters, because a message that can never be scored comes back until it ' +
        'expires, got one of which none are known; give deadLetterQueue, and the queue the redrive policy ' +
        '{"deadLetterTargetArn":"DEAD_LETTER_QUEUE_ARN","maxReceiveCount":20}',
    ]);
  });
});

it('warnings of one ID may be acknowledged for one of several existing things', () => {
  const stack = createStack();
  const payloadBucket = Bucket.fromBucketName(stack, 'Payloads', 'payloads');
  const scoring = createScoring({ requestQueue: orders(stack), payloadBucket }, stack);
  const where = { resource: 'payloadBucket' };
  Validations.of(scoring).acknowledge({ id: 'batchscore:unknownKey', reason: 'It has no key of its own', where });
  expect(warningsOf(scoring)).toEqual([expect.stringMatching(/^requestQueue: /)]);
});
