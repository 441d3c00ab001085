import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { S3Client } from '@aws-sdk/client-s3';
import type { SFNClient } from '@aws-sdk/client-sfn';
import type { SQSClient } from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { createDynamoDbClient, createS3Client } from '../lambda/aws/awsClients.ts';
import { createSfnClient } from '../lambda/aws/jobExecutions.ts';
import { CLIENT_PATIENCE, createSqsClient } from '../lambda/aws/sqsWire.ts';
import { JOB_PREFIXES, JOB_RANGES } from '../lambda/core/limits.ts';
import { EXPECTED_KEY_PREFIX, isKeyPrefix } from '../lambda/core/places.ts';
import { IN_OUR_WORDS, problemsIn } from '../lambda/core/wrongValue.ts';
import type { Encoding } from './encodeRequest.ts';
import { EXPECTED_PER_MESSAGE, isRequestsPerMessage, type RequestsPerMessage } from './packRequests.ts';
import type { ScoringResult } from './readResult.ts';

export interface BatchscoreOptions {
  /**
   * URL of the request queue, for `submit` and `score`. A URL that ends in `.fifo` is a FIFO queue. For a deployment
   * with several shards, give all URLs, separated by commas. Messages are spread over them, and on FIFO queues those of
   * a message group always go to the same one.
   */
  readonly requestQueueUrl?: string | undefined;
  /** URL of this client's result queue, for `collect` and `score`. No other client may read from it. */
  readonly resultQueueUrl?: string | undefined;
  /** Name of the result table, for `collect` and `score`. If both stores are set, the table is read. */
  readonly resultTable?: string | undefined;
  /**
   * Callback for results on the result queue that no caller waits for when they arrive. When it returns, or its promise
   * resolves, the result is deleted from the queue.
   * @default such a result stays on a standard queue until it expires; on a FIFO queue it would lock its message group,
   * so it is kept only in memory
   */
  readonly onUnclaimed?: ((result: ScoringResult) => unknown) | undefined;
  /**
   * Name of the deployment's payload bucket, for bodies too large for the queue and for results too large for their
   * store.
   */
  readonly payloadBucket?: string | undefined;
  /** Prefix of the deployment's keys, if it shares the payload bucket with other deployments. @default '' */
  readonly payloadPrefix?: string | undefined;
  /** ARN of the state machine of jobs, for `jobs`. */
  readonly jobStateMachine?: string | undefined;
  /** Name of the bucket that jobs read and write. */
  readonly jobBucket?: string | undefined;
  /** Prefix of the keys of files that jobs may read. @default 'jobs/in/' */
  readonly jobInputPrefix?: string | undefined;
  /** Prefix of the keys of job output. @default 'jobs/out/' */
  readonly jobOutputPrefix?: string | undefined;
  /** Maximum calls at a time that the deployment allows for a job. @default 200 */
  readonly jobConcurrency?: number | undefined;
  /** AWS region of the clients that this class creates. @default the AWS SDK's */
  readonly region?: string | undefined;
  /** Encoding of tensors in requests. @default 'binary' */
  readonly encoding?: Encoding | undefined;
  /** Maximum SendMessageBatch calls in flight, 1 to 100. Always 1 for each FIFO queue, to keep the order. @default 8 */
  readonly maxInFlight?: number | undefined;
  /**
   * Maximum requests in a message, in `submit`, and for concurrent callers of `score`. A message with several requests
   * has at most 64 KiB, which is the only limit with `fill`.
   * @default 1
   */
  readonly requestsPerMessage?: RequestsPerMessage | undefined;
  /** @default a client in `region` that waits at most 30 s for an answer, destroyed by `close` */
  readonly sqs?: SQSClient | undefined;
  /** @default a client in `region` that waits at most 30 s for an answer, destroyed by `close` */
  readonly dynamodb?: DynamoDBClient | undefined;
  /** @default a client in `region` that waits at most 30 s for an answer, destroyed by `close` */
  readonly s3?: S3Client | undefined;
  /** @default a client in `region`, destroyed by `close` */
  readonly sfn?: SFNClient | undefined;
}

/** Options, validated and with defaults. */
export type Settings = ReturnType<typeof readOptions>;

