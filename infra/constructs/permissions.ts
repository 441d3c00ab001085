import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { type IQueue, QueueGrants } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { acknowledgeActions, acknowledgeWildcard } from './base/acknowledge.ts';
import type { ResultStores } from './storage/resultStores.ts';

/** What messages and results go through. */
export interface Channels {
  readonly requestQueue: IQueue;
  readonly stores: ResultStores;
  readonly payloadBucket: IBucket;
}

/** What the runtime begins the keys of its objects with. */
const PAYLOAD_KEYS = 'payloads/*';
const RESULT_KEYS = 'results/*';
const ANY_KEY = '*';

/** What scoring needs: take requests, delay them, read their payloads, write results. */
export function grantScoring(scope: Construct, grantee: IGrantable, channels: Channels): void {
  const { requestQueue, stores, payloadBucket } = channels;
  QueueGrants.fromQueue(requestQueue).consumeMessages(grantee);
  grantRead(grantee, payloadBucket);
  grantPut(grantee, payloadBucket, PAYLOAD_KEYS);
  if (stores.resultQueue !== undefined) QueueGrants.fromQueue(stores.resultQueue).sendMessages(grantee);
  if (stores.resultTable !== undefined) grantTableWrite(grantee, stores.resultTable);
  if (stores.resultBucket !== undefined) grantPut(grantee, stores.resultBucket, RESULT_KEYS);
  acknowledgeScoring(scope, channels);
}

function acknowledgeScoring(scope: Construct, { stores, payloadBucket }: Channels): void {
  const { resultBucket } = stores;
  acknowledgeWildcard(scope, payloadBucket.arnForObjects(ANY_KEY), 'Producers choose the keys of what they upload');
  acknowledgeWildcard(scope, payloadBucket.arnForObjects(PAYLOAD_KEYS), 'Every large result gets a key of its own');
  if (resultBucket !== undefined) {
    acknowledgeWildcard(scope, resultBucket.arnForObjects(RESULT_KEYS), 'Every write gets a key of its own');
  }
  acknowledgeActions(scope, ['kms:GenerateDataKey*', 'kms:ReEncrypt*'], 'The variants of one action, on one key');
}

/** What a producer needs: send requests, and upload those that are too large to send. */
export function grantSubmit(grantee: IGrantable, { requestQueue, payloadBucket }: Channels): Grant {
  return QueueGrants.fromQueue(requestQueue)
    .sendMessages(grantee)
    .combine(grantPut(grantee, payloadBucket, ANY_KEY));
}

/** What a consumer needs: take results from every store, and read those that were too large for it. */
export function grantCollect(grantee: IGrantable, { stores, payloadBucket }: Channels): Grant {
  const { resultQueue, resultTable, resultBucket } = stores;
  const grants = [
    grantRead(grantee, payloadBucket),
    resultQueue && QueueGrants.fromQueue(resultQueue).consumeMessages(grantee),
    resultTable && grantTableRead(grantee, resultTable),
    resultBucket && grantRead(grantee, resultBucket),
  ];
  return grants.filter((grant) => grant !== undefined).reduce((all, grant) => all.combine(grant));
}

/** With the right to list, S3 says of a missing object that it is missing, and else that it is forbidden. */
function grantRead(grantee: IGrantable, bucket: IBucket): Grant {
  bucket.encryptionKey?.grantDecrypt(grantee);
  const list = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:ListBucket'],
    resourceArns: [bucket.bucketArn],
    resource: bucket,
  });
  const get = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:GetObject'],
    resourceArns: [bucket.arnForObjects(ANY_KEY)],
    resource: bucket,
  });
  return list.combine(get);
}

function grantPut(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  bucket.encryptionKey?.grantEncryptDecrypt(grantee);
  return Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:PutObject'],
    resourceArns: [bucket.arnForObjects(keys)],
    resource: bucket,
  });
}

function grantTableWrite(grantee: IGrantable, table: ITable): Grant {
  table.encryptionKey?.grantEncryptDecrypt(grantee);
  return table.grant(grantee, 'dynamodb:BatchWriteItem');
}

function grantTableRead(grantee: IGrantable, table: ITable): Grant {
  table.encryptionKey?.grantDecrypt(grantee);
  return table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:BatchGetItem');
}
