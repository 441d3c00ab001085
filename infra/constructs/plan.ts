import { type Duration, RemovalPolicy, type Size } from 'aws-cdk-lib';
import type { IAlarmAction } from 'aws-cdk-lib/aws-cloudwatch';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { LOG_LEVELS, type LogLevel, mappingProblems, type ResultsPerMessage } from '../../lambda/core/limits.ts';
import { SETTINGS } from '../../lambda/settings.ts';

import {
  type Batching,
  type Compute,
  type ComputeForm,
  type FunctionCompute,
  withDefaults,
} from '../compute/compute.ts';
import { lambdaCompute } from '../compute/lambdaCompute.ts';
import { type ContainerImage, type ImageBuild, imageBuildProblems } from '../image/containerImage.ts';
import { type JobOptions, type JobSettings, jobProblems, jobSettings } from '../jobs/jobOptions.ts';
import { PRICES, type Prices } from '../priceList.ts';
import {
  type ExistingQueue,
  type ResultStore,
  type ResultStores,
  redriveOf,
  useRequestQueue,
  visibilitySecondsOf,
} from './channels.ts';
import { type ModelPlace, type Models, placeOfModels } from './existingThings.ts';
import { type Tuning, type TuningNumbers, tuningNumbers } from './hostEnvironment.ts';
import { oneOf, refuse } from './problems.ts';
import {
  bucketProblems,
  deadLetterProblems,
  payloadExpiryProblem,
  payloadReferences,
  queueKindProblems,
  receiveCountProblem,
  shardsProblem,
  statedVisibilityProblem,
  storeProblems,
  visibilityProblem,
} from './queueProblems.ts';
import {
  alarmProblems,
  environmentProblems,
  largestMessageProblem,
  latencyProblems,
  modelProblems,
  providersProblem,
  resultProblems,
  tracingProblem,
  tuningProblems,
} from './settingProblems.ts';
import { bytesOf, daysOf, secondsOf } from './units.ts';

/** The props, completed with defaults and checked to work together. */
interface Plan<Created extends Compute = Compute> {
  readonly compute: ComputeForm<Created>;
  readonly models: ModelPlace;
  readonly batching: Batching;
  readonly visibilityTimeoutSeconds: number;
  readonly largestMessageBytes: number | undefined;
  readonly latencyTargetSeconds: number;
  readonly alarmThresholds: AlarmThresholds;
  readonly maxReceiveCount: number;
  readonly results: readonly ResultStore[];
  readonly resultsPerMessage: ResultsPerMessage;
  readonly resultMessageBytes: number;
  readonly resultTtlSeconds: number;
  /** Of a new payload bucket. */
  readonly payloadExpiryDays: number;
  /** Of a new result bucket; undefined: never. */
  readonly resultExpiryDays: number | undefined;
  readonly removalPolicy: RemovalPolicy;
  readonly logRetention: RetentionDays;
  readonly logLevel: LogLevel | undefined;
  readonly tracing: boolean;
  readonly eventSourceEnabled: boolean;
  readonly prices: Prices;
  readonly tuning: TuningNumbers;
  /** Undefined: there are none. */
  readonly jobs: JobSettings | undefined;
}

const DEFAULTS = { maxReceiveCount: 5, resultTtlSeconds: SETTINGS.resultTtlSeconds.default, payloadExpiryDays: 30 };

/** Not `SNAPSHOT`: tables, buckets and log groups have none. */
const REMOVAL_POLICIES = [RemovalPolicy.RETAIN, RemovalPolicy.DESTROY, RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE];

