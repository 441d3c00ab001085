import type { IEventBus } from 'aws-cdk-lib/aws-events';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { Bucket, type IBucket } from 'aws-cdk-lib/aws-s3';
import { type ITopic, TopicBase } from 'aws-cdk-lib/aws-sns';
import { type IQueue, QueueGrants } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { capturedKeys, requestKeys, resultKeys } from '../../lambda/core/places.ts';
import type { Channels } from './channels.ts';
import { isKeyUnknown, type ModelPlace } from './existingThings.ts';
import { acknowledgeActions, acknowledgeWildcard } from './problems.ts';

/** Keys that are not known from what they encrypt. */
export interface Keys {
  readonly encryptionKey?: IKey | undefined;
  /** What was `encryptionKey` before: messages and objects from then are still encrypted with it. */
  readonly formerEncryptionKey?: IKey | undefined;
}

/**
 * What scoring needs: take requests, delay them, read their payloads, write results. Existing things whose key the CDK does
 * not know are taken to have that of the deployment, which also encrypts the environment.
 */
export function grantScoring(scope: Construct, grantee: IGrantable, keys: Keys, channels: Channels): void {
  const { requestQueues, stores, payloadBucket, payloadPrefix, resultPrefix, captureBucket, capturePrefix } = channels;
  const clientQueues = Object.values(channels.clientQueues);
  for (const queue of requestQueues) QueueGrants.fromQueue(queue).consumeMessages(grantee);
  grantRead(grantee, payloadBucket, requestKeys(payloadPrefix));
  grantPut(grantee, payloadBucket, resultKeys(payloadPrefix));
  if (stores.resultQueue !== undefined) QueueGrants.fromQueue(stores.resultQueue).sendMessages(grantee);
  for (const queue of clientQueues) QueueGrants.fromQueue(queue).sendMessages(grantee);
  if (stores.resultTable !== undefined) {
    stores.resultTable.encryptionKey?.grantEncryptDecrypt(grantee);
    stores.resultTable.grant(grantee, 'dynamodb:BatchWriteItem');
  }
  if (stores.resultBucket !== undefined) grantPut(grantee, stores.resultBucket, resultKeys(resultPrefix));
  if (captureBucket !== undefined) grantPut(grantee, captureBucket, capturedKeys(capturePrefix));
  acknowledgeScoring(scope, channels);
  // A role of one's own stands elsewhere, and its policy with it.
  if (Construct.isConstruct(grantee.grantPrincipal)) acknowledgeScoring(grantee.grantPrincipal, channels);
  keys.encryptionKey?.grantDecrypt(grantee);
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  if ([...requestQueues, ...Object.values(stores), payloadBucket, captureBucket].some(isKeyUnknown)) {
    keys.encryptionKey?.grantEncryptDecrypt(grantee);
  }
}

function acknowledgeScoring(scope: Construct, channels: Channels): void {
  const { stores, payloadBucket, payloadPrefix, resultPrefix, captureBucket, capturePrefix } = channels;
  const acknowledgeKeys = (bucket: IBucket, keys: string, reason: string): void =>
    acknowledgeWildcard(scope, bucket.arnForObjects(patternOf(keys)), reason);
  acknowledgeKeys(payloadBucket, requestKeys(payloadPrefix), 'Producers choose the keys of their uploads');
  acknowledgeKeys(payloadBucket, resultKeys(payloadPrefix), 'Every large result gets a key of its own');
  if (stores.resultBucket !== undefined) {
    acknowledgeKeys(stores.resultBucket, resultKeys(resultPrefix), 'Every write gets a key of its own');
  }
  if (captureBucket !== undefined) {
    acknowledgeKeys(captureBucket, capturedKeys(capturePrefix), 'Every object of samples gets a key of its own');
  }
  acknowledgeActions(scope, ['kms:GenerateDataKey*', 'kms:ReEncrypt*'], 'These are variants of one action, on one key');
}

/** What a producer needs: send requests, and upload those that are too large to send. */
export function grantSubmit(grantee: IGrantable, { encryptionKey }: Keys, channels: Channels): Grant {
  const { requestQueues, payloadBucket, payloadPrefix } = channels;
  if ([...requestQueues, payloadBucket].some(isKeyUnknown)) encryptionKey?.grantEncryptDecrypt(grantee);
  return combine([
    ...requestQueues.map((queue) => QueueGrants.fromQueue(queue).sendMessages(grantee)),
    grantPut(grantee, payloadBucket, requestKeys(payloadPrefix)),
  ]);
}

/** What a consumer needs: take results from every store, and read those that were too large for it. */
export function grantCollect(grantee: IGrantable, keys: Keys, channels: Channels): Grant {
  const { stores, payloadBucket, payloadPrefix, resultPrefix } = channels;
  const { resultQueue, resultTable, resultBucket } = stores;
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  if ([...Object.values(stores), payloadBucket].some(isKeyUnknown)) keys.encryptionKey?.grantDecrypt(grantee);
  resultTable?.encryptionKey?.grantDecrypt(grantee);
  return combine([
    grantRead(grantee, payloadBucket, resultKeys(payloadPrefix)),
    resultQueue && QueueGrants.fromQueue(resultQueue).consumeMessages(grantee),
    ...Object.values(channels.clientQueues).map((queue) => QueueGrants.fromQueue(queue).consumeMessages(grantee)),
    resultTable?.grant(grantee, 'dynamodb:GetItem', 'dynamodb:BatchGetItem'),
    resultBucket && grantRead(grantee, resultBucket, resultKeys(resultPrefix)),
  ]);
}

