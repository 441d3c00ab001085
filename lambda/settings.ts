import {
  BATCH_SIZE,
  JOB_RANGES,
  LOG_LEVELS,
  MAX_MESSAGE_BYTES,
  type Range,
  WINDOW_SECONDS,
  wholeNumberIn,
} from './core/limits.ts';
import { EXPECTED_KEY_PREFIX, isKeyPrefix, PUBLISHED, parseModelsUri } from './core/places.ts';

/*
 * Declares each setting once. Hosts read their environment by this catalogue, the construct refuses values outside of
 * its ranges, and a test compares the tables of docs/configuration.md with it.
 */

/** Kind of a value: its description after "expected", and its parser, which returns undefined for invalid text. */
export interface Kind<T> {
  readonly expected: string;
  readonly read: (text: string) => T | undefined;
}

/** Setting of a host. It is optional if it is neither required nor has a default. */
export interface Setting<T = unknown> extends Kind<T>, Partial<Range> {
  readonly variable: string;
  readonly default?: T;
  readonly isRequired?: true;
  /** True if the default is a share of the host's memory. */
  readonly isByMemory?: true;
  /** True if the function that scores jobs also reads it: it concerns models, runs or logs. */
  readonly scoresJobs?: true;
  /** Meaning, as the documentation states it. */
  readonly doc: string;
  /** Behaviour without it, as the documentation states it. @default the default itself */
  readonly stated?: string;
}

export type Catalogue = Readonly<Record<string, Setting>>;

/** Values of the settings by name. Only settings without a default may be missing. */
export type ValuesOf<C> = { readonly [K in AlwaysIn<C>]: ValueOf<C[K]> } & {
  readonly [K in Exclude<keyof C, AlwaysIn<C>>]?: ValueOf<C[K]> | undefined;
};
type AlwaysIn<C> = {
  [K in keyof C]: C[K] extends { default: unknown } | { isRequired: true } | { isByMemory: true } ? K : never;
}[keyof C];
type ValueOf<S> = S extends Kind<infer T> ? T : never;

export const whole = (range: Range) => ({
  min: range.min,
  max: range.max,
  expected: wholeNumberIn(range),
  read: (text: string) => numberIn(range, Number.isInteger, text),
});

export const amount = (range: Range) => ({
  min: range.min,
  max: range.max,
  expected: `a number from ${range.min} to ${range.max}`,
  read: (text: string) => numberIn(range, Number.isFinite, text),
});

/** Parses a number. JavaScript takes an empty text for 0, which is refused here. */
function numberIn({ min, max }: Range, isOne: (value: number) => boolean, text: string): number | undefined {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  return isOne(value) && value >= min && value <= max ? value : undefined;
}

const FLAG: Kind<boolean> = {
  expected: 'true or false',
  read: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
};

const oneOf = <T extends string>(values: readonly T[]): Kind<T> => ({
  expected: `one of ${values.join(', ')}`,
  read: (text) => values.find((value) => value === text),
});

const matching = (expected: string, isOne: (text: string) => boolean): Kind<string> => ({
  expected,
  read: (text) => (isOne(text) ? text : undefined),
});

/** @param what meaning of the text, such as `the name of a model` */
const text = (what: string): Kind<string> => matching(what, (value) => value !== '');

/** Texts separated by commas. */
const listOf = (expected: string, isOne: (items: readonly string[]) => boolean): Kind<readonly string[]> => ({
  expected,
  read: (list) => {
    const items = list.split(',').map((item) => item.trim());
    return isOne(items) ? items : undefined;
  },
});

const KEY_PREFIX = matching(EXPECTED_KEY_PREFIX.replace(/^expected /, ''), isKeyPrefix);
const JOB_PREFIX = matching("a path that ends in '/'", (path) => /^([\w.=+-]+\/)+$/.test(path));

