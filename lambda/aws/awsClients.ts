import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { SQSClient, type SQSClientConfig } from '@aws-sdk/client-sqs';
import { keepHandlers, leaveOutIdleWork, Sha256, spellPlainJson } from './leanClients.ts';

/** How long a client waits: no request goes without a time of its own, whatever becomes of the network. */
export interface Patience {
  /** Milliseconds until there is a connection. */
  readonly connectMs: number;
  /**
   * Milliseconds until SQS or DynamoDB has answered, more than the longest poll; until S3, whose objects may be large,
   * makes some progress.
   */
  readonly answerMs: number;
}

/** Within AWS, where answers take milliseconds; six attempts end within an invocation of 30 s. */
export const HOST_PATIENCE: Patience = { connectMs: 3_000, answerMs: 4_000 };
/** From anywhere: a slow line sends 1 MiB in this time, and the longest poll of SQS, 20 s, ends in it. */
export const CLIENT_PATIENCE: Patience = { connectMs: 10_000, answerMs: 30_000 };

/** Retries are up to the caller, who knows which entries are left and how much time: the SDK's would multiply them. */
const ATTEMPTS = { maxAttempts: 1 };
/** More than there are requests in flight: the wait for a free socket would count as time to connect. */
const AGENT = { keepAlive: true, maxSockets: 128 };
const SIGNING = { sha256: Sha256 };

/**
 * Over TLS, which proves that texts arrive as they were sent, the checksums in SQS's answers are not compared.
 *
 * @param queueUrls whose hosts the SDK may send to in place of the endpoint
 */
export function createSqsClient(
  patience: Patience,
  config: SQSClientConfig = {},
  queueUrls: readonly string[] = [],
): SQSClient {
  const allTls = isTls(config.endpoint, 'SQS') && queueUrls.every((url) => url.startsWith('https:'));
  const checks = allTls ? { md5: false as const } : {};
  const requestHandler = answeredWithin(patience);
  const client = new SQSClient({ ...ATTEMPTS, ...SIGNING, ...checks, ...config, requestHandler });
  leaveOutIdleWork(client, { retries: hasRetries(config) });
  keepHandlers(client);
  spellPlainJson(client);
  return client;
}

export function createDynamoDbClient(patience: Patience, config: DynamoDBClientConfig = {}): DynamoDBClient {
  const requestHandler = answeredWithin(patience);
  const client = new DynamoDBClient({ ...ATTEMPTS, ...SIGNING, ...config, requestHandler });
  leaveOutIdleWork(client, { retries: hasRetries(config) });
  keepHandlers(client);
  spellPlainJson(client);
  return client;
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
  const client = new S3Client({ ...ATTEMPTS, ...SIGNING, ...checks, ...config, requestHandler });
  leaveOutIdleWork(client, { retries: hasRetries(config) });
  return client;
}

/** Whether it is certain: AWS's own endpoints are, others when they say so. */
function isTls(endpoint: unknown, service: 'SQS' | 'S3'): boolean {
  const { [`AWS_ENDPOINT_URL_${service}`]: forService, AWS_ENDPOINT_URL: forAll } = process.env;
  const url = endpoint ?? forService ?? forAll ?? 'https:';
  return typeof url === 'string' && url.startsWith('https:');
}

function hasRetries({ maxAttempts = ATTEMPTS.maxAttempts }: { readonly maxAttempts?: unknown }): boolean {
  return maxAttempts !== 1;
}

/** The SDK only warns of an exceeded `requestTimeout`, and it ends with the headers; `socketTimeout` sees to the rest. */
function answeredWithin(patience: Patience) {
  return { ...progressingWithin(patience), requestTimeout: patience.answerMs, throwOnRequestTimeout: true };
}

function progressingWithin({ connectMs, answerMs }: Patience) {
  return { connectionTimeout: connectMs, socketTimeout: answerMs, httpAgent: AGENT, httpsAgent: AGENT };
}
