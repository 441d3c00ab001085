import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { KeyPrefixes } from './keyPrefixes.ts';
import type { Queues } from './requestQueue.ts';
import type { ResultStores } from './resultStores.ts';

/** Everything that requests and results pass through. */
export interface Channels extends KeyPrefixes {
  readonly requestQueues: Queues;
  readonly stores: ResultStores;
  readonly payloadBucket: IBucket;
}

/** The URLs of all queues, with commas between them, as the environment and a stack's outputs, which are texts, hold them. */
export function urlsOf(queues: Queues): string {
  return queues.map(({ queueUrl }) => queueUrl).join(',');
}
