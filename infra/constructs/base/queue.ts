import { Duration, type RemovalPolicy } from 'aws-cdk-lib';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import {
  type DeadLetterQueue,
  DeduplicationScope,
  FifoThroughputLimit,
  Queue,
  QueueEncryption,
} from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

export interface QueueOptions {
  readonly fifo: boolean;
  readonly encryptionKey: IKey | undefined;
  readonly retentionDays: number;
  /** What becomes of it when the stack no longer has it. @default RemovalPolicy.DESTROY */
  readonly removalPolicy?: RemovalPolicy;
  /** @default 30, which is SQS's own */
  readonly visibilityTimeoutSeconds?: number;
  /** @default none */
  readonly deadLetterQueue?: DeadLetterQueue;
}

/**
 * Both settings together raise the quota from 300 calls of each kind a second to that of the region. Deduplication IDs then
 * count within a message group; in the dead letters too, where messages of two groups may have the same one.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/high-throughput-fifo.html
 */
const HIGH_THROUGHPUT_FIFO = {
  fifo: true,
  deduplicationScope: DeduplicationScope.MESSAGE_GROUP,
  fifoThroughputLimit: FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
};

/** An encrypted queue that is reached only over TLS. */
export function createQueue(scope: Construct, id: string, options: QueueOptions): Queue {
  const { fifo, encryptionKey, retentionDays, removalPolicy, visibilityTimeoutSeconds, deadLetterQueue } = options;
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
  });
}
