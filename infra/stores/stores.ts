import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { type BucketStoreProps, bucketStore } from './bucketStore.ts';
import { type QueueStoreProps, queueStore } from './queueStore.ts';
import { type TableStoreProps, tableStore } from './tableStore.ts';

/** Plans of all stores, by the props of a deployment. */
export const STORES = [queueStore, tableStore, bucketStore];

export interface StoreProps extends QueueStoreProps, TableStoreProps, BucketStoreProps {}

/** Stores of a deployment. A store without results is undefined. */
export interface ResultStores {
  readonly resultQueue?: IQueue | undefined;
  readonly resultTable?: ITable | undefined;
  /** Bucket that contains results under the deployment's `keyPrefix`. */
  readonly resultBucket?: IBucket | undefined;
}
