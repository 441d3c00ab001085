import { describe, expect, it } from '@jest/globals';
import { Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { type BatchScoring, type BatchScoringProps, lambdaCompute } from '../../infra/index.ts';
import { createScoring, createStack } from '../helpers/stacks.ts';

const KEY_ARN = 'arn:aws:kms:eu-central-1:123456789012:key/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9';
const QUEUE_ARN = 'arn:aws:sqs:eu-central-1:123456789012:orders';
const USE = ['kms:Decrypt', 'kms:Encrypt', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'];

/** What the host, a producer and a consumer may do with a key. */
function allowedWith(key: IKey, scoring: BatchScoring) {
  const stack = Stack.of(scoring);
  const roleOf = (id: string) => new Role(stack, id, { assumedBy: new ServicePrincipal('ec2.amazonaws.com') });
  scoring.grantSubmit(roleOf('Producer'));
  scoring.grantCollect(roleOf('Consumer'));
  const [host, producer, consumer] = allowedTo(['ComputelambdaRole', 'Producer', 'Consumer'], key, stack);
  return { host, producer, consumer };
}

/** What each of the roles whose logical IDs hold these words may do with a key. */
function allowedTo(roles: readonly string[], key: IKey, stack: Stack): string[][] {
  const policies = Object.values(Template.fromStack(stack).findResources('AWS::IAM::Policy'));
  const arn = JSON.stringify(stack.resolve(key.keyArn));
  return roles.map((role) => {
    const actions = policies
      .filter(({ Properties }) => JSON.stringify(Properties.Roles).includes(role))
      .flatMap(({ Properties }) => Properties.PolicyDocument.Statement)
      .filter(({ Resource }) => [Resource].flat().some((one) => JSON.stringify(one) === arn))
      .flatMap(({ Action }) => Action);
    return [...new Set<string>(actions)].toSorted();
  });
}

/** Every queue and bucket exists already, and the CDK knows of no key. */
function imported(stack: Stack): Partial<BatchScoringProps> {
  const queue = Queue.fromQueueArn(stack, 'Orders', QUEUE_ARN);
  return {
    requestQueue: { queue, visibilityTimeout: Duration.seconds(400) },
    stores: { resultQueue: Queue.fromQueueArn(stack, 'Scores', `${QUEUE_ARN}-scores`) },
    payloadBucket: Bucket.fromBucketName(stack, 'Payloads', 'payloads'),
  };
}

describe('a key of your own', () => {
  it('is taken for that of existing queues and buckets whose key is not known', () => {
    const stack = createStack();
    const encryptionKey = Key.fromKeyArn(stack, 'Key', KEY_ARN);
    const scoring = createScoring({ ...imported(stack), encryptionKey }, stack);
    expect(allowedWith(encryptionKey, scoring)).toEqual({ host: USE, producer: USE, consumer: ['kms:Decrypt'] });
  });

  it('opens nothing but the environment where all that exists is known to have none', () => {
    const stack = createStack();
    const encryptionKey = new Key(stack, 'Key');
    const visibilityTimeout = Duration.seconds(400);
    const queue = new Queue(stack, 'Orders', { visibilityTimeout });
    const stores = { resultQueue: new Queue(stack, 'Scores') };
    const payloadBucket = new Bucket(stack, 'Payloads');
    const requestQueue = { queue, visibilityTimeout };
    const scoring = createScoring({ requestQueue, stores, payloadBucket, encryptionKey }, stack);
    expect(allowedWith(encryptionKey, scoring)).toEqual({ host: ['kms:Decrypt'], producer: [], consumer: [] });
  });
});

describe('a role of your own', () => {
  it('may use the key of your own, whatever exists already', () => {
    const stack = createStack();
    const encryptionKey = Key.fromKeyArn(stack, 'Key', KEY_ARN);
    const role = new Role(stack, 'OwnRole', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    createScoring({ ...imported(stack), encryptionKey, compute: lambdaCompute({ role }) }, stack);
    expect(allowedTo(['OwnRole'], encryptionKey, stack)).toEqual([USE]);
  });
});

describe('the key from before a change', () => {
  it.each([
    ['service', undefined],
    ['another key', 'Key'],
  ])('still opens what it has encrypted, and encrypts nothing any more (now: %s)', (_, id) => {
    const stack = createStack();
    const formerEncryptionKey = new Key(stack, 'Former');
    const encryptionKey = id && { encryptionKey: new Key(stack, id) };
    const scoring = createScoring({ formerEncryptionKey, ...encryptionKey }, stack);
    const decrypt = ['kms:Decrypt'];
    expect(allowedWith(formerEncryptionKey, scoring)).toEqual({ host: decrypt, producer: [], consumer: decrypt });
    const used = JSON.stringify(stack.resolve(formerEncryptionKey.keyArn));
    const queues = Object.values(Template.fromStack(stack).findResources('AWS::SQS::Queue'));
    expect(JSON.stringify(queues)).not.toContain(used);
  });
});
