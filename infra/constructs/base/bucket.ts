import { Duration, type RemovalPolicy, Validations } from 'aws-cdk-lib';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { BlockPublicAccess, Bucket, BucketEncryption } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';

export interface BucketOptions {
  readonly encryptionKey: IKey | undefined;
  readonly removalPolicy: RemovalPolicy;
  /** Days until an object is deleted. @default never */
  readonly expiryDays?: number | undefined;
}

/** A private, encrypted bucket that is reached only over TLS. */
export function createBucket(scope: Construct, id: string, options: BucketOptions): Bucket {
  const { encryptionKey, removalPolicy, expiryDays } = options;
  const bucket = new Bucket(scope, id, {
    blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
    enforceSSL: true,
    removalPolicy,
    ...(encryptionKey === undefined
      ? { encryption: BucketEncryption.S3_MANAGED }
      : { encryption: BucketEncryption.KMS, encryptionKey, bucketKeyEnabled: true }),
    lifecycleRules: [
      {
        abortIncompleteMultipartUploadAfter: Duration.days(1),
        ...(expiryDays !== undefined && { expiration: Duration.days(expiryDays) }),
      },
    ],
  });
  Validations.of(bucket).acknowledge({
    id: 'AwsSolutions-S1',
    reason: 'Server access logs would double the requests; CloudTrail data events serve those who need an audit',
  });
  return bucket;
}
