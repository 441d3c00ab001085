import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Duration } from 'aws-cdk-lib/core';
import { resultKeys } from '../../lambda/core/places.ts';
import { createBucket, EXPIRY_DAYS } from '../common/created.ts';
import { grantPut, grantRead } from '../common/grants.ts';
import { brokenOf, outside, shown } from '../common/problems.ts';
import { daysOrToken } from '../common/units.ts';
import { notNamed, type StoreContext, type StorePlan } from './resultStore.ts';

export interface BucketStoreProps {
  /** Time after which an object of the new result bucket is deleted, whole days, 1 to 3,650. @default never */
  readonly resultExpiry?: Duration;
}

export interface BucketStores {
  /** Bucket that contains results under the deployment's `keyPrefix`. */
  readonly resultBucket?: IBucket | undefined;
}

/**
 * Plans a store that writes results as lines of objects in a bucket. Lines may have any length, so it needs no
 * pointers.
 */
export function bucketStore({ resultExpiry }: BucketStoreProps, context: StoreContext<BucketStores>): StorePlan {
  const { resultBucket: given } = context.stores;
  const expiryDays = daysOrToken('resultExpiry', resultExpiry);
  return {
    name: 'bucket',
    prop: 'resultBucket',
    given,
    place: given?.env,
    key: { how: 'Bucket.fromBucketAttributes and encryptionKey', actions: ['kms:GenerateDataKey'] },
    problems: [
      outside('resultExpiry', expiryDays, EXPIRY_DAYS, 'days'),
      notNamed('bucket', 'resultBucket', context),
      ...brokenOf([
        [
          expiryDays !== undefined && given !== undefined,
          'resultExpiry: expected none with a resultBucket that exists already, because objects expire by the lifecycle ' +
            `rules of that bucket, got ${shown(expiryDays, ' days')}; leave it out, and give the bucket a rule`,
        ],
        [
          expiryDays !== undefined && !context.results.includes('bucket'),
          'resultExpiry: expected it with bucket among the results, as it is the expiry of that bucket, ' +
            `got ${shown(expiryDays, ' days')} without; add bucket or leave it out`,
        ],
      ]),
    ],
    create(scope, { encryptionKey, removalPolicy, keyPrefix }) {
      const bucket = given ?? createBucket(scope, 'ResultBucket', { encryptionKey, removalPolicy, expiryDays });
      const resultPrefix = given === undefined ? undefined : keyPrefix;
      const keys = resultKeys(resultPrefix ?? '');
      return {
        prop: 'resultBucket',
        resource: bucket,
        settings: { resultBucket: bucket.bucketName, resultPrefix },
        clientOptions: {
          resultBucket: bucket.bucketName,
          ...(resultPrefix !== undefined && { resultPrefix }),
        },
        alarms: [],
        graphs: [],
        grantWrite: (grantee) => grantPut(grantee, bucket, keys),
        grantCollect: (grantee) => grantRead(grantee, bucket, keys),
      };
    },
  };
}
