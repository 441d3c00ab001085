import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Duration } from 'aws-cdk-lib/core';
import { resultKeys } from '../../lambda/core/places.ts';
import { createBucket, EXPIRY_DAYS } from '../common/created.ts';
import { grantPut, grantRead } from '../common/grants.ts';
import { onlyWithNew, outside } from '../common/problems.ts';
import { daysOf } from '../common/units.ts';
import type { StoreContext, StorePlan } from './resultStore.ts';

export interface BucketStores {
  /** Bucket that contains results under the deployment's `keyPrefix`. */
  readonly resultBucket?: IBucket | undefined;
}

export interface BucketStoreProps {
  /** Age at which objects of the new result bucket are deleted, whole days, 1 to 3,650. @default never */
  readonly resultExpiry?: Duration;
}

/**
 * Plans a store that writes results as lines of objects in a bucket. Lines may have any length, so it needs no
 * pointers.
 */
export function bucketStore({ resultExpiry }: BucketStoreProps, context: StoreContext<BucketStores>): StorePlan {
  const { resultBucket: given } = context.stores;
  const expiryDays = daysOf('resultExpiry', resultExpiry);
  return {
    name: 'bucket',
    prop: 'resultBucket',
    given,
    problems: [
      outside('resultExpiry', expiryDays, EXPIRY_DAYS, 'days'),
      onlyWithNew(
        'resultExpiry',
        resultExpiry,
        'result bucket',
        context.results.includes('bucket') && given === undefined,
      ),
    ],
    create(scope, options) {
      const bucket = given ?? createBucket(scope, 'ResultBucket', options, expiryDays);
      // Other deployments may write to the same existing bucket, so the keys of each begin with its prefix. A new bucket
      // has no other deployment.
      const resultPrefix = given === undefined ? undefined : options.keyPrefix;
      const keys = resultKeys(resultPrefix ?? '');
      return {
        resources: { resultBucket: bucket },
        clientOptions: { resultBucket: bucket.bucketName, ...(resultPrefix !== undefined && { resultPrefix }) },
        grantWrite: (grantee) => grantPut(grantee, bucket, keys),
        grantCollect: (grantee) => grantRead(grantee, bucket, keys),
      };
    },
  };
}
