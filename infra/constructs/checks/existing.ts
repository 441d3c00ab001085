import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { statementText } from '../base/plainText.ts';
import { warn } from '../base/warn.ts';
import type { Channels } from '../storage/channels.ts';
import { isKeyUnknown } from '../storage/known.ts';
import type { RequestQueues } from '../storage/requestQueue.ts';

/** Whether a queue, table or bucket that exists already has a key of its own is not known, so nothing is granted for it. */
export function warnOfUnknownKeys(
  scope: Construct,
  { requestQueues: [requestQueue], stores, payloadBucket }: Channels,
  jobBucket?: IBucket,
): void {
  const existing = [
    { name: 'requestQueue', resource: requestQueue, how: QUEUE, actions: ['kms:Decrypt'] },
    { name: 'stores.resultQueue', resource: stores.resultQueue, how: QUEUE, actions: READ_AND_WRITE },
    { name: 'stores.resultTable', resource: stores.resultTable, how: TABLE, actions: OF_TABLE },
    { name: 'stores.resultBucket', resource: stores.resultBucket, how: BUCKET, actions: ['kms:GenerateDataKey'] },
    { name: 'payloadBucket', resource: payloadBucket, how: BUCKET, actions: READ_AND_WRITE },
    { name: 'jobs.bucket', resource: jobBucket, how: BUCKET, actions: READ_AND_WRITE },
  ];
  for (const { name, resource, how, actions } of existing) {
    if (!isKeyUnknown(resource)) continue;
    const statement = new PolicyStatement({ actions, resources: ['KEY_ARN'] });
    warn(
      scope,
      'unknownKey',
      `${name}: expected to know the key that it is encrypted with, got an imported one without; if it has a key of its ` +
        `own, import it with ${how}, or add this to the function's role: ${statementText(scope, statement)}`,
      { resource: name },
    );
  }
}

const QUEUE = 'Queue.fromQueueAttributes and keyArn';
const TABLE = 'Table.fromTableAttributes and encryptionKey';
const BUCKET = 'Bucket.fromBucketAttributes and encryptionKey';

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html */
const READ_AND_WRITE = ['kms:Decrypt', 'kms:GenerateDataKey'];
/** @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html */
const OF_TABLE = ['kms:Decrypt', 'kms:DescribeKey', 'kms:Encrypt', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'];

/** Without dead letters a message that ends its host comes back, with those beside it, until it expires. */
export function warnOfNoDeadLetters(
  scope: Construct,
  { deadLetterQueue }: RequestQueues,
  maxReceiveCount: number,
): void {
  if (deadLetterQueue !== undefined) return;
  const policy = JSON.stringify({ deadLetterTargetArn: 'DEAD_LETTER_QUEUE_ARN', maxReceiveCount });
  warn(
    scope,
    'noDeadLetters',
    'requestQueue: expected a queue with dead letters, because a message that can never be scored comes back until it ' +
      `expires, got one of which none are known; give deadLetterQueue, and the queue the redrive policy ${policy}`,
  );
}
