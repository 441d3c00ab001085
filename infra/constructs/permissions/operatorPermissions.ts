import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { RequestQueues } from '../storage/requestQueue.ts';
import { grantKeysToOperator, type Keys } from './keyPermissions.ts';

/** To see how much waits, and to drop it. */
const EMPTY = ['sqs:GetQueueAttributes', 'sqs:GetQueueUrl', 'sqs:PurgeQueue'];

/**
 * To look into the dead letters, and to send them back.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
 */
const REDRIVE = [
  'sqs:StartMessageMoveTask',
  'sqs:ListMessageMoveTasks',
  'sqs:CancelMessageMoveTask',
  'sqs:ReceiveMessage',
  'sqs:DeleteMessage',
];

/** What an operator needs: look into the dead letters, send them back, empty the queues. */
export function grantRepair(grantee: IGrantable, keys: Keys, requests: RequestQueues): Grant {
  const { queues, deadLetterQueue } = requests;
  grantKeysToOperator(grantee, keys, requests);
  const onRequests = deadLetterQueue === undefined ? EMPTY : [...EMPTY, 'sqs:SendMessage'];
  const grants = queues.map((queue) => grantOn(grantee, queue, onRequests));
  if (deadLetterQueue !== undefined) {
    grants.push(grantOn(grantee, deadLetterQueue, [...EMPTY, ...REDRIVE]));
    deadLetterQueue.encryptionMasterKey?.grantDecrypt(grantee);
    for (const queue of queues) queue.encryptionMasterKey?.grant(grantee, 'kms:Decrypt', 'kms:GenerateDataKey');
  }
  return grants.reduce((all, grant) => all.combine(grant));
}

function grantOn(grantee: IGrantable, queue: IQueue, actions: string[]): Grant {
  return Grant.addToPrincipalOrResource({ grantee, actions, resourceArns: [queue.queueArn], resource: queue });
}
