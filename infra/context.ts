import { JOB_MEMORY_MB, JOB_RANGES, SHARDS } from '../lambda/core/limits.ts';
import { nearestName } from '../lambda/core/wrongValue.ts';
import { FLAG, type Kind, listOf, matching, oneOf, SETTINGS, text, type ValuesOf, whole } from '../lambda/settings.ts';
import { CAPACITIES } from './compute/ecsCompute.ts';
import { type Problem, refuse } from './constructs/problems.ts';
import { ARCHITECTURES } from './image/containerImage.ts';

/** The settings of the app, by their context keys. One that is left out keeps the construct's default. */
export type Settings = ValuesOf<typeof CONTEXT>;

/**
 * The app's settings from the context of `cdk.json` and `-c`.
 *
 * @throws Error naming everything that is wrong
 */
export function readContext(context: Readonly<Record<string, unknown>>): Settings {
  const problems: Problem[] = [];
  const values: Record<string, unknown> = {};
  const own = new Map(Object.entries(context).filter(([key]) => !isOfCdk(key)));
  for (const [key, { read, expected, default: fallback }] of Object.entries<ContextKey>(CONTEXT)) {
    const given = own.get(key);
    const value = given === undefined ? fallback : read(textOf(given));
    if (value !== undefined) values[key] = value;
    else if (given !== undefined) {
      problems.push(
        `${key}: expected ${expected}, got ${JSON.stringify(given)}; change it in cdk.json or with -c ${key}=…`,
      );
    }
  }
  problems.push(...[...own.keys()].filter((key) => !Object.hasOwn(CONTEXT, key)).map(unknownKey));
  refuse(problems);
  refuse(Object.entries<ContextKey>(CONTEXT).map(([key, of]) => alone(key, of, values)));
  // Each value is what its kind has read, or its default.
  return values as Settings;
}

/** Keys that the CDK keeps in the context itself; its feature flags and lookups all have a prefix. */
const KEYS_OF_CDK = ['cli-telemetry', 'acknowledged-issue-numbers'];

function isOfCdk(key: string): boolean {
  return key.startsWith('@') || key.includes(':') || KEYS_OF_CDK.includes(key);
}

/** `-c key=value` gives text, `cdk.json` gives values: both are read as text. An object is none that anything takes. */
function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(textOf).join(',');
  return typeof value === 'object' ? '' : String(value);
}

function unknownKey(key: string): Problem {
  const nearest = nearestName(key, Object.keys(CONTEXT));
  const takes = Object.entries<ContextKey>(CONTEXT).find(([known]) => known === nearest)?.[1].expected;
  const hint = nearest === undefined ? 'docs/configuration.md lists them' : `did you mean ${nearest}, ${takes}?`;
  return `${key}: expected a context key of this app, got an unknown one; ${hint}`;
}

/** A key that another kind of compute has, or that means nothing without another key. */
function alone(key: string, { kinds, needs }: ContextKey, values: Readonly<Record<string, unknown>>): Problem {
  const value = values[key];
  if (value === undefined) return undefined;
  if (kinds !== undefined && !kinds.some((kind) => kind === values.compute)) {
    return `${key}: expected only with compute=${kinds.join(' or ')}, got it with compute=${values.compute}; leave it out`;
  }
  if (needs === undefined || (values[needs] !== undefined && values[needs] !== false)) return undefined;
  const what = CONTEXT[needs] === FLAG_OF_FUNCTIONS ? `${needs}=true` : needs;
  return `${key}: expected only with ${what}, got ${value} without it; give both, or leave it out`;
}

const COMPUTE_KINDS = ['lambda', 'lambda-gpu', 'ecs', 'ecs-gpu'] as const;
type ComputeKind = (typeof COMPUTE_KINDS)[number];

export interface ContextKey extends Kind<unknown> {
  readonly default?: unknown;
  /** The kinds of compute that know it. @default all */
  readonly kinds?: readonly ComputeKind[];
  /** The key without which it means nothing. */
  readonly needs?: 'jobs' | 'canaryPercent' | 'capturePercent';
}

/** The construct checks what it may be, which depends on other settings. */
const NUMBER: Kind<number> = { expected: 'a number', read: (given) => numberOf(given) };
/** One that the CDK takes as a duration or a size, of which it has none below 0. */
const AMOUNT: Kind<number> = {
  expected: 'a number from 0',
  read: (given) => [numberOf(given)].find((value) => value !== undefined && value >= 0),
};

function numberOf(given: string): number | undefined {
  const value = given.trim() === '' ? Number.NaN : Number(given);
  return Number.isNaN(value) ? undefined : value;
}

const TEXT = text('non-empty text');

const FUNCTIONS = { kinds: ['lambda', 'lambda-gpu'] } as const;
const ON_LAMBDA = { kinds: ['lambda'] } as const;
const ON_LAMBDA_GPU = { kinds: ['lambda-gpu'] } as const;
const SERVICES = { kinds: ['ecs', 'ecs-gpu'] } as const;
const ON_ECS_GPU = { kinds: ['ecs-gpu'] } as const;
const GPUS = { kinds: ['lambda-gpu', 'ecs-gpu'] } as const;
const OF_JOBS = { kinds: ['lambda'], needs: 'jobs' } as const;
const FLAG_OF_FUNCTIONS = { ...FLAG, ...ON_LAMBDA };

