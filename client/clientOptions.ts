import type { S3Client } from '@aws-sdk/client-s3';
import type { SFNClient } from '@aws-sdk/client-sfn';
import type { SQSClient } from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { createS3Client } from '../lambda/aws/awsClients.ts';
import { createSfnClient } from '../lambda/aws/jobExecutions.ts';
import { CLIENT_PATIENCE, createSqsClient } from '../lambda/aws/sqsWire.ts';
import { JOB_PREFIXES, JOB_RANGES } from '../lambda/core/limits.ts';
import { EXPECTED_KEY_PREFIX, isKeyPrefix } from '../lambda/core/places.ts';
import { IN_OUR_WORDS, problemsIn } from '../lambda/core/wrongValue.ts';
import type { ResultStore, StoreContext } from './collect.ts';
import { QUEUE_OPTIONS, type QueueOptions, QueueStore } from './collectFromQueue.ts';
import { TABLE_OPTIONS, type TableOptions, TableStore } from './collectFromTable.ts';
import type { Encoding } from './encodeRequest.ts';
import { clientOption, isFifo, NAME, QUEUE_URL } from './optionKinds.ts';

export interface BatchscoreOptions extends QueueOptions, TableOptions {
  /**
   * URL of the request queue, for `submit` and `score`. A URL that ends in `.fifo` is a FIFO queue. For a deployment
   * with several shards, give all URLs, separated by commas. Messages are spread over them, and on FIFO queues those of
   * a message group always go to the same one.
   */
  readonly requestQueueUrl?: string | undefined;
  /** URL of the queue for urgent requests, of the kind of the request queue. */
  readonly urgentQueueUrl?: string | undefined;
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
  /**
   * Maximum requests in a message, 1 to 10,000. A message with several requests has at most 64 KiB, which SQS bills as
   * one request. Requests of different groups, or with a `deduplicationId`, do not share a message. The ID of a request
   * that shares one is `<message ID>/<position>`.
   * @default 1
   */
  readonly requestsPerMessage?: number | undefined;
  /** @default a client in `region` that waits at most 30 s for an answer, destroyed by `close` */
  readonly sqs?: SQSClient | undefined;
  /** @default a client in `region` that waits at most 30 s for an answer, destroyed by `close` */
  readonly s3?: S3Client | undefined;
  /** @default a client in `region`, destroyed by `close` */
  readonly sfn?: SFNClient | undefined;
}

/** Options, validated and with defaults. */
export type Settings = ReturnType<typeof readOptions>;

const SHARDS = z
  .string({ error: 'expected the URL of an SQS queue, or of several, comma-separated' })
  .transform((text) => text.split(',').map((url) => url.trim()))
  .pipe(z.array(QUEUE_URL))
  .refine((urls) => new Set(urls).size === urls.length, { error: 'expected each queue once, got one of them twice' })
  .refine((urls) => new Set(urls.map(isFifo)).size === 1, {
    error: 'expected FIFO queues or standard queues, got some of both',
  });

/** Default of a deployment's BATCHSCORE_MAX_REQUESTS_PER_MESSAGE. */
export const MAX_REQUESTS_PER_MESSAGE = 10_000;
const PER_MESSAGE = { error: `expected a whole number from 1 to ${MAX_REQUESTS_PER_MESSAGE}` };

const OPTIONS_OF_ANY_KIND = z.strictObject({
  requestQueueUrl: SHARDS.optional(),
  urgentQueueUrl: QUEUE_URL.optional(),
  ...QUEUE_OPTIONS,
  ...TABLE_OPTIONS,
  payloadBucket: NAME.optional(),
  payloadPrefix: z.string().refine(isKeyPrefix, { error: EXPECTED_KEY_PREFIX }).default(''),
  jobStateMachine: z.string().startsWith('arn:').optional(),
  jobBucket: NAME.optional(),
  jobInputPrefix: z.string().endsWith('/').default(JOB_PREFIXES.input),
  jobOutputPrefix: z.string().endsWith('/').default(JOB_PREFIXES.output),
  jobConcurrency: z.int().min(1).default(JOB_RANGES.concurrency.default),
  region: NAME.optional(),
  encoding: z.enum(['binary', 'json']).default('binary'),
  requestsPerMessage: z.int(PER_MESSAGE).min(1, PER_MESSAGE).max(MAX_REQUESTS_PER_MESSAGE, PER_MESSAGE).default(1),
  sqs: clientOption<SQSClient>('SQSClient').optional(),
  s3: clientOption<S3Client>('S3Client').optional(),
  sfn: clientOption<SFNClient>('SFNClient').optional(),
});

const OPTIONS = OPTIONS_OF_ANY_KIND.refine(
  ({ requestQueueUrl: [url] = [], urgentQueueUrl }) =>
    url === undefined || urgentQueueUrl === undefined || isFifo(url) === isFifo(urgentQueueUrl),
  {
    path: ['urgentQueueUrl'],
    error: 'expected a queue of the kind of the request queue, FIFO or standard, got the other',
  },
);

/** Attempts of S3 calls, which only the SDK retries. */
const S3_ATTEMPTS = 3;

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
  const { region, requestQueueUrl: requestQueueUrls = [], urgentQueueUrl, resultQueueUrl } = data;
  const config = region === undefined ? {} : { region };
  const ownClients: { destroy(): void }[] = [];
  const own = <C extends { destroy(): void }>(client: C): C => {
    ownClients.push(client);
    return client;
  };
  const fifo = requestQueueUrls.some(isFifo);
  const queueUrls = [...requestQueueUrls, urgentQueueUrl, resultQueueUrl].filter((url) => url !== undefined);
  return {
    ...data,
    /** URLs of the request queues, one for each shard. Empty if there is no request queue. */
    requestQueueUrls,
    fifo,
    sqs: data.sqs ?? own(createSqsClient(CLIENT_PATIENCE, { ...config, logger: SILENT }, queueUrls)),
    s3: data.s3 ?? own(createS3Client(CLIENT_PATIENCE, { ...config, maxAttempts: S3_ATTEMPTS })),
    sfn: data.sfn ?? own(createSfnClient(config)),
    config,
    ownClients,
    own,
  };
}

/** Returns the store that results are read from: the first that the options name. */
export function openResultStore(options: QueueOptions & TableOptions & StoreContext): ResultStore | undefined {
  const { resultTable, resultQueueUrl } = options;
  if (resultTable !== undefined) return new TableStore({ ...options, resultTable });
  return resultQueueUrl === undefined ? undefined : new QueueStore({ ...options, resultQueueUrl });
}
