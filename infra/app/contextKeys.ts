import { z } from 'zod';
import {
  BATCH_SIZE,
  FILL,
  JOB_MEMORY_MB,
  JOB_RANGES,
  LOG_LEVELS,
  MAXIMUM_CONCURRENCY,
  RANGES,
  type Range,
  SHARDS,
  STORES,
  WINDOW_SECONDS,
  wholeNumberIn,
} from '../../lambda/core/limits.ts';
import { CAPACITIES } from '../constructs/checks/gpuTask.ts';
import { ARCHITECTURES } from '../constructs/image/image.ts';

/** `-c key=value` gives text, `cdk.json` gives values: both are accepted. The construct checks the limits. */
const toNumber = (value: unknown): unknown =>
  typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
const numberThat = (error: string, least = Number.NEGATIVE_INFINITY) =>
  z.preprocess(toNumber, z.number({ error }).min(least, { error }));
const number = numberThat('expected a number');
/** One that the CDK takes as a duration or a size, of which it has none below 0. */
const amount = numberThat('expected a number from 0', 0);
/** One whose range does not depend on other keys. */
const numberIn = (range: Range) => numberThat(`expected ${wholeNumberIn(range)}`);
const amountIn = (range: Range) => numberThat(`expected ${wholeNumberIn(range)}`, 0);
const numberOrFill = z.union([z.literal(FILL), number], {
  error: `expected ${wholeNumberIn(RANGES.resultsPerMessage)}, or ${FILL}`,
});
const flag = z.preprocess(
  (value) => (value === 'true' ? true : value === 'false' ? false : value),
  z.boolean({ error: 'expected true or false' }),
);
const text = z.string({ error: 'expected text' }).min(1, { error: 'expected non-empty text' });
const stackName = text.regex(/^[A-Za-z][A-Za-z0-9-]{0,127}$/, {
  error: 'expected a letter followed by letters, digits and hyphens, at most 128 in all',
});
const keyArn = text.regex(/^arn:[\w-]+:kms:[\w-]+:\d{12}:key\/[\w-]+$/, {
  error: 'expected the ARN of a KMS key, arn:aws:kms:REGION:ACCOUNT:key/ID',
});
const topicArn = text.regex(/^arn:[\w-]+:sns:[\w-]+:\d{12}:[\w.-]+$/, {
  error: 'expected the ARN of an SNS topic, arn:aws:sns:REGION:ACCOUNT:NAME',
});
const oneOf = <const T extends readonly string[]>(values: T) =>
  z.enum(values, { error: `expected one of ${values.join(', ')}` });
const listOf = <T extends z.ZodType>(item: T) =>
  z.preprocess(
    (value) => (typeof value === 'string' ? value.split(',').map((name) => name.trim()) : value),
    z.array(item, { error: 'expected a list' }),
  );

export const COMPUTE_KINDS = ['lambda', 'lambda-gpu', 'ecs', 'ecs-gpu'] as const;

