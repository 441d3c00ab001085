import { type BucketStoreProps, type BucketStores, bucketStore } from './bucketStore.ts';
import { type QueueStoreProps, type QueueStores, queueStore } from './queueStore.ts';
import { type TableStoreProps, type TableStores, tableStore } from './tableStore.ts';

/** Plans of all stores, by the props of a deployment. */
export const STORES = [queueStore, tableStore, bucketStore];

export interface StoreProps extends QueueStoreProps, TableStoreProps, BucketStoreProps {}

/** Stores of a deployment. A store without results is undefined. */
export interface ResultStores extends QueueStores, TableStores, BucketStores {}