/** Every context key of the app. */
export const CONTEXT = {
  stackName: {
    ...matching('a letter followed by letters, digits and hyphens, at most 128 in all', (name) =>
      /^[A-Za-z][A-Za-z0-9-]{0,127}$/.test(name),
    ),
    default: 'Batchscore',
  },
  compute: { ...oneOf(COMPUTE_KINDS), default: 'lambda' },
  models: { ...TEXT, default: 'models' },
  defaultModel: TEXT,
  batchSize: only(SETTINGS.batchSize),
  windowSeconds: only(SETTINGS.windowSeconds),
  largestMessageBytes: AMOUNT,
  latencyTargetSeconds: AMOUNT,
  eventSourceEnabled: FLAG,
  fifo: FLAG,
  shards: whole(SHARDS),
  maxReceiveCount: NUMBER,
  results: only(SETTINGS.results),
  resultsPerMessage: only(SETTINGS.resultsPerMessage),
  resultMessageBytes: only(SETTINGS.resultMessageBytes),
  resultTtlSeconds: only(SETTINGS.resultTtlSeconds),
  resultExpiryDays: AMOUNT,
  payloadExpiryDays: AMOUNT,
  capturePercent: only(SETTINGS.capturePercent),
  captureExpiryDays: { ...AMOUNT, needs: 'capturePercent' },
  encryption: { ...oneOf(['service', 'kms']), default: 'service' },
  formerKeyArn: matching('the ARN of a KMS key, arn:aws:kms:REGION:ACCOUNT:key/ID', (arn) =>
    /^arn:[\w-]+:kms:[\w-]+:\d{12}:key\/[\w-]+$/.test(arn),
  ),
  retainData: FLAG,
  logRetentionDays: NUMBER,
  logLevel: only(SETTINGS.logLevel),
  tracing: FLAG,
  jobs: FLAG_OF_FUNCTIONS,
  jobsBucket: { ...TEXT, ...OF_JOBS },
  jobsInputPrefix: { ...TEXT, ...OF_JOBS },
  jobsOutputPrefix: { ...TEXT, ...OF_JOBS },
  jobsConcurrency: { ...whole(JOB_RANGES.concurrency), ...OF_JOBS },
  jobsReservedConcurrency: { ...NUMBER, ...OF_JOBS },
  jobsMemoryMb: { ...whole(JOB_MEMORY_MB), ...OF_JOBS },
  jobsPartMb: { ...AMOUNT, ...OF_JOBS },
  eventsArn: only(SETTINGS.eventsArn),
  alarmTopicArn: matching('the ARN of an SNS topic, arn:aws:sns:REGION:ACCOUNT:NAME', (arn) =>
    /^arn:[\w-]+:sns:[\w-]+:\d{12}:[\w.-]+$/.test(arn),
  ),
  retriedPercent: NUMBER,
  errorPercent: NUMBER,
  inFlightPercent: NUMBER,
  dashboard: FLAG,
  prices: TEXT,
  maxBatchRows: only(SETTINGS.maxBatchRows),
  checkPercent: only(SETTINGS.checkPercent),
  architecture: oneOf(ARCHITECTURES),
  baseImage: TEXT,
  pythonImage: { ...TEXT, ...GPUS },
  pipIndexUrl: { ...TEXT, ...GPUS },
  cufft: { ...FLAG, ...GPUS },
  memoryMb: AMOUNT,
  ephemeralStorageMb: { ...AMOUNT, kinds: ['lambda', 'lambda-gpu', 'ecs'] },
  timeoutSeconds: AMOUNT,
  maximumConcurrency: { ...NUMBER, ...FUNCTIONS },
  reservedConcurrency: { ...NUMBER, ...ON_LAMBDA },
  minimumPollers: { ...NUMBER, ...FUNCTIONS },
  maximumPollers: { ...NUMBER, ...FUNCTIONS },
  provisionedConcurrency: { ...NUMBER, ...ON_LAMBDA },
  canaryPercent: { ...NUMBER, ...ON_LAMBDA },
  canaryMinutes: { ...AMOUNT, ...ON_LAMBDA, needs: 'canaryPercent' },
  gpuMemoryGiB: { ...AMOUNT, ...GPUS },
  minimumEnvironments: { ...NUMBER, ...ON_LAMBDA_GPU },
  maximumEnvironments: { ...NUMBER, ...ON_LAMBDA_GPU },
  minimumTasks: { ...NUMBER, ...SERVICES },
  maximumTasks: { ...NUMBER, ...SERVICES },
  backlogPerTask: { ...NUMBER, ...SERVICES },
  stopTimeoutSeconds: { ...AMOUNT, ...SERVICES },
  vcpus: { ...NUMBER, ...SERVICES },
  spot: { ...FLAG, ...SERVICES },
  capacity: { ...oneOf(CAPACITIES), ...ON_ECS_GPU },
  gpuCount: { ...NUMBER, ...ON_ECS_GPU },
  instanceTypes: { ...listOf('a list of instance types', (types) => !types.includes('')), ...GPUS },
} as const satisfies Readonly<Record<string, ContextKey>>;

/** What a host's setting may be, without its default: the construct has one of its own. */
function only<T>({ expected, read }: Kind<T>): Kind<T> {
  return { expected, read };
}
