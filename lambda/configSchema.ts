import { z } from 'zod';
import {
  amount,
  commaSeparated,
  count,
  countOrDefault,
  countOrFill,
  flag,
  keyPrefix,
  oneOf,
  queueUrl,
  text,
} from './configValues.ts';
import {
  BATCH_SIZE,
  HOP_THREADS,
  LOG_LEVELS,
  RANGES,
  RANGES_BY_MEMORY,
  STORES,
  WINDOW_SECONDS,
} from './core/limits.ts';
import { PUBLISHED, parseModelsUri } from './core/places.ts';

const QUEUES = 'expected the URLs of SQS queues, comma-separated, each once';
const SOME_STORES = `expected one or several of ${STORES.join(', ')}, comma-separated, each once`;
const SOME_PROVIDERS = 'expected names of execution providers, comma-separated';

/** What each setting may be. */
export const CONFIG_SCHEMA = z.strictObject({
  /** Folder of the model repository, absolute or from the working directory. */
  modelsDirectory: text('the path of a folder').default('models'),
  /** A model repository in S3, fetched at start, in place of the folder. */
  modelsUri: z
    .string({ error: `expected ${PUBLISHED}` })
    .refine((uri) => parseModelsUri(uri) !== undefined, `expected ${PUBLISHED}`)
    .optional(),
  /** Model of requests that name none. Default: the repository's only model. */
  defaultModel: text('the name of a model').optional(),
  /** ONNX Runtime execution providers, first choice first, comma-separated. */
  providers: z
    .string({ error: SOME_PROVIDERS })
    .default('cpu')
    .transform(commaSeparated)
    .pipe(z.array(z.string().min(1, { error: SOME_PROVIDERS }))),
  /** Whether to go on, with a warning, on the next provider when one cannot be loaded. */
  allowProviderFallback: flag(false),
  /** Whether to load every model at start, so that a broken one is found then; else when a request names it. */
  preload: flag(true),
  /** Most rows in one run. */
  maxBatchRows: countOrDefault(RANGES.maxBatchRows),
  /** Most elements that the inputs of one run hold together, padding included. */
  maxBatchElements: countOrDefault(RANGES.maxBatchElements),
  /** Most rows in one request. */
  maxRequestRows: countOrDefault(RANGES.maxRequestRows),
  /** Most requests in one packed message. */
  maxRequestsPerMessage: countOrDefault(RANGES.maxRequestsPerMessage),
  /** Most characters of the answer to one message. Default: a 64th of the memory, in bytes. */
  maxAnswerCharacters: count(RANGES_BY_MEMORY.maxAnswerCharacters),
  /** Milliseconds before the deadline after which nothing is started. */
  deadlineMarginMs: countOrDefault(RANGES.deadlineMarginMs),
  /** Percent of a model's run time that goes into running rows alone as well, to compare. 0: nothing is compared. */
  checkPercent: countOrDefault(RANGES.checkPercent),
  /** The name that metrics and logs carry, such as the stack's. */
  serviceName: text('a name').default('batchscore'),
  /** How much is logged. Default: the function's own log level, which is `info` unless its logging configuration says otherwise. */
  logLevel: oneOf(LOG_LEVELS).optional(),
  /** Whether to send X-Ray the stages of the invocations that it samples. */
  tracing: flag(false),
  /**
   * Most records that SQS hands over at once, as the event source mapping says; what batches are measured against. The
   * worker gathers so many itself; its default is `maxBatchRows`.
   */
  batchSize: count(BATCH_SIZE).optional(),
  /** Seconds that SQS gathers records for, as the event source mapping says, or the worker. Worker's default: 0. */
  windowSeconds: amount(WINDOW_SECONDS).optional(),
  /** Worker: most seconds that one batch may take; then its runs are left behind, and the rest is handed back. */
  timeoutSeconds: countOrDefault(RANGES.timeoutSeconds),
  /** Worker: seconds that received records are hidden from others, extended while they are held. */
  visibilitySeconds: countOrDefault(RANGES.visibilitySeconds),
  /** Worker: seconds from SIGTERM until the process is killed. */
  stopSeconds: countOrDefault(RANGES.stopSeconds),
  /** Worker: most receives in flight. */
  mostPolls: countOrDefault(RANGES.mostPolls),
  /** Worker: most batches of a model that are scored at the same time. */
  pipelineDepth: countOrDefault(RANGES.pipelineDepth),
  /** Worker: most threads that make calls of SQS, once one is too few. Default: by the number of cores. */
  hopThreads: count(HOP_THREADS).optional(),
  /** Worker: port on 127.0.0.1 that tells whether it lives and is ready. 0: none. */
  healthPort: countOrDefault(RANGES.healthPort),
  /** The queue that requests come from, or all shards, comma-separated; records are deleted and delayed there. */
  requestQueueUrls: z
    .string({ error: QUEUES })
    .transform(commaSeparated)
    .pipe(z.array(z.url({ error: QUEUES })).refine((urls) => new Set(urls).size === urls.length, QUEUES)),
  /** Where results go, comma-separated: `queue`, `table`, `bucket`. */
  results: z
    .string({ error: SOME_STORES })
    .default('queue')
    .transform(commaSeparated)
    .pipe(
      z
        .array(z.enum(STORES, { error: SOME_STORES }))
        .refine((stores) => new Set(stores).size === stores.length, SOME_STORES),
    ),
  /** The queue of the store `queue`. */
  resultQueueUrl: queueUrl.optional(),
  /** Most results in a message of the result queue, or `fill`: as many as fit. */
  resultsPerMessage: countOrFill(RANGES.resultsPerMessage),
  /** Most bytes of a message of several results. */
  resultMessageBytes: countOrDefault(RANGES.resultMessageBytes),
  /** The DynamoDB table of the store `table`. */
  resultTable: text('the name of a DynamoDB table').optional(),
  /** Seconds until the table forgets a result. */
  resultTtlSeconds: countOrDefault(RANGES.resultTtlSeconds),
  /** The S3 bucket of the store `bucket`. */
  resultBucket: text('the name of an S3 bucket').optional(),
  /** What comes before `results/` in the keys of that bucket. */
  resultPrefix: keyPrefix,
  /** The S3 bucket of bodies and results that are too large for SQS. Without it, such are refused. */
  payloadBucket: text('the name of an S3 bucket').optional(),
  /** What comes before `requests/` and `results/` in the keys of that bucket. */
  payloadPrefix: keyPrefix,
  /** Most bytes of an object in the payload bucket that is read. Default: a 64th of the memory. */
  maxPayloadBytes: count(RANGES_BY_MEMORY.maxPayloadBytes),
});

export type Config = Readonly<z.infer<typeof CONFIG_SCHEMA>>;
