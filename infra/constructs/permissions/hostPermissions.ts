import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { QueueGrants } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { requestKeys, resultKeys } from '../../../lambda/core/places.ts';
import { acknowledgeActions, acknowledgeWildcard } from '../base/acknowledge.ts';
import type { Channels } from '../storage/channels.ts';
import { grantPut, grantRead, grantTableWrite, patternOf } from './grants.ts';

/** What scoring needs: take requests, delay them, read their payloads, write results. */
export function grantScoring(scope: Construct, grantee: IGrantable, channels: Channels): void {
  const { requestQueues, stores, payloadBucket, payloadPrefix, resultPrefix } = channels;
  for (const queue of requestQueues) QueueGrants.fromQueue(queue).consumeMessages(grantee);
  grantRead(grantee, payloadBucket, requestKeys(payloadPrefix));
  grantPut(grantee, payloadBucket, resultKeys(payloadPrefix));
  if (stores.resultQueue !== undefined) QueueGrants.fromQueue(stores.resultQueue).sendMessages(grantee);
  if (stores.resultTable !== undefined) grantTableWrite(grantee, stores.resultTable);
  if (stores.resultBucket !== undefined) grantPut(grantee, stores.resultBucket, resultKeys(resultPrefix));
  acknowledgeScoring(scope, channels);
  // A role of one's own stands elsewhere, and its policy with it.
  if (Construct.isConstruct(grantee.grantPrincipal)) acknowledgeScoring(grantee.grantPrincipal, channels);
}

function acknowledgeScoring(
  scope: Construct,
  { stores: { resultBucket }, payloadBucket, payloadPrefix, resultPrefix }: Channels,
): void {
  const acknowledgeKeys = (bucket: IBucket, keys: string, reason: string): void =>
    acknowledgeWildcard(scope, bucket.arnForObjects(patternOf(keys)), reason);
  acknowledgeKeys(payloadBucket, requestKeys(payloadPrefix), 'Producers choose the keys of their uploads');
  acknowledgeKeys(payloadBucket, resultKeys(payloadPrefix), 'Every large result gets a key of its own');
  if (resultBucket !== undefined) {
    acknowledgeKeys(resultBucket, resultKeys(resultPrefix), 'Every write gets a key of its own');
  }
  acknowledgeActions(scope, ['kms:GenerateDataKey*', 'kms:ReEncrypt*'], 'These are variants of one action, on one key');
}