/** Settings of each result store. The first one says where the store is, and is required if results go there. */
export const STORE_SETTINGS = {
  queue: {
    resultQueueUrl: {
      variable: 'BATCHSCORE_RESULT_QUEUE_URL',
      ...matching('the URL of an SQS queue', (url) => URL.canParse(url)),
      doc: 'URL of the result queue',
      stated: 'required with `queue`',
    },
    clientQueueUrls: {
      variable: 'BATCHSCORE_CLIENT_QUEUE_URLS',
      ...listOf(
        'the URLs of SQS queues, comma-separated, each once',
        (urls) => urls.every((url) => URL.canParse(url)) && new Set(urls).size === urls.length,
      ),
      doc: 'Result queues of clients, comma-separated. The result of a message whose attribute `resultQueue` names one of them goes there',
    },
    resultsPerMessage: {
      variable: 'BATCHSCORE_RESULTS_PER_MESSAGE',
      ...whole({ min: 1, max: 10_000 }),
      default: 1,
      doc: 'Maximum results in a message of the result queue',
    },
    resultMessageBytes: {
      variable: 'BATCHSCORE_RESULT_MESSAGE_BYTES',
      ...whole({ min: 1024, max: MAX_MESSAGE_BYTES }),
      default: 65_536,
      doc: 'Maximum bytes of a message of several results, attributes included',
    },
  },
  table: {
    resultTable: {
      variable: 'BATCHSCORE_RESULT_TABLE',
      ...text('the name of a DynamoDB table'),
      doc: 'DynamoDB table of the results, with the key `messageId`',
      stated: 'required with `table`',
    },
    resultTtlSeconds: {
      variable: 'BATCHSCORE_RESULT_TTL_SECONDS',
      ...whole({ min: 1, max: 315_360_000 }),
      default: 604_800,
      doc: 'Seconds until a result in the table expires',
    },
  },
  bucket: {
    resultBucket: {
      variable: 'BATCHSCORE_RESULT_BUCKET',
      ...text('the name of an S3 bucket'),
      doc: 'S3 bucket of the results, one NDJSON object for each write',
      stated: 'required with `bucket`',
    },
    resultPrefix: {
      variable: 'BATCHSCORE_RESULT_PREFIX',
      ...KEY_PREFIX,
      doc: 'Prefix of the keys in that bucket, before `results/`',
    },
  },
} as const satisfies Readonly<Record<string, Catalogue>>;

export type Store = keyof typeof STORE_SETTINGS;
export const STORES = Object.keys(STORE_SETTINGS) as readonly Store[];

/** @param expected description for an environment variable */
const storesOf = (expected: string): Kind<readonly Store[]> => ({
  expected,
  read: (list) => {
    const names = list.split(',').map((name) => name.trim());
    const stores = STORES.filter((store) => names.includes(store)).toSorted(
      (a, b) => names.indexOf(a) - names.indexOf(b),
    );
    return stores.length === names.length ? stores : undefined;
  },
});

