import { Readable } from 'node:stream';
import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { type GetObjectCommandOutput, S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { ATTEMPTS, answeredWithin, isTls, type Patience, progressingWithin } from './sqsWire.ts';

// Separate from SQS: these two clients are a quarter of the imports, and not needed to write to queues.

export function createDynamoDbClient(patience: Patience, config: DynamoDBClientConfig = {}): DynamoDBClient {
  const requestHandler = answeredWithin(patience);
  return new DynamoDBClient({ ...ATTEMPTS, ...config, requestHandler });
}

/**
 * Creates an S3 client. Over TLS it does not verify the checksums of downloaded objects. It always sends checksums of
 * uploads, because a bucket with Object Lock and a default retention requires them.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html
 */
export function createS3Client(patience: Patience, config: S3ClientConfig = {}): S3Client {
  const checks = isTls(config.endpoint, 'S3') ? { responseChecksumValidation: 'WHEN_REQUIRED' as const } : {};
  const requestHandler = progressingWithin(patience);
  return new S3Client({ ...ATTEMPTS, ...checks, ...config, requestHandler });
}

/** Returns the body of an S3 object. The listener prevents an error before the first read from ending the process. */
export function bodyOf({ Body }: GetObjectCommandOutput): Readable {
  if (!(Body instanceof Readable)) throw new Error('expected a stream as the body of an S3 object');
  return Body.on('error', () => {});
}

/** Returns true if S3 has no such object. */
export function isMissing(error: unknown): boolean {
  return error instanceof Error && (error.name === 'NoSuchKey' || error.name === 'NotFound');
}
