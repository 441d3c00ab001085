import type { Construct } from 'constructs';
import type { Channels } from './channels.ts';
import { type GivenBuckets, keyPrefixesOf } from './keyPrefixes.ts';
import { createPayloadBucket, type PayloadBucketOptions } from './payloadBucket.ts';
import {
  createRequestQueues,
  type ExistingQueue,
  type NewQueues,
  type RequestQueues,
  useRequestQueue,
} from './requestQueue.ts';
import { createResultStores, type ResultStore, type StoreOptions } from './resultStores.ts';

/** What exists already; the rest is created. */
export interface GivenStorage extends GivenBuckets {
  readonly requestQueue?: ExistingQueue | undefined;
}

export interface StorageOptions extends NewQueues, StoreOptions, PayloadBucketOptions {
  readonly serviceName: string;
  readonly results: readonly ResultStore[];
}

/** Everything that requests and results pass through, and the dead letters. */
export interface Storage {
  readonly requests: RequestQueues;
  readonly channels: Channels;
}

/** The queues, stores and buckets of a deployment: the given ones, or new ones. */
export function createStorage(scope: Construct, given: GivenStorage, options: StorageOptions): Storage {
  const requests = given.requestQueue ? useRequestQueue(given.requestQueue) : createRequestQueues(scope, options);
  const stores = createResultStores(scope, options.results, given.stores ?? {}, options);
  const payloadBucket = given.payloadBucket ?? createPayloadBucket(scope, options);
  const prefixes = keyPrefixesOf(scope, options.serviceName, given);
  return { requests, channels: { requestQueues: requests.queues, stores, payloadBucket, ...prefixes } };
}
