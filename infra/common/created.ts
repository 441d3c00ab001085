import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import { BlockPublicAccess, Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3';
import {
  DeduplicationScope,
  FifoThroughputLimit,
  type IQueue,
  Queue,
  QueueEncryption,
  type QueueProps,
} from 'aws-cdk-lib/aws-sqs';
import { ArnFormat, CfnResource, Duration, PhysicalName, type RemovalPolicy, Stack } from 'aws-cdk-lib/core';
import type { Construct, IConstruct } from 'constructs';
import { acknowledge } from './nag.ts';
import { warn } from './problems.ts';

export type Queues = readonly [IQueue, ...IQueue[]];

/**
 * High throughput: these two settings raise the quota from 300 calls of each kind per second to the region's.
 * Deduplication IDs are then compared only within a message group. That also applies to dead letters, where two groups
 * may use the same ID.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/high-throughput-fifo.html
 */
const HIGH_THROUGHPUT_FIFO = {
  fifo: true,
  deduplicationScope: DeduplicationScope.MESSAGE_GROUP,
  fifoThroughputLimit: FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
};

/** Creates an encrypted queue that requires TLS, in high throughput if it is a FIFO queue. */
export function createQueue(
  scope: Construct,
  id: string,
  { encryptionKey, ...props }: QueueProps & { readonly encryptionKey: IKey | undefined },
): Queue {
  return new Queue(scope, id, {
    // A stack of another account can refer to it. A generated name has no `.fifo`.
    queueName: props.fifo === true ? undefined : PhysicalName.GENERATE_IF_NEEDED,
    ...props,
    enforceSSL: true,
    encryption: encryptionKey === undefined ? QueueEncryption.SQS_MANAGED : QueueEncryption.KMS,
    encryptionMasterKey: encryptionKey,
    ...(props.fifo === true && HIGH_THROUGHPUT_FIFO),
  });
}

/** Days until an object of a new bucket may be deleted. */
export const EXPIRY_DAYS = { min: 1, max: 3650 };

/** How the data of a deployment is kept. */
export interface Keeping {
  readonly encryptionKey: IKey | undefined;
  readonly removalPolicy: RemovalPolicy;
  readonly logRetention: RetentionDays;
}

/** Creates a private, encrypted bucket that requires TLS. Its objects are deleted after some days, if given. */
export function createBucket(scope: Construct, id: string, keeping: Keeping, expiryDays?: number): Bucket {
  const { encryptionKey, removalPolicy } = keeping;
  const bucket = new Bucket(scope, id, {
    bucketName: PhysicalName.GENERATE_IF_NEEDED,
    blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
    enforceSSL: true,
    removalPolicy,
    encryption: encryptionKey === undefined ? BucketEncryption.S3_MANAGED : BucketEncryption.KMS,
    encryptionKey,
    bucketKeyEnabled: encryptionKey !== undefined,
    lifecycleRules: [
      {
        abortIncompleteMultipartUploadAfter: Duration.days(1),
        expiration: expiryDays === undefined ? undefined : Duration.days(expiryDays),
      },
    ],
  });
  acknowledge(bucket, 'bucketLogs');
  return bucket;
}

/** Creates a log group that expires its logs, and lets CloudWatch Logs encrypt it with the given key. */
export function createLogGroup(scope: Construct, id: string, keeping: Keeping): LogGroup {
  const { encryptionKey, logRetention, removalPolicy } = keeping;
  if (encryptionKey !== undefined) allowLogs(scope, encryptionKey);
  return new LogGroup(scope, id, { retention: logRetention, removalPolicy, encryptionKey });
}

/**
 * Gives the functions of the CDK's custom resources a log group that expires its logs. By default their logs never
 * expire, and the CDK's `CustomResourceConfig` does not cover these functions.
 *
 * @param parents constructs that contain the functions
 */
export function keepLogsOf(scope: Construct, parents: readonly IConstruct[], keeping: Keeping): void {
  for (const parent of parents) {
    const resources = parent.node.findAll().filter(CfnResource.isCfnResource);
    const functions = resources.filter(({ cfnResourceType }) => cfnResourceType === 'AWS::Lambda::Function');
    if (functions.length === 0) continue;
    const { logGroupName } = createLogGroup(scope, parent.node.id, keeping);
    for (const resource of functions) resource.addPropertyOverride('LoggingConfig', { LogGroup: logGroupName });
  }
}

/** Lets CloudWatch Logs use the key, which its policy must allow, or the deployment of the log group fails. */
function allowLogs(scope: Construct, key: IKey): void {
  const stack = Stack.of(scope);
  const logGroups = stack.formatArn({
    service: 'logs',
    resource: 'log-group',
    resourceName: '*',
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
  const statement = new PolicyStatement({
    sid: 'LogGroups',
    principals: [new ServicePrincipal(`logs.${stack.region}.${stack.urlSuffix}`)],
    actions: ['kms:Encrypt', 'kms:Decrypt', 'kms:ReEncrypt*', 'kms:GenerateDataKey*', 'kms:DescribeKey'],
    resources: ['*'],
    conditions: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': logGroups } },
  });
  key.addToResourcePolicy(statement);
}

/** Warns that the owner of an imported key must change its policy, as the page says. */
export function warnOfKeyPolicy(scope: Construct, key: IKey, id: string, use: string, page: string): void {
  if (key.node.defaultChild !== undefined) return;
  const message =
    `encryptionKey: expected a key that ${use}, got an imported one, whose policy the CDK neither knows nor changes; ` +
    `add the statement of ${page} to its policy`;
  warn(scope, id, message);
}

/** Returns the resource of a construct, to set properties that the construct has no option for. */
export function resourceOf<T extends CfnResource>(of: IConstruct, type: new (...args: never[]) => T): T {
  const resource = of.node.defaultChild;
  if (resource instanceof type) return resource;
  throw new Error(`${of.node.path}: expected a ${type.name} as its child, got ${resource?.node.path ?? 'none'}`);
}
