import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { ResultStores } from './resultStores.ts';

/** Everything that requests and results pass through. */
export interface Channels {
  readonly requestQueue: IQueue;
  readonly stores: ResultStores;
  readonly payloadBucket: IBucket;
}
