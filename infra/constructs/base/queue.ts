import { Duration } from 'aws-cdk-lib';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { type DeadLetterQueue, Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

export interface QueueOptions {
  readonly fifo: boolean;
  readonly encryptionKey: IKey | undefined;
  readonly retentionDays: number;
  /** @default 30, which is SQS's own */
  readonly visibilityTimeoutSeconds?: number;
  /** @default none */
  readonly deadLetterQueue?: DeadLetterQueue;
}

/** An encrypted queue that is reached only over TLS. */
export function createQueue(scope: Construct, id: string, options: QueueOptions): Queue {
  const { fifo, encryptionKey, retentionDays, visibilityTimeoutSeconds, deadLetterQueue } = options;
  return new Queue(scope, id, {
    enforceSSL: true,
    retentionPeriod: Duration.days(retentionDays),
    ...(encryptionKey === undefined
      ? { encryption: QueueEncryption.SQS_MANAGED }
      : { encryption: QueueEncryption.KMS, encryptionMasterKey: encryptionKey }),
    // CloudFormation accepts `fifo: true` or nothing.
    ...(fifo && { fifo }),
    ...(visibilityTimeoutSeconds !== undefined && { visibilityTimeout: Duration.seconds(visibilityTimeoutSeconds) }),
    ...(deadLetterQueue !== undefined && { deadLetterQueue }),
  });
}
