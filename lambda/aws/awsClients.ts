import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { ATTEMPTS, answeredWithin, isTls, type Patience, progressingWithin } from './sqsWire.ts';

// Apart from SQS: a function that writes to queues alone does not load these two, which take a quarter of its imports.

export function createDynamoDbClient(patience: Patience, config: DynamoDBClientConfig = {}): DynamoDBClient {
  const requestHandler = answeredWithin(patience);
  return new DynamoDBClient({ ...ATTEMPTS, ...config, requestHandler });
}

/**
 * Over TLS, the checksums of objects that are read are not compared. Those of objects that are put are always sent: a
 * bucket with Object Lock and a default retention takes no others.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html
 */
export function createS3Client(patience: Patience, config: S3ClientConfig = {}): S3Client {
  const checks = isTls(config.endpoint, 'S3') ? { responseChecksumValidation: 'WHEN_REQUIRED' as const } : {};
  const requestHandler = progressingWithin(patience);
  return new S3Client({ ...ATTEMPTS, ...checks, ...config, requestHandler });
}
