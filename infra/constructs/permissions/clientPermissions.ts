import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { QueueGrants } from 'aws-cdk-lib/aws-sqs';
import { requestKeys, resultKeys } from '../../../lambda/core/places.ts';
import type { Channels } from '../storage/channels.ts';
import { grantPut, grantRead, grantTableRead } from './grants.ts';
import { grantKeysToConsumer, grantKeysToProducer, type Keys } from './keyPermissions.ts';

/** What a producer needs: send requests, and upload those that are too large to send. */
export function grantSubmit(grantee: IGrantable, keys: Keys, channels: Channels): Grant {
  const { requestQueues, payloadBucket, payloadPrefix } = channels;
  grantKeysToProducer(grantee, keys, channels);
  const grants = [
    ...requestQueues.map((queue) => QueueGrants.fromQueue(queue).sendMessages(grantee)),
    grantPut(grantee, payloadBucket, requestKeys(payloadPrefix)),
  ];
  return grants.reduce((all, grant) => all.combine(grant));
}

/** What a consumer needs: take results from every store, and read those that were too large for it. */
export function grantCollect(grantee: IGrantable, keys: Keys, channels: Channels): Grant {
  grantKeysToConsumer(grantee, keys, channels);
  const { stores, payloadBucket, payloadPrefix, resultPrefix } = channels;
  const { resultQueue, resultTable, resultBucket } = stores;
  const grants = [
    grantRead(grantee, payloadBucket, resultKeys(payloadPrefix)),
    resultQueue && QueueGrants.fromQueue(resultQueue).consumeMessages(grantee),
    resultTable && grantTableRead(grantee, resultTable),
    resultBucket && grantRead(grantee, resultBucket, resultKeys(resultPrefix)),
  ];
  return grants.filter((grant) => grant !== undefined).reduce((all, grant) => all.combine(grant));
}