/** To see how much waits, and to drop it. */
const EMPTY = ['sqs:GetQueueAttributes', 'sqs:GetQueueUrl', 'sqs:PurgeQueue'];

/**
 * To look into the dead letters, to make visible again at once what was looked at, and to send them back.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
 */
const REDRIVE = [
  'sqs:StartMessageMoveTask',
  'sqs:ListMessageMoveTasks',
  'sqs:CancelMessageMoveTask',
  'sqs:ReceiveMessage',
  'sqs:DeleteMessage',
  'sqs:ChangeMessageVisibility',
];
const REENCRYPT = ['kms:Decrypt', 'kms:GenerateDataKey'];

/** What an operator needs: look into the dead letters, send them back, empty the queues. */
export function grantRepair(grantee: IGrantable, keys: Keys, channels: Channels): Grant {
  const { requestQueues, deadLetterQueue } = channels;
  const on = (queue: IQueue, actions: string[]): Grant =>
    Grant.addToPrincipalOrResource({ grantee, actions, resourceArns: [queue.queueArn], resource: queue });
  if (deadLetterQueue === undefined) return combine(requestQueues.map((queue) => on(queue, EMPTY)));
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  if ([...requestQueues, deadLetterQueue].some(isKeyUnknown)) keys.encryptionKey?.grant(grantee, ...REENCRYPT);
  const grants = [
    ...requestQueues.map((queue) => on(queue, [...EMPTY, 'sqs:SendMessage'])),
    on(deadLetterQueue, [...EMPTY, ...REDRIVE]),
  ];
  deadLetterQueue.encryptionMasterKey?.grantDecrypt(grantee);
  for (const queue of requestQueues) queue.encryptionMasterKey?.grant(grantee, ...REENCRYPT);
  return combine(grants);
}

/** The right to tell a bus or a topic, whose key must be known for that. */
export function grantTell(grantee: IGrantable, events: IEventBus | ITopic): void {
  if ('eventBusArn' in events) {
    Grant.addToPrincipal({ grantee, actions: ['events:PutEvents'], resourceArns: [events.eventBusArn] });
    return;
  }
  Grant.addToPrincipal({ grantee, actions: ['sns:Publish'], resourceArns: [events.topicArn] });
  if (events instanceof TopicBase) events.masterKey?.grant(grantee, 'kms:Decrypt', 'kms:GenerateDataKey*');
}

export function arnOfEvents(events: IEventBus | ITopic): string {
  return 'eventBusArn' in events ? events.eventBusArn : events.topicArn;
}

/** Several rights as one. */
export function combine(grants: readonly (Grant | undefined)[]): Grant {
  return grants.filter((grant) => grant !== undefined).reduce((all, grant) => all.combine(grant));
}

/** The right to get the objects of one published repository, and no others. */
export function grantModels(scope: Construct, grantee: IGrantable, { s3 }: ModelPlace): void {
  if (s3 === undefined) return;
  const bucket = s3.bucketOfUri ?? Bucket.fromBucketName(scope, 'Models', s3.bucket);
  const keys = `${s3.folder}/`;
  grantGet(grantee, bucket, keys);
  const objects = bucket.arnForObjects(patternOf(keys));
  acknowledgeWildcard(scope, objects, 'These are the files of one model repository, which only its manifest lists');
}

/**
 * The right to get objects, and to list them: without it, S3 answers a request for a missing object with "forbidden"
 * instead of "not found". For that question the key itself counts as the prefix that is listed.
 *
 * @param keys what the keys begin with that may be read, such as `results/`
 * @see https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
 */
export function grantRead(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  const list = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:ListBucket'],
    resourceArns: [bucket.bucketArn],
    resource: bucket,
    conditions: { StringLike: { 's3:prefix': patternOf(keys) } },
  });
  return list.combine(grantGet(grantee, bucket, keys));
}

/** The right to get objects and to decrypt them, and nothing else. */
function grantGet(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  bucket.encryptionKey?.grantDecrypt(grantee);
  return Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:GetObject'],
    resourceArns: [bucket.arnForObjects(patternOf(keys))],
    resource: bucket,
  });
}

/**
 * The right to put objects in one piece. In several pieces they could not be put with a key of one's own: for that S3
 * asks for `kms:Decrypt` too.
 *
 * @param keys what the keys begin with that may be written, such as `requests/`
 * @see https://repost.aws/knowledge-center/s3-large-file-encryption-kms-key
 */
export function grantPut(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  bucket.encryptionKey?.grant(grantee, 'kms:GenerateDataKey');
  return Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:PutObject'],
    resourceArns: [bucket.arnForObjects(patternOf(keys))],
    resource: bucket,
  });
}

/** In policies, of all keys that begin so. */
export function patternOf(keys: string): string {
  return `${keys}*`;
}