export const SETTINGS = {
  modelsDirectory: {
    variable: 'BATCHSCORE_MODELS_DIR',
    ...text('the path of a folder'),
    default: 'models',
    scoresJobs: true,
    doc: 'Folder of the model repository',
  },
  modelsUri: {
    variable: 'BATCHSCORE_MODELS_URI',
    ...matching(PUBLISHED, (uri) => parseModelsUri(uri) !== undefined),
    scoresJobs: true,
    doc: '[Model repository in S3](operations.md#models-in-s3), as `batchscore publish` prints it; replaces the folder',
  },
  defaultModel: {
    variable: 'BATCHSCORE_DEFAULT_MODEL',
    ...text('the name of a model'),
    scoresJobs: true,
    doc: 'Model of requests that name none',
    stated: 'the only model',
  },
  preload: {
    variable: 'BATCHSCORE_PRELOAD',
    ...FLAG,
    default: true,
    scoresJobs: true,
    doc: '`false` loads models other than the default one when a request names them',
    stated: '`true`: all are loaded at start',
  },
  providers: {
    variable: 'BATCHSCORE_PROVIDERS',
    ...listOf('names of execution providers, comma-separated', (names) => !names.includes('')),
    default: ['cpu'],
    scoresJobs: true,
    doc: 'ONNX Runtime execution providers, first choice first',
  },
  allowProviderFallback: {
    variable: 'BATCHSCORE_ALLOW_PROVIDER_FALLBACK',
    ...FLAG,
    default: false,
    scoresJobs: true,
    doc: '`true` warns and uses the next provider if one cannot be loaded',
    stated: '`false`: the start fails',
  },
  maxBatchRows: {
    variable: 'BATCHSCORE_MAX_BATCH_ROWS',
    ...whole({ min: 1, max: 65_536 }),
    default: 512,
    scoresJobs: true,
    doc: 'Maximum rows in one run',
  },
  maxBatchElements: {
    variable: 'BATCHSCORE_MAX_BATCH_ELEMENTS',
    ...whole({ min: 1, max: 1_073_741_824 }),
    default: 4_194_304,
    scoresJobs: true,
    doc: 'Maximum elements of all inputs of one run, padding included',
  },
  maxRequestRows: {
    variable: 'BATCHSCORE_MAX_REQUEST_ROWS',
    ...whole({ min: 1, max: 1_000_000 }),
    default: 10_000,
    scoresJobs: true,
    doc: 'Maximum rows in one request',
  },
  maxRequestsPerMessage: {
    variable: 'BATCHSCORE_MAX_REQUESTS_PER_MESSAGE',
    ...whole({ min: 1, max: 1_000_000 }),
    default: 10_000,
    scoresJobs: true,
    doc: 'Maximum requests in one packed message',
  },
  maxAnswerCharacters: {
    variable: 'BATCHSCORE_MAX_ANSWER_CHARACTERS',
    ...whole({ min: 1, max: 268_435_456 }),
    isByMemory: true,
    scoresJobs: true,
    doc: 'Maximum characters of the answer to one message',
    stated: 'a 64th of the memory in bytes: `28983296` with 1,769 MB',
  },
  deadlineMarginMs: {
    variable: 'BATCHSCORE_DEADLINE_MARGIN_MS',
    ...whole({ min: 1, max: 60_000 }),
    default: 1_000,
    doc: 'Reserve before the deadline, in ms: a run expected to end in it does not start, and a run that lasts until half of it is given up',
  },
  maxAgeSeconds: {
    variable: 'BATCHSCORE_MAX_AGE_SECONDS',
    ...whole({ min: 1, max: 1_209_600 }),
    doc: 'Seconds from the time that SQS took a message until it is answered with `EXPIRED` instead of being scored',
    stated: 'none: messages do not expire',
  },
  checkPercent: {
    variable: 'BATCHSCORE_CHECK_PERCENT',
    ...whole({ min: 0, max: 100 }),
    default: 1,
    scoresJobs: true,
    doc: "Percent of a model's run time for comparing batched answers with runs of the request alone; 0 compares none",
  },
  serviceName: {
    variable: 'BATCHSCORE_SERVICE_NAME',
    ...text('a name'),
    default: 'batchscore',
    scoresJobs: true,
    doc: 'Dimension `service` of metrics and logs',
  },
  logLevel: {
    variable: 'BATCHSCORE_LOG_LEVEL',
    ...oneOf(LOG_LEVELS),
    scoresJobs: true,
    doc: '`debug`, `info`, `warn` or `error`: see [logs](operations.md#logs)',
    stated: "that of the function's logging configuration, `info`",
  },
  batchSize: {
    variable: 'BATCHSCORE_BATCH_SIZE',
    ...whole(BATCH_SIZE),
    doc: 'Maximum records in one batch. A function needs it only for the metric `BatchFill`',
    stated: 'none; worker: `BATCHSCORE_MAX_BATCH_ROWS`',
  },
  windowSeconds: {
    variable: 'BATCHSCORE_WINDOW_SECONDS',
    ...amount(WINDOW_SECONDS),
    doc: 'Seconds to wait for a batch to fill; fractions only for the worker',
    stated: 'none; worker: 0',
  },
  timeoutSeconds: {
    variable: 'BATCHSCORE_TIMEOUT_SECONDS',
    ...whole({ min: 1, max: 3_600 }),
    default: 60,
    doc: 'Worker: maximum seconds for one batch; records that are not scored by then are handed back',
  },
  visibilitySeconds: {
    variable: 'BATCHSCORE_VISIBILITY_SECONDS',
    ...whole({ min: 1, max: 43_200 }),
    default: 60,
    doc: 'Worker: seconds that received messages stay hidden from others; extended while it holds them',
  },
  stopSeconds: {
    variable: 'BATCHSCORE_STOP_SECONDS',
    ...whole({ min: 2, max: 7_200 }),
    default: 30,
    doc: 'Worker: seconds from SIGTERM until the process is killed, such as the `stopTimeout` of ECS',
  },
  healthPort: {
    variable: 'BATCHSCORE_HEALTH_PORT',
    ...whole({ min: 0, max: 65_535 }),
    default: 0,
    doc: 'Worker: port on 127.0.0.1 for `/live` and `/ready`; 0 opens none',
  },
  maxPolls: {
    variable: 'BATCHSCORE_MAX_POLLS',
    ...whole({ min: 1, max: 64 }),
    default: 16,
    doc: 'Worker: maximum receives in flight',
  },
  pipelineDepth: {
    variable: 'BATCHSCORE_PIPELINE_DEPTH',
    ...whole({ min: 1, max: 16 }),
    default: 2,
    doc: 'Worker: maximum batches of a model that are scored at the same time, for each of its devices',
  },
  requestQueueUrls: {
    variable: 'BATCHSCORE_REQUEST_QUEUE_URL',
    ...listOf(
      'the URLs of SQS queues, comma-separated, each once',
      (urls) => urls.every((url) => URL.canParse(url)) && new Set(urls).size === urls.length,
    ),
    isRequired: true,
    doc: 'URL of the request queue; with shards, all URLs, comma-separated',
  },
  urgentQueueUrl: {
    variable: 'BATCHSCORE_URGENT_QUEUE_URL',
    ...matching('the URL of an SQS queue', (url) => URL.canParse(url)),
    doc: 'URL of the queue whose requests are scored before those of the request queue',
    stated: 'none',
  },
  results: {
    variable: 'BATCHSCORE_RESULTS',
    ...storesOf(`one or several of ${STORES.join(', ')}, comma-separated, each once`),
    default: ['queue'],
    doc: `Where results go, one or several, comma-separated: ${STORES.map((store) => `\`${store}\``).join(', ')}`,
  },
  ...STORE_SETTINGS.queue,
  ...STORE_SETTINGS.table,
  ...STORE_SETTINGS.bucket,
  payloadBucket: {
    variable: 'BATCHSCORE_PAYLOAD_BUCKET',
    ...text('the name of an S3 bucket'),
    doc: 'S3 bucket of bodies and results that are too large for SQS',
    stated: 'none: they are refused',
  },
  payloadPrefix: {
    variable: 'BATCHSCORE_PAYLOAD_PREFIX',
    ...KEY_PREFIX,
    doc: 'Prefix of the keys in that bucket, before `requests/` and `results/`',
  },
  capturePercent: {
    variable: 'BATCHSCORE_CAPTURE_PERCENT',
    ...amount({ min: 0, max: 100 }),
    default: 0,
    doc: 'Percent of the messages that are kept as [samples](operations.md#samples-of-what-came)',
  },
  captureBucket: {
    variable: 'BATCHSCORE_CAPTURE_BUCKET',
    ...text('the name of an S3 bucket'),
    doc: 'S3 bucket of the samples',
    stated: 'required with a percentage above 0',
  },
  capturePrefix: {
    variable: 'BATCHSCORE_CAPTURE_PREFIX',
    ...KEY_PREFIX,
    doc: 'Prefix of the keys in that bucket, before `captured/`',
  },
  eventsArn: {
    variable: 'BATCHSCORE_EVENTS_ARN',
    ...matching(
      'the ARN of an EventBridge bus or an SNS topic',
      (arn) =>
        /^arn:[\w-]+:(events:[\w-]+:\d+:event-bus\/|sns:[\w-]+:\d+:)[\w./-]+$/.test(arn) && !arn.endsWith('.fifo'),
    ),
    doc: 'EventBridge bus or SNS topic that gets [events](operations.md#events) of jobs, and of dead letters if `BATCHSCORE_MAX_RECEIVE_COUNT` is set',
  },
  maxReceiveCount: {
    variable: 'BATCHSCORE_MAX_RECEIVE_COUNT',
    ...whole({ min: 1, max: 1_000 }),
    doc: 'Receives after which SQS moves a message to the dead letters; the delays of retries follow from it',
    stated: '20 for the delays',
  },
  maxPayloadBytes: {
    variable: 'BATCHSCORE_MAX_PAYLOAD_BYTES',
    ...whole({ min: 1, max: 1_073_741_824 }),
    isByMemory: true,
    scoresJobs: true,
    doc: 'Maximum bytes of an object that is read from the payload bucket',
    stated: 'a 64th of the memory: `28983296` with 1,769 MB',
  },
} as const satisfies Catalogue;

export type SettingName = keyof typeof SETTINGS;

const JOB_SIZES = {
  jobsPartBytes: {
    variable: 'BATCHSCORE_JOBS_PART_BYTES',
    ...whole(JOB_RANGES.partBytes),
    default: JOB_RANGES.partBytes.default,
    doc: 'Scoring: bytes of a part, the work of one child of the map',
  },
  jobsPieceBytes: {
    variable: 'BATCHSCORE_JOBS_PIECE_BYTES',
    ...whole(JOB_RANGES.pieceBytes),
    default: JOB_RANGES.pieceBytes.default,
    doc: 'Scoring: bytes of a piece, which is read, scored and written as one',
  },
} as const satisfies Catalogue;

type ScoresJobs<C> = { [K in keyof C]: C[K] extends { scoresJobs: true } ? K : never }[keyof C];

/** Settings of the function that scores jobs. It has no queue. */
export const JOB_SCORE_SETTINGS = {
  ...(Object.fromEntries(Object.entries(SETTINGS).filter(([, setting]) => 'scoresJobs' in setting)) as Pick<
    typeof SETTINGS,
    ScoresJobs<typeof SETTINGS>
  >),
  ...JOB_SIZES,
};

const JOB_PLACES = {
  jobsBucket: {
    variable: 'BATCHSCORE_JOBS_BUCKET',
    ...text('the name of an S3 bucket'),
    isRequired: true,
    doc: 'Control: bucket of inputs and outputs',
  },
  jobsInputPrefix: {
    variable: 'BATCHSCORE_JOBS_INPUT_PREFIX',
    ...JOB_PREFIX,
    isRequired: true,
    doc: 'Control: prefix of the keys of inputs',
  },
  jobsOutputPrefix: {
    variable: 'BATCHSCORE_JOBS_OUTPUT_PREFIX',
    ...JOB_PREFIX,
    isRequired: true,
    doc: 'Control: prefix of the keys of outputs',
  },
  jobsStateMachine: {
    variable: 'BATCHSCORE_JOBS_STATE_MACHINE',
    ...matching('the ARN of a state machine', (arn) => arn.startsWith('arn:')),
    isRequired: true,
    doc: 'Control: ARN of the state machine',
  },
  jobsConcurrency: {
    variable: 'BATCHSCORE_JOBS_CONCURRENCY',
    ...whole(JOB_RANGES.concurrency),
    default: JOB_RANGES.concurrency.default,
    doc: 'Control: maximum calls of one job at a time',
  },
} as const satisfies Catalogue;

export const JOB_CONTROL_SETTINGS = {
  serviceName: SETTINGS.serviceName,
  logLevel: SETTINGS.logLevel,
  eventsArn: SETTINGS.eventsArn,
  ...JOB_PLACES,
};

/** Environment variables of every host, by the name of the setting. */
export const CONFIG_KEYS = variablesOf(SETTINGS);
/** Environment variables that only the functions of jobs have. */
export const JOB_CONFIG_KEYS = variablesOf({ ...JOB_SIZES, ...JOB_PLACES });

export const CONFIG_PREFIX = 'BATCHSCORE_';

/** Variable of ONNX Runtime that turns its telemetry off if it is 1. */
export const RUNTIME_TELEMETRY_OFF = 'ORT_DISABLE_TELEMETRY';

function variablesOf<C extends Catalogue>(catalogue: C): { readonly [K in keyof C]: C[K]['variable'] } {
  const entries = Object.entries(catalogue).map(([name, { variable }]) => [name, variable]);
  return Object.fromEntries(entries) as { readonly [K in keyof C]: C[K]['variable'] };
}
