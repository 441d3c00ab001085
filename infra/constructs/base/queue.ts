import { Duration, type RemovalPolicy } from 'aws-cdk-lib';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { type DeadLetterQueue, Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
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

/** An encrypted queue that is reached only over TLS. */
export function createQueue(scope: Construct, id: string, options: QueueOptions): Queue {
  const { fifo, encryptionKey, retentionDays, removalPolicy, visibilityTimeoutSeconds, deadLetterQueue } = options;
  return new Queue(scope, id, {
    enforceSSL: true,
    retentionPeriod: Duration.days(retentionDays),
    ...(encryptionKey === undefined
      ? { encryption: QueueEncryption.SQS_MANAGED }
      : { encryption: QueueEncryption.KMS, encryptionMasterKey: encryptionKey }),
    // CloudFormation accepts `fifo: true` or nothing.
    ...(fifo && { fifo }),
    ...(removalPolicy !== undefined && { removalPolicy }),
    ...(visibilityTimeoutSeconds !== undefined && { visibilityTimeout: Duration.seconds(visibilityTimeoutSeconds) }),
    ...(deadLetterQueue !== undefined && { deadLetterQueue }),
  });
}
