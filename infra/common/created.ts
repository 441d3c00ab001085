import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import { BlockPublicAccess, Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3';
import {
  type DeadLetterQueue,
  DeduplicationScope,
  FifoThroughputLimit,
  type IQueue,
  Queue,
  QueueEncryption,
  type QueueProps,
} from 'aws-cdk-lib/aws-sqs';
import { ArnFormat, CfnResource, Duration, type RemovalPolicy, Stack } from 'aws-cdk-lib/core';
import type { Construct, IConstruct } from 'constructs';
import { acknowledge } from './nag.ts';
import { statementText, warn } from './problems.ts';

export type Queues = readonly [IQueue, ...IQueue[]];

interface QueueOptions {
  readonly fifo: boolean;
  readonly encryptionKey: IKey | undefined;
  readonly retentionDays: number;
  /** Policy for a resource that is removed from the stack. @default RemovalPolicy.DESTROY */
  readonly removalPolicy?: RemovalPolicy;
  /** @default 30, which is SQS's own */
  readonly visibilityTimeoutSeconds?: number;
  /** @default none */
  readonly deadLetterQueue?: DeadLetterQueue;
  /** Additional options that the deployer sets. @default none */
  readonly more?: QueueProps | undefined;
}

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

/** Creates an encrypted queue that requires TLS. */
export function createQueue(scope: Construct, id: string, options: QueueOptions): Queue {
  const { fifo, encryptionKey, retentionDays, removalPolicy, visibilityTimeoutSeconds, deadLetterQueue, more } =
    options;
  return new Queue(scope, id, {
    enforceSSL: true,
    retentionPeriod: Duration.days(retentionDays),
    ...(encryptionKey === undefined
      ? { encryption: QueueEncryption.SQS_MANAGED }
      : { encryption: QueueEncryption.KMS, encryptionMasterKey: encryptionKey }),
    ...(fifo && HIGH_THROUGHPUT_FIFO),
    ...(removalPolicy !== undefined && { removalPolicy }),
    ...(visibilityTimeoutSeconds !== undefined && { visibilityTimeout: Duration.seconds(visibilityTimeoutSeconds) }),
    ...(deadLetterQueue !== undefined && { deadLetterQueue }),
    ...more,
  });
}

/** Days until an object of a new bucket may be deleted. */
export const EXPIRY_DAYS = { min: 1, max: 3650 };

interface BucketOptions {
  readonly encryptionKey: IKey | undefined;
  readonly removalPolicy: RemovalPolicy;
  /** Days until an object is deleted. @default never */
  readonly expiryDays?: number | undefined;
}

/** Creates a private, encrypted bucket that requires TLS. */
export function createBucket(scope: Construct, id: string, options: BucketOptions): Bucket {
  const { encryptionKey, removalPolicy, expiryDays } = options;
  const bucket = new Bucket(scope, id, {
    blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
    enforceSSL: true,
    removalPolicy,
    ...(encryptionKey === undefined
      ? { encryption: BucketEncryption.S3_MANAGED }
      : { encryption: BucketEncryption.KMS, encryptionKey, bucketKeyEnabled: true }),
    lifecycleRules: [
      {
        abortIncompleteMultipartUploadAfter: Duration.days(1),
        ...(expiryDays !== undefined && { expiration: Duration.days(expiryDays) }),
      },
    ],
  });
  acknowledge(bucket, 'bucketLogs');
  return bucket;
}

export interface LogGroupOptions {
  readonly encryptionKey: IKey | undefined;
  readonly logRetention: RetentionDays;
  readonly removalPolicy: RemovalPolicy;
}

/** Creates a log group that expires its logs, and lets CloudWatch Logs encrypt it with the given key. */
export function createLogGroup(scope: Construct, id: string, options: LogGroupOptions): LogGroup {
  const { encryptionKey, logRetention, removalPolicy } = options;
  if (encryptionKey !== undefined) allowLogs(scope, encryptionKey);
  return new LogGroup(scope, id, {
    retention: logRetention,
    removalPolicy,
    ...(encryptionKey !== undefined && { encryptionKey }),
  });
}

/**
 * Gives the functions of the CDK's custom resources a log group that expires its logs. By default their logs never
 * expire, and the CDK's `CustomResourceConfig` does not cover these functions.
 *
 * @param parents constructs that contain the functions
 */
export function keepLogsOf(scope: Construct, parents: readonly IConstruct[], options: LogGroupOptions): void {
  for (const parent of parents) {
    for (const resource of parent.node.findAll().filter(isFunction)) {
      const { logGroupName } = createLogGroup(scope, parent.node.id, options);
      resource.addPropertyOverride('LoggingConfig', { LogGroup: logGroupName });
    }
  }
}

function isFunction(construct: IConstruct): construct is CfnResource {
  return CfnResource.isCfnResource(construct) && construct.cfnResourceType === 'AWS::Lambda::Function';
}

/**
 * Lets CloudWatch Logs use the key, which its policy must allow. The policy of an imported key cannot be changed here,
 * and without the statement the deployment of the log group fails. A warning then shows the statement to add.
 *
 * @see https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
 */
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
    principals: [new ServicePrincipal(`logs.${stack.region}.amazonaws.com`)],
    actions: ['kms:Encrypt', 'kms:Decrypt', 'kms:ReEncrypt*', 'kms:GenerateDataKey*', 'kms:DescribeKey'],
    resources: ['*'],
    conditions: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': logGroups } },
  });
  if (key.addToResourcePolicy(statement).statementAdded) return;
  warn(
    scope,
    'logKeyPolicy',
    'encryptionKey: expected a key that CloudWatch Logs may use, got an imported one, whose policy the CDK neither knows ' +
      `nor changes; add this to its policy: ${statementText(scope, statement)}`,
  );
}

/** Returns the resource of a construct, to set properties that the construct has no option for. */
export function resourceOf<T extends CfnResource>(of: IConstruct, type: new (...args: never[]) => T): T {
  const resource = of.node.defaultChild;
  if (resource instanceof type) return resource;
  throw new Error(`${of.node.path}: expected a ${type.name} as its child, got ${resource?.node.path ?? 'none'}`);
}
