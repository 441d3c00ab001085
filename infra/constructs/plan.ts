import { RemovalPolicy } from 'aws-cdk-lib';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import {
  LOG_LEVELS,
  type LogLevel,
  mappingProblems,
  RANGES,
  type ResultsPerMessage,
} from '../../lambda/core/limits.ts';
import { type AlarmThresholds, thresholdsOf } from './base/alarmThresholds.ts';
import { type Batching, withDefaults } from './base/batching.ts';
import { PRICES, type Prices } from './base/prices.ts';
import { oneOf, refuse } from './base/refuse.ts';
import { bytesOf, daysOf, secondsOf } from './base/units.ts';
import { alarmProblems } from './checks/alarms.ts';
import { largestMessageProblem, latencyProblems } from './checks/batching.ts';
import { bucketProblems } from './checks/buckets.ts';
import { deadLetterProblems } from './checks/deadLetters.ts';
import { environmentProblems } from './checks/environment.ts';
import { jobProblems } from './checks/jobs.ts';
import { modelProblems } from './checks/models.ts';
import { payloadExpiryProblem } from './checks/payloadExpiry.ts';
import { providersProblem } from './checks/providers.ts';
import {
  queueKindProblems,
  receiveCountProblem,
  shardsProblem,
  statedVisibilityProblem,
  visibilityProblem,
} from './checks/queues.ts';
import { resultProblems } from './checks/results.ts';
import { storeProblems } from './checks/stores.ts';
import { tracingProblem } from './checks/tracing.ts';
import { tuningProblems } from './checks/tuning.ts';
import type { Compute, ComputeForm } from './compute/compute.ts';
import { lambdaCompute } from './compute/lambda.ts';
import { type TuningNumbers, tuningNumbers } from './environment/tuning.ts';
import { imageBuildProblems } from './image/imageBuild.ts';
import { type JobSettings, jobSettings } from './jobs/options.ts';
import type { BatchScoringProps } from './props.ts';
import { visibilitySecondsOf } from './storage/known.ts';
import { type ModelPlace, placeOfModels } from './storage/models.ts';
import { payloadReferences } from './storage/payloadReferences.ts';
import { redriveOf, useRequestQueue } from './storage/requestQueue.ts';
import type { ResultStore } from './storage/resultStores.ts';

/** The props, completed with defaults and checked to work together. */
export interface Plan<Created extends Compute = Compute> {
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

const DEFAULTS = { maxReceiveCount: 5, resultTtlSeconds: RANGES.resultTtlSeconds.default, payloadExpiryDays: 30 };

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
  const least = compute.leastVisibility(batching);
  // What is derived is rounded up: a fraction is refused where it was given, and nowhere else.
  const plan: Plan<Created> = {
    compute,
    models: placeOfModels(props.models),
    batching,
    visibilityTimeoutSeconds:
      secondsOf('visibilityTimeoutSeconds', existing?.visibilityTimeout) ?? Math.ceil(least.seconds),
    largestMessageBytes: bytesOf('largestMessageBytes', props.largestMessage),
    latencyTargetSeconds:
      secondsOf('latencyTargetSeconds', props.latencyTarget) ??
      Math.ceil(batching.windowSeconds + compute.timeoutSeconds + (compute.wakeSeconds ?? 0)),
    alarmThresholds: thresholdsOf(props.alarmThresholds ?? {}, compute.firstStepPercent ?? 100),
    maxReceiveCount: redriveOf(existing?.queue)?.maxReceiveCount ?? props.maxReceiveCount ?? DEFAULTS.maxReceiveCount,
    results: props.results ?? ['queue'],
    resultsPerMessage: props.resultsPerMessage ?? RANGES.resultsPerMessage.default,
    resultMessageBytes: bytesOf('resultMessageBytes', props.resultMessageSize) ?? RANGES.resultMessageBytes.default,
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
      visibilityProblem(plan.visibilityTimeoutSeconds, least.seconds, least.sum),
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
