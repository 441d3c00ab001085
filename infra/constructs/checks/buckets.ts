import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { outside } from '../../../lambda/core/limits.ts';
import { EXPECTED_KEY_PREFIX, isKeyPrefix } from '../../../lambda/core/places.ts';
import type { Problem } from '../base/refuse.ts';
import type { ResultStore } from '../storage/resultStores.ts';

/** What was given of the buckets; what was not is undefined. */
export interface BucketSettings {
  readonly results: readonly ResultStore[];
  readonly keyPrefix: string | undefined;
  readonly payloadBucket: IBucket | undefined;
  readonly resultBucket: IBucket | undefined;
  readonly payloadExpiryDays: number | undefined;
  readonly resultExpiryDays: number | undefined;
}

const EXPIRY_DAYS = { least: 1, most: 3650 };

/** Prefixes and expiry: each belongs to one kind of bucket, to those that exist already or to new ones. */
export function bucketProblems(settings: BucketSettings): Problem[] {
  const { payloadBucket, resultBucket, payloadExpiryDays, resultExpiryDays } = settings;
  return [
    keyPrefixProblem(settings),
    outside('payloadExpiryDays', payloadExpiryDays, EXPIRY_DAYS),
    payloadBucket && expiryOfAnother('payloadExpiryDays', payloadExpiryDays, 'payloadBucket'),
    outside('resultExpiryDays', resultExpiryDays, EXPIRY_DAYS),
    resultBucket && expiryOfAnother('resultExpiryDays', resultExpiryDays, 'resultBucket'),
    expiryOfNone(settings),
  ];
}

function keyPrefixProblem({ keyPrefix, payloadBucket, resultBucket }: BucketSettings): Problem {
  if (keyPrefix === undefined) return undefined;
  if (payloadBucket === undefined && resultBucket === undefined) {
    return (
      `keyPrefix: expected it with a payloadBucket or resultBucket that exists already, as new ones are shared with ` +
      `nobody, got '${keyPrefix}' without; leave it out`
    );
  }
  if (keyPrefix !== '' && isKeyPrefix(keyPrefix)) return undefined;
  return `keyPrefix: ${EXPECTED_KEY_PREFIX}, got '${keyPrefix}'; change it`;
}

function expiryOfAnother(name: string, days: number | undefined, bucket: string): Problem {
  if (days === undefined) return undefined;
  return (
    `${name}: expected none with a ${bucket} that exists already, because objects expire by the lifecycle rules of that ` +
    `bucket, got ${days}; leave it out, and give the bucket a rule`
  );
}

function expiryOfNone({ results, resultExpiryDays }: BucketSettings): Problem {
  if (resultExpiryDays === undefined || results.includes('bucket')) return undefined;
  return (
    `resultExpiryDays: expected it with bucket among the results, as it is the expiry of that bucket, ` +
    `got ${resultExpiryDays} without; add bucket or leave it out`
  );
}
