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
   * URL of the request queue, for `submit` and `score`; one that ends in `.fifo` is a FIFO queue. Of a deployment with
   * several shards the URLs of all, separated by commas: messages are spread over them, those of a message group of a
   * FIFO queue always to the same one.
   */
  readonly requestQueueUrl?: string | undefined;
  /** URL of the result queue of this client, for `collect` and `score`. No other client may read from it. */
  readonly resultQueueUrl?: string | undefined;
  /** Name of the result table, for `collect` and `score`. If both are set, the table is read. */
  readonly resultTable?: string | undefined;
  /**
   * Called with each result on the result queue that nobody waits for when it comes. Once it returns, or its promise
   * resolves, the result leaves the queue. @default such a result stays on a standard queue until it expires; on a FIFO
   * queue it would lock its message group, and is kept in memory alone
   */
  readonly onUnclaimed?: ((result: ScoringResult) => unknown) | undefined;
  /** Name of the deployment's payload bucket, for bodies too large for the queue and for results too large for their store. */
  readonly payloadBucket?: string | undefined;
  /** What the deployment's keys in the payload bucket begin with, where it shares the bucket with others. @default '' */
  readonly payloadPrefix?: string | undefined;
  /** ARN of the state machine of jobs, for `jobs`. */
  readonly jobStateMachine?: string | undefined;
  /** Name of the bucket that jobs read and write. */
  readonly jobBucket?: string | undefined;
  /** What the keys of files begin with that jobs may read. @default 'jobs/in/' */
  readonly jobInputPrefix?: string | undefined;
  /** What the keys of jobs' outputs begin with. @default 'jobs/out/' */
  readonly jobOutputPrefix?: string | undefined;
  /** Most calls at a time that the deployment has for a job. @default 200 */
  readonly jobConcurrency?: number | undefined;
  /** AWS region of the clients that are created here. @default as the AWS SDK finds it */
  readonly region?: string | undefined;
  /** How tensors are written. @default 'binary' */
  readonly encoding?: Encoding | undefined;
  /** Most SendMessageBatch calls in flight, 1 to 100; always 1 for each FIFO queue, to keep the order. @default 8 */
  readonly maxInFlight?: number | undefined;
  /**
   * Most requests in a message, in `submit` and, of callers at the same time, in `score`. A message of several requests
   * has at most 64 KiB; `fill` sets no other limit. @default 1
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

/** The options, valid and complete. */
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

/** Nothing but the SDK retries the calls of S3. */
const S3_ATTEMPTS = 3;

/** Checked by its shape: a client from another copy of the SDK is one as well. */
function clientOption<C>(name: string) {
  return z.custom<C>((value) => typeof value === 'object' && value !== null && 'send' in value && 'config' in value, {
    error: `expected a client of the AWS SDK, ${name}`,
  });
}

const ignore = (): void => {};
/** Else the SDK warns on stderr, at every call, of a queue URL whose host it would not have guessed; it uses that host. */
export const SILENT = { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore };

/** @throws TypeError listing everything that is wrong with the options */
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
    /** One for each shard; none where there is no request queue. */
    requestQueueUrls,
    fifo,
    maxInFlight: fifo ? 1 : maxInFlight,
    sqs: data.sqs ?? own(createSqsClient(CLIENT_PATIENCE, { ...config, logger: SILENT }, queueUrls)),
    dynamodb: data.dynamodb ?? own(createDynamoDbClient(CLIENT_PATIENCE, config)),
    s3: data.s3 ?? own(createS3Client(CLIENT_PATIENCE, { ...config, maxAttempts: S3_ATTEMPTS })),
    sfn: data.sfn ?? own(createSfnClient(config)),
    /** Those of the clients that were created here. */
    ownClients,
  };
}

function isFifo(queueUrl: string): boolean {
  return queueUrl.endsWith('.fifo');
}