/** @throws Error naming everything that would fail in production, with the numbers and the cure */
export function makePlan<Created extends Compute>(props: BatchScoringProps<Created>): Plan<Created> {
  const compute = props.compute ?? defaultCompute<Created>();
  const { requestQueue: existing, stores = {} } = props;
  const batching = withDefaults({
    batchSize: props.batchSize,
    windowSeconds: secondsOf('windowSeconds', props.window),
    fifo: existing?.queue.fifo ?? props.fifo,
    shards: props.shards,
  });
  const min = compute.minVisibility(batching);
  // What is derived is rounded up: a fraction is refused where it was given, and nowhere else.
  const plan: Plan<Created> = {
    compute,
    models: placeOfModels(props.models),
    batching,
    visibilityTimeoutSeconds:
      secondsOf('visibilityTimeoutSeconds', existing?.visibilityTimeout) ?? Math.ceil(min.seconds),
    largestMessageBytes: bytesOf('largestMessageBytes', props.largestMessage),
    latencyTargetSeconds:
      secondsOf('latencyTargetSeconds', props.latencyTarget) ??
      Math.ceil(batching.windowSeconds + compute.timeoutSeconds + (compute.wakeSeconds ?? 0)),
    alarmThresholds: thresholdsOf(props.alarmThresholds ?? {}, compute.firstStepPercent ?? 100),
    maxReceiveCount: redriveOf(existing?.queue)?.maxReceiveCount ?? props.maxReceiveCount ?? DEFAULTS.maxReceiveCount,
    results: props.results ?? ['queue'],
    resultsPerMessage: props.resultsPerMessage ?? SETTINGS.resultsPerMessage.default,
    resultMessageBytes: bytesOf('resultMessageBytes', props.resultMessageSize) ?? SETTINGS.resultMessageBytes.default,
    resultTtlSeconds: secondsOf('resultTtlSeconds', props.resultTtl) ?? DEFAULTS.resultTtlSeconds,
    payloadExpiryDays: daysOf('payloadExpiryDays', props.payloadExpiry) ?? DEFAULTS.payloadExpiryDays,
    resultExpiryDays: daysOf('resultExpiryDays', props.resultExpiry),
    removalPolicy: props.removalPolicy ?? RemovalPolicy.RETAIN,
    logRetention: props.logRetention ?? RetentionDays.ONE_MONTH,
    logLevel: props.logLevel,
    tracing: props.tracing ?? false,
    eventSourceEnabled: props.eventSourceEnabled ?? true,
    prices: withOverrides(props.prices ?? {}),
    tuning: tuningNumbers(props.tuning ?? {}),
    jobs: props.jobs && jobSettings(props.jobs),
  };
  refuse([
    ...imageBuildProblems(props.imageBuild ?? {}, {
      isGiven: props.image !== undefined,
      stage: compute.imageTarget.stage,
    }),
    ...(compute.feed === 'worker' ? [] : mappingProblems(batching)),
    tracingProblem(plan.tracing, compute),
    shardsProblem(batching.shards, existing?.queue),
    ...compute.problems(batching),
    largestMessageProblem(plan.largestMessageBytes),
    ...latencyProblems(batching, plan.latencyTargetSeconds),
    ...alarmProblems(plan.alarmThresholds),
    ...modelProblems(plan.models, compute),
    ...jobProblems(plan.jobs, plan),
    ...resultProblems(plan),
    ...bucketProblems({
      results: plan.results,
      keyPrefix: props.keyPrefix,
      payloadBucket: props.payloadBucket,
      resultBucket: stores.resultBucket,
      payloadExpiryDays: props.payloadExpiry && plan.payloadExpiryDays,
      resultExpiryDays: plan.resultExpiryDays,
    }),
    ...queueKindProblems({
      fifo: props.fifo,
      requestQueue: existing?.queue,
      resultQueue: stores.resultQueue,
    }),
    ...storeProblems({
      results: plan.results,
      stores,
      requestQueue: existing?.queue,
      deadLetterQueue: existing && useRequestQueue(existing).deadLetterQueue,
    }),
    // Of a given bucket only its owner knows when objects expire.
    props.payloadBucket === undefined
      ? payloadExpiryProblem(plan.payloadExpiryDays, payloadReferences(existing, stores, { ...batching, ...plan }))
      : undefined,
    ...environmentProblems(props.environment ?? {}),
    ...tuningProblems(plan.tuning, compute.timeoutSeconds),
    providersProblem(plan.tuning, compute),
    statedVisibilityProblem(plan.visibilityTimeoutSeconds, visibilitySecondsOf(existing?.queue)) ??
      visibilityProblem(plan.visibilityTimeoutSeconds, min.seconds, min.sum),
    ...deadLetterProblems(existing, props.maxReceiveCount),
    receiveCountProblem(plan.maxReceiveCount),
    oneOf('removalPolicy', plan.removalPolicy, REMOVAL_POLICIES),
    oneOf('logLevel', plan.logLevel, LOG_LEVELS),
  ]);
  return plan;
}

