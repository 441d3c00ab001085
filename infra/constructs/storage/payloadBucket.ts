import type { Bucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { type BucketOptions, createBucket } from '../base/bucket.ts';

export interface PayloadBucketOptions extends Omit<BucketOptions, 'expiryDays'> {
  readonly payloadExpiryDays: number;
}

/** Every deployment has one, because any result may turn out too large for its store. Its objects expire. */
export function createPayloadBucket(scope: Construct, options: PayloadBucketOptions): Bucket {
  return createBucket(scope, 'PayloadBucket', { ...options, expiryDays: options.payloadExpiryDays });
}
