import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { QueueGrants } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { acknowledgeActions, acknowledgeWildcard } from '../base/acknowledge.ts';
import type { Channels } from '../storage/channels.ts';
import { ANY_KEY, grantPut, grantRead, grantTableWrite } from './grants.ts';

/** The prefixes under which the runtime writes objects. */
const PAYLOAD_KEYS = 'payloads/*';
const RESULT_KEYS = 'results/*';

/** What scoring needs: take requests, delay them, read their payloads, write results. */
export function grantScoring(scope: Construct, grantee: IGrantable, channels: Channels): void {
  const { requestQueues, stores, payloadBucket } = channels;
  for (const queue of requestQueues) QueueGrants.fromQueue(queue).consumeMessages(grantee);
  grantRead(grantee, payloadBucket);
  grantPut(grantee, payloadBucket, PAYLOAD_KEYS);
  if (stores.resultQueue !== undefined) QueueGrants.fromQueue(stores.resultQueue).sendMessages(grantee);
  if (stores.resultTable !== undefined) grantTableWrite(grantee, stores.resultTable);
  if (stores.resultBucket !== undefined) grantPut(grantee, stores.resultBucket, RESULT_KEYS);
  acknowledgeScoring(scope, channels);
  // A role of one's own stands elsewhere, and its policy with it.
  if (Construct.isConstruct(grantee.grantPrincipal)) acknowledgeScoring(grantee.grantPrincipal, channels);
}

function acknowledgeScoring(scope: Construct, { stores, payloadBucket }: Channels): void {
  const { resultBucket } = stores;
  acknowledgeWildcard(scope, payloadBucket.arnForObjects(ANY_KEY), 'Producers choose the keys of their uploads');
  acknowledgeWildcard(scope, payloadBucket.arnForObjects(PAYLOAD_KEYS), 'Every large result gets a key of its own');
  if (resultBucket !== undefined) {
    acknowledgeWildcard(scope, resultBucket.arnForObjects(RESULT_KEYS), 'Every write gets a key of its own');
  }
  acknowledgeActions(scope, ['kms:GenerateDataKey*', 'kms:ReEncrypt*'], 'These are variants of one action, on one key');
}