/** Where no compute is given, `Created` is the default of the type parameter, which is what this creates. */
function defaultCompute<Created extends Compute>(): ComputeForm<Created> {
  return lambdaCompute() as ComputeForm<Compute> as ComputeForm<Created>;
}

/** A new price for one instance type leaves the others as they are. */
function withOverrides(given: Partial<Prices>): Prices {
  return { ...PRICES, ...given, instanceHour: { ...PRICES.instanceHour, ...given.instanceHour } };
}

/**
 * Everything that a deployment can be told; each prop has a default, but models or an image are needed.
 *
 * @typeParam Created what the compute creates
 */
export interface BatchScoringProps<Created extends Compute = FunctionCompute> {
  /**
   * The model repository: a folder with `<name>/<version>/model.onnx`, which is built into the image; one in S3, which
   * hosts fetch when they start, as the URI that `batchscore publish` printed, or that and its bucket; or one in a file
   * system, as an EFS access point, which the function mounts.
   * @default none, if an `image` with models is given
   */
  readonly models?: Models;
  /** Your own image, with the runtime, and with the models if they lie nowhere else. @default one that is built */
  readonly image?: ContainerImage;
  /** What the image is built from besides `models`, such as a base named by its digest. @default see `ImageBuild` */
  readonly imageBuild?: ImageBuild;
  /** The model for requests that name none; outside the image it is not looked for before hosts start. @default the repository's only model */
  readonly defaultModel?: string;
  /** Where it runs: `lambdaCompute()`, `lambdaGpuCompute()`, `ecsCompute()`, `ecsGpuCompute()`, or one of your own. @default lambdaCompute() */
  readonly compute?: ComputeForm<Created>;
  /**
   * More variables of the host's environment, such as `NODE_OPTIONS`. None begins with `BATCHSCORE_`: `tuning` sets those.
   * @default none
   */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * Whether requests are scored as soon as the stack is deployed. `false`: they wait until someone switches the event
   * source mapping on; a service runs no task. @default true
   */
  readonly eventSourceEnabled?: boolean;

  /**
   * Most records in one invocation, 1 to 10,000; FIFO to 10. Above 10 it needs a window. Or in one batch of a worker, 1 to
   * 10,000. @default 100; FIFO 10
   */
  readonly batchSize?: number;
  /**
   * Longest wait for a batch to fill, whole seconds, 0 to 300; on a FIFO queue 0. A worker takes fractions too, on any
   * queue. @default 1 second; FIFO 0
   */
  readonly window?: Duration;
  /** The largest message sent inline; a warning says when full batches of it exceed 6 MB, or 32 MiB of a worker. @default none */
  readonly largestMessage?: Size;
  /** Within which an alarm expects an answer, whole seconds; longer than the window. @default window + timeout, and what waking takes where nothing always runs */
  readonly latencyTarget?: Duration;

  /** Whether the queues are FIFO queues. @default that of the given request queue, else false */
  readonly fifo?: boolean;
  /** An existing request queue. @default a new one, with a dead-letter queue */
  readonly requestQueue?: ExistingQueue;
  /**
   * New request queues behind one function, 1 to 10, or one service, 1 to 4, with one dead-letter queue: each has its own event source mapping and
   * its own quota of messages in flight. Clients spread over all of them. @default 1
   */
  readonly shards?: number;
  /** Receives after which a message goes to the dead letters, 3 to 1,000. @default 5 */
  readonly maxReceiveCount?: number;

  /** Where results go, each once. @default ['queue'] */
  readonly results?: readonly ResultStore[];
  /** Existing stores; the table's partition key must be the string `messageId`. @default new ones */
  readonly stores?: ResultStores;
  /** Most results in a message of the result queue, 1 to 10,000, or 'fill': as many as fit `resultMessageSize`. @default 1 */
  readonly resultsPerMessage?: ResultsPerMessage;
  /** Most that a message of several results holds, 1 KiB to 1 MiB; SQS bills each 64 KiB as one request. @default 64 KiB */
  readonly resultMessageSize?: Size;
  /** After which a result in the table expires, whole seconds. @default a week */
  readonly resultTtl?: Duration;
  /** After which an object of the new result bucket is deleted, whole days, 1 to 3,650. @default never */
  readonly resultExpiry?: Duration;
  /** An existing bucket for bodies and results that are too large for SQS or the table. @default a new one */
  readonly payloadBucket?: IBucket;
  /**
   * After which an object of the new payload bucket is deleted, whole days, up to 3,650. Messages and results must not
   * outlast what they point to: 14 days at least, 18 with FIFO queues, and as long as `resultTtl`.
   * @default 30 days
   */
  readonly payloadExpiry?: Duration;
  /**
   * What keys begin with in existing buckets, such as `fraud/`: `requests/` and `results/` follow, and nothing else in
   * them can be read or written. Deployments that share a bucket need different ones.
   * @default `batchscore/<account>/<region>/<service name>/`
   */
  readonly keyPrefix?: string;

