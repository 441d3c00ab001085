import { totalmem } from 'node:os';
import { z } from 'zod';
import { CONFIG_KEYS, CONFIG_PREFIX } from './configKeys.ts';
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
import { PUBLISHED, parseModelsUri } from './core/contract/modelsUri.ts';
import { didYouMean, IN_OUR_WORDS } from './core/contract/wrongValue.ts';
import { HOP_THREADS, LOG_LEVELS, RANGES, RANGES_BY_MEMORY, STORES, shareOfMemory } from './limits/configuration.ts';
import { BATCH_SIZE, WINDOW_SECONDS } from './limits/eventSourceMapping.ts';

const MIB = 1024 * 1024;
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

const REQUIRED_BY_STORE = { queue: 'resultQueueUrl', table: 'resultTable', bucket: 'resultBucket' } as const;

export type Config = Readonly<z.infer<typeof CONFIG_SCHEMA>>;

/**
 * The host's configuration from its environment, read once at cold start.
 *
 * @throws Error naming every variable that is wrong, missing or not known
 */
export function loadConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const raw: Record<string, string> = defaultsByMemory(environment);
  const problems = unknownVariables(environment);
  for (const [name, key] of Object.entries(CONFIG_KEYS)) {
    const value = environment[key];
    if (value !== undefined) raw[name] = value;
  }
  const parsed = CONFIG_SCHEMA.safeParse(raw, IN_OUR_WORDS);
  problems.push(...problemsOfModels(raw), ...problemsOfStores(raw));
  if (parsed.success) problems.push(...problemsOfPacking(parsed.data));
  else problems.push(...parsed.error.issues.map((issue) => describeIssue(issue, raw, CONFIG_KEYS)));
  if (!parsed.success || problems.length > 0) throw new Error(`configuration: ${[...new Set(problems)].join('; ')}`);
  return Object.freeze(parsed.data);
}

/**
 * Every variable with our prefix that is not known: a setting that is misspelt would be passed over.
 *
 * @param shape what each setting may be
 * @param keys the variable of each setting
 */
export function unknownVariables(
  environment: Readonly<Record<string, string | undefined>>,
  shape: Readonly<Record<string, z.ZodType>> = CONFIG_SCHEMA.shape,
  keys: Readonly<Record<string, string>> = CONFIG_KEYS,
): string[] {
  const known = Object.fromEntries(Object.entries(shape).map(([name, schema]) => [keys[name] ?? name, schema]));
  return Object.keys(environment)
    .filter((key) => key.startsWith(CONFIG_PREFIX) && !Object.hasOwn(known, key))
    .map((key) => {
      const hint = didYouMean(key, known) ?? 'docs/configuration.md lists them';
      return `${key}: expected a variable of batchscore, got an unknown one; ${hint}`;
    });
}

/** The memory is the function's; where there is no function, the container's, or the machine's. */
export function defaultsByMemory({
  AWS_LAMBDA_FUNCTION_MEMORY_SIZE: functionMb,
}: Readonly<Record<string, string | undefined>>): Record<string, string> {
  // Without a limit it is 0, or more than there is.
  const ownMemory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  const share = shareOfMemory(functionMb === undefined ? ownMemory / MIB : Number(functionMb));
  return Object.fromEntries(
    Object.entries(RANGES_BY_MEMORY).map(([name, { most }]) => [name, String(Math.min(share, most))]),
  );
}

/** One of two would be passed over. */
function problemsOfModels({ modelsDirectory, modelsUri }: Readonly<Record<string, string>>): string[] {
  if (modelsDirectory === undefined || modelsUri === undefined) return [];
  return [`${CONFIG_KEYS.modelsUri}: expected it or ${CONFIG_KEYS.modelsDirectory}, got both; unset one of them`];
}

/** Each store that results go to must be named. */
function problemsOfStores(raw: Readonly<Record<string, string>>): string[] {
  const stores = CONFIG_SCHEMA.shape.results.safeParse(raw.results);
  return (stores.data ?? []).flatMap((store) => {
    const needed = REQUIRED_BY_STORE[store];
    if (raw[needed] !== undefined) return [];
    return [`${CONFIG_KEYS[needed]}: expected a value, because results go to the ${store}, got nothing; set it`];
  });
}

/** Results that cannot share messages, whatever the setting. */
function problemsOfPacking({ results, resultsPerMessage, requestQueueUrls, resultQueueUrl }: Config): string[] {
  if (resultsPerMessage === 1) return [];
  const expectedOne = (because: string, cure: string) => [
    `${CONFIG_KEYS.resultsPerMessage}: expected 1, because ${because}, got ${JSON.stringify(String(resultsPerMessage))}; ${cure}`,
  ];
  if (!results.includes('queue')) return expectedOne('no results go to a queue', 'unset it');
  if (resultQueueUrl?.endsWith('.fifo') && !requestQueueUrls.every((url) => url.endsWith('.fifo'))) {
    return expectedOne(
      'results of a standard request queue have no message group to share on a FIFO result queue',
      'unset it, or use queues of one kind',
    );
  }
  return [];
}

/** @param keys the variable of each setting */
export function describeIssue(
  issue: z.core.$ZodIssue,
  raw: Readonly<Record<string, string>>,
  keys: Readonly<Record<string, string>>,
): string {
  const name = String(issue.path[0]);
  const key = Object.entries(keys).find(([known]) => known === name)?.[1] ?? name;
  return `${key}: ${issue.message}, got ${raw[name] === undefined ? 'nothing; set it' : JSON.stringify(raw[name])}`;
}