/** Every context key of the app. One that is left out keeps the construct's default. */
export const CONTEXT = z.strictObject({
  stackName: stackName.default('Batchscore'),
  compute: oneOf(COMPUTE_KINDS).default('lambda'),
  models: text.default('models'),
  defaultModel: text.optional(),
  batchSize: numberIn(BATCH_SIZE).optional(),
  windowSeconds: amountIn(WINDOW_SECONDS).optional(),
  largestMessageBytes: amount.optional(),
  latencyTargetSeconds: amount.optional(),
  eventSourceEnabled: flag.optional(),
  fifo: flag.optional(),
  shards: numberIn(SHARDS).optional(),
  maxReceiveCount: number.optional(),
  results: listOf(oneOf(STORES)).optional(),
  resultsPerMessage: numberOrFill.optional(),
  resultMessageBytes: amountIn(RANGES.resultMessageBytes).optional(),
  resultTtlSeconds: amountIn(RANGES.resultTtlSeconds).optional(),
  resultExpiryDays: amount.optional(),
  payloadExpiryDays: amount.optional(),
  encryption: oneOf(['service', 'kms']).default('service'),
  formerKeyArn: keyArn.optional(),
  retainData: flag.optional(),
  logRetentionDays: number.optional(),
  logLevel: oneOf(LOG_LEVELS).optional(),
  tracing: flag.optional(),
  jobs: flag.optional(),
  jobsBucket: text.optional(),
  jobsInputPrefix: text.optional(),
  jobsOutputPrefix: text.optional(),
  jobsConcurrency: numberIn(JOB_RANGES.concurrency).optional(),
  jobsReservedConcurrency: number.optional(),
  jobsMemoryMb: amountIn(JOB_MEMORY_MB).optional(),
  jobsPartMb: amount.optional(),
  alarmTopicArn: topicArn.optional(),
  retriedPercent: number.optional(),
  errorPercent: number.optional(),
  inFlightPercent: number.optional(),
  dashboard: flag.optional(),
  prices: text.optional(),
  maxBatchRows: numberIn(RANGES.maxBatchRows).optional(),
  checkPercent: numberIn(RANGES.checkPercent).optional(),
  architecture: oneOf(ARCHITECTURES).optional(),
  baseImage: text.optional(),
  pythonImage: text.optional(),
  pipIndexUrl: text.optional(),
  cufft: flag.optional(),
  memoryMb: amount.optional(),
  ephemeralStorageMb: amount.optional(),
  timeoutSeconds: amount.optional(),
  maximumConcurrency: numberIn(MAXIMUM_CONCURRENCY).optional(),
  reservedConcurrency: number.optional(),
  minimumPollers: number.optional(),
  maximumPollers: number.optional(),
  provisionedConcurrency: number.optional(),
  canaryPercent: number.optional(),
  canaryMinutes: amount.optional(),
  gpuMemoryGiB: amount.optional(),
  minimumEnvironments: number.optional(),
  maximumEnvironments: number.optional(),
  minimumTasks: number.optional(),
  maximumTasks: number.optional(),
  backlogPerTask: number.optional(),
  stopTimeoutSeconds: amount.optional(),
  vcpus: number.optional(),
  spot: flag.optional(),
  capacity: oneOf(CAPACITIES).optional(),
  gpuCount: number.optional(),
  instanceTypes: listOf(text).optional(),
});

export type Settings = z.infer<typeof CONTEXT>;
export type ContextKey = keyof Settings;

export const CONTEXT_KEYS = CONTEXT.keyof().options;

/** What `jobs` is needed for. */
export const KEYS_OF_JOBS = [
  'jobsBucket',
  'jobsInputPrefix',
  'jobsOutputPrefix',
  'jobsConcurrency',
  'jobsReservedConcurrency',
  'jobsMemoryMb',
  'jobsPartMb',
] as const;

const OF_FUNCTIONS = ['maximumConcurrency'] as const;
const OF_SERVICES = ['minimumTasks', 'maximumTasks', 'backlogPerTask', 'stopTimeoutSeconds', 'vcpus', 'spot'] as const;
const OF_GPUS = ['gpuMemoryGiB', 'instanceTypes', 'pythonImage', 'pipIndexUrl', 'cufft'] as const;

/** Keys that not every kind of compute knows, by those that do. */
export const KEYS_OF_KIND: Readonly<Record<Settings['compute'], readonly ContextKey[]>> = {
  lambda: [
    ...OF_FUNCTIONS,
    'ephemeralStorageMb',
    'reservedConcurrency',
    'minimumPollers',
    'maximumPollers',
    'provisionedConcurrency',
    'canaryPercent',
    'canaryMinutes',
    'jobs',
    ...KEYS_OF_JOBS,
  ],
  'lambda-gpu': [...OF_FUNCTIONS, ...OF_GPUS, 'ephemeralStorageMb', 'minimumEnvironments', 'maximumEnvironments'],
  ecs: [...OF_SERVICES, 'ephemeralStorageMb'],
  'ecs-gpu': [...OF_SERVICES, ...OF_GPUS, 'capacity', 'gpuCount'],
};