  /**
   * Scores whole files of S3, besides messages, with functions and concurrency of their own: `{}` takes every default.
   * It needs the image of `lambdaCompute`. @default no jobs
   */
  readonly jobs?: JobOptions;

  /**
   * Your own key for queues, buckets, table, logs and environment. Existing ones whose key the CDK does not know are taken
   * to have it too. @default keys that each service manages
   */
  readonly encryptionKey?: IKey;
  /**
   * What `encryptionKey` was before it was changed or left out. What was encrypted with it until then can still be read,
   * by the function and by consumers, as long as it is given here. @default none
   */
  readonly formerEncryptionKey?: IKey;
  /**
   * What becomes of table, buckets, logs and the queues of results and dead letters when the stack no longer has them.
   * @default RemovalPolicy.RETAIN
   */
  readonly removalPolicy?: RemovalPolicy;
  /** Days that logs are kept. @default RetentionDays.ONE_MONTH */
  readonly logRetention?: RetentionDays;
  /**
   * How much the function logs: with `debug` also a line for each micro-batch and each call to AWS, which are many.
   * @default that of the function's logging configuration, 'info'
   */
  readonly logLevel?: LogLevel;
  /** Whether X-Ray traces invocations, with the stages as subsegments. @default false */
  readonly tracing?: boolean;

  /** What alarms do, such as `new SnsAction(topic)`. @default they only change state */
  readonly alarmActions?: readonly IAlarmAction[];
  /** What alarms do when they are over. @default the `alarmActions` */
  readonly okActions?: readonly IAlarmAction[];
  /** When alarms go off. @default 5 % of the records retried, 50 % of the requests in error, 80 % of the quota in flight */
  readonly alarmThresholds?: Partial<AlarmThresholds>;
  /** Whether there is a dashboard. @default true */
  readonly dashboard?: boolean;
  /** Prices that differ from the list in `prices.json`, in US dollars. @default the list */
  readonly prices?: Partial<Prices>;
  /** Settings of the scoring itself. @default the runtime's */
  readonly tuning?: Tuning;
}

/** When alarms go off. */
export interface AlarmThresholds {
  /**
   * Most percent of the records that go back to SQS, 0 to 99, in two of three periods of five minutes. Deployments and
   * throttles of a store retry a few; more costs runs twice, and receives that lead to the dead letters. @default 5, or half
   * of what a new version gets first
   */
  readonly retriedPercent: number;
  /**
   * Most percent of the requests that are answered with an error, 0 to 99, in two of three periods. A producer's bad
   * request is its own affair; when half of them are bad, a contract has changed. @default 50, or
   * half of what a new version gets first
   */
  readonly errorPercent: number;
  /**
   * Most percent of the messages that a queue may hand out, 1 to 99. Above the quota receives get nothing, without an
   * error; a fifth is the time to do something about it. @default 80
   */
  readonly inFlightPercent: number;
}

const DEFAULT_THRESHOLDS: AlarmThresholds = { retriedPercent: 5, errorPercent: 50, inFlightPercent: 80 };

/**
 * The thresholds that were given, and the defaults of the others: low enough for a new version to set an alarm off that
 * fails half of the invocations that it gets first.
 */
function thresholdsOf(given: Partial<AlarmThresholds>, firstStepPercent: number): AlarmThresholds {
  const noticed = Math.floor(firstStepPercent / 2);
  return {
    retriedPercent: given.retriedPercent ?? Math.min(DEFAULT_THRESHOLDS.retriedPercent, noticed),
    errorPercent: given.errorPercent ?? Math.min(DEFAULT_THRESHOLDS.errorPercent, noticed),
    inFlightPercent: given.inFlightPercent ?? DEFAULT_THRESHOLDS.inFlightPercent,
  };
}
