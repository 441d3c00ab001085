import type { Bucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { type BucketOptions, createBucket } from '../base/bucket.ts';

export interface PayloadBucketOptions extends Omit<BucketOptions, 'expiryDays'> {
  readonly payloadExpiryDays: number;
}

/** Always there: a result may be too large for its store whatever the requests are. What lies in it expires. */
export function createPayloadBucket(scope: Construct, options: PayloadBucketOptions): Bucket {
  return createBucket(scope, 'PayloadBucket', { ...options, expiryDays: options.payloadExpiryDays });
}