const QUEUE_URL = z.string().refine((text) => /^https?:\/\//.test(text) && URL.canParse(text), {
  error: ({ input }) => `expected the URL of an SQS queue, https://…, got ${JSON.stringify(input)}`,
});
const SHARDS = z
  .string({ error: 'expected the URL of an SQS queue, or of several, comma-separated' })
  .transform((text) => text.split(',').map((url) => url.trim()))
  .pipe(z.array(QUEUE_URL))
  .refine((urls) => new Set(urls).size === urls.length, { error: 'expected each queue once, got one of them twice' })
  .refine((urls) => new Set(urls.map(isFifo)).size === 1, {
    error: 'expected FIFO queues or standard queues, got some of both',
  });
const NAME = z.string().min(1);
const IN_FLIGHT = { error: 'expected a whole number from 1 to 100' };

const OPTIONS = z.strictObject({
  requestQueueUrl: SHARDS.optional(),
  resultQueueUrl: QUEUE_URL.optional(),
  resultTable: NAME.optional(),
  onUnclaimed: z
    .custom<(result: ScoringResult) => unknown>((value) => typeof value === 'function', {
      error: 'expected a function',
    })
    .optional(),
  payloadBucket: NAME.optional(),
  payloadPrefix: z.string().refine(isKeyPrefix, { error: EXPECTED_KEY_PREFIX }).default(''),
  jobStateMachine: z.string().startsWith('arn:').optional(),
  jobBucket: NAME.optional(),
  jobInputPrefix: z.string().endsWith('/').default(JOB_PREFIXES.input),
  jobOutputPrefix: z.string().endsWith('/').default(JOB_PREFIXES.output),
  jobConcurrency: z.int().min(1).default(JOB_RANGES.concurrency.default),
  region: NAME.optional(),
  encoding: z.enum(['binary', 'json']).default('binary'),
  maxInFlight: z.int(IN_FLIGHT).min(1, IN_FLIGHT).max(100, IN_FLIGHT).default(8),
  requestsPerMessage: z.custom<RequestsPerMessage>(isRequestsPerMessage, { error: EXPECTED_PER_MESSAGE }).default(1),
  sqs: clientOption<SQSClient>('SQSClient').optional(),
  dynamodb: clientOption<DynamoDBClient>('DynamoDBClient').optional(),
  s3: clientOption<S3Client>('S3Client').optional(),
  sfn: clientOption<SFNClient>('SFNClient').optional(),
});

/** Attempts of S3 calls, which only the SDK retries. */
const S3_ATTEMPTS = 3;

/** Checks a client by its shape, because it may come from another copy of the SDK. */
function clientOption<C>(name: string) {
  return z.custom<C>((value) => typeof value === 'object' && value !== null && 'send' in value && 'config' in value, {
    error: `expected a client of the AWS SDK, ${name}`,
  });
}

const ignore = (): void => {};
/**
 * Logger without output. By default the SDK warns on stderr at each call if it would have guessed another host than
 * that of the queue URL, although it uses the URL's.
 */
export const SILENT = { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore };

/** @throws TypeError listing all problems with the options */
export function readOptions(options: BatchscoreOptions) {
  const { data, error } = OPTIONS.safeParse(options, IN_OUR_WORDS);
  if (error !== undefined) throw new TypeError(`Batchscore options: ${problemsIn(error.issues, options).join('; ')}`);
  const { region, requestQueueUrl: requestQueueUrls = [], resultQueueUrl, maxInFlight } = data;
  const config = region === undefined ? {} : { region };
  const ownClients: { destroy(): void }[] = [];
  const own = <C extends { destroy(): void }>(client: C): C => {
    ownClients.push(client);
    return client;
  };
  const fifo = requestQueueUrls.some(isFifo);
  const queueUrls = [...requestQueueUrls, resultQueueUrl].filter((url) => url !== undefined);
  return {
    ...data,
    /** URLs of the request queues, one for each shard. Empty if there is no request queue. */
    requestQueueUrls,
    fifo,
    maxInFlight: fifo ? 1 : maxInFlight,
    sqs: data.sqs ?? own(createSqsClient(CLIENT_PATIENCE, { ...config, logger: SILENT }, queueUrls)),
    dynamodb: data.dynamodb ?? own(createDynamoDbClient(CLIENT_PATIENCE, config)),
    s3: data.s3 ?? own(createS3Client(CLIENT_PATIENCE, { ...config, maxAttempts: S3_ATTEMPTS })),
    sfn: data.sfn ?? own(createSfnClient(config)),
    ownClients,
  };
}

function isFifo(queueUrl: string): boolean {
  return queueUrl.endsWith('.fifo');
}
