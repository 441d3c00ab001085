import { SQSClient, type SQSClientConfig } from '@aws-sdk/client-sqs';

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
export const ATTEMPTS = { maxAttempts: 1 };
/** More than there are requests in flight: the wait for a free socket would count as time to connect. */
const AGENT = { keepAlive: true, maxSockets: 128 };

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
  return new SQSClient({ ...ATTEMPTS, ...checks, ...config, requestHandler });
}

/** Whether it is certain: AWS's own endpoints are, others when they say so. */
export function isTls(endpoint: unknown, service: 'SQS' | 'S3'): boolean {
  const { [`AWS_ENDPOINT_URL_${service}`]: forService, AWS_ENDPOINT_URL: forAll } = process.env;
  const url = endpoint ?? forService ?? forAll ?? 'https:';
  return typeof url === 'string' && url.startsWith('https:');
}

/** The SDK only warns of an exceeded `requestTimeout`, and it ends with the headers; `socketTimeout` sees to the rest. */
export function answeredWithin(patience: Patience) {
  return { ...progressingWithin(patience), requestTimeout: patience.answerMs, throwOnRequestTimeout: true };
}

export function progressingWithin({ connectMs, answerMs }: Patience) {
  return { connectionTimeout: connectMs, socketTimeout: answerMs, httpAgent: AGENT, httpsAgent: AGENT };
}
