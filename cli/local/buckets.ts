import { CreateBucketCommand, type S3Client } from '@aws-sdk/client-s3';
import { createS3Client, HOST_PATIENCE } from '../../lambda/adapters/awsClients.ts';

export interface LocalBuckets {
  readonly resultBucket: string;
  readonly payloadBucket: string;
}

const BUCKETS: LocalBuckets = { resultBucket: 'batchscore-results', payloadBucket: 'batchscore-payloads' };

/** An S3 client for a local server. */
export function localBucketClient(endpoint: string, region: string): S3Client {
  return createS3Client(HOST_PATIENCE, {
    endpoint,
    region,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    forcePathStyle: true,
  });
}

/** Creates the result bucket and the payload bucket on the S3 side of the local queue server. */
export async function createLocalBuckets(s3: S3Client): Promise<LocalBuckets> {
  for (const Bucket of Object.values(BUCKETS)) await s3.send(new CreateBucketCommand({ Bucket }));
  return BUCKETS;
}
