import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { RemovalPolicy } from 'aws-cdk-lib/core';
import { type LogLevel, MAX_RECEIVES } from '../../lambda/core/limits.ts';
import type { Store } from '../../lambda/settings.ts';
import { deadLettersOf, redriveOf } from '../common/given.ts';
import { type ModelPlace, placeOfModels } from '../common/models.ts';
import { refuse, unknownAtSynth } from '../common/problems.ts';
import { bytesOf, daysOrToken, millisecondsOf, secondsOf, secondsOrToken } from '../common/units.ts';
import { type Batching, type Compute, type ComputeForm, withDefaults } from '../compute/compute.ts';
import { lambdaCompute } from '../compute/lambdaCompute.ts';
import { type JobSettings, jobSettings } from '../jobs/jobOptions.ts';
import type { AlarmThresholds } from '../monitoring/alarms.ts';
import type { StorePlan } from '../stores/resultStore.ts';
import { type BatchScoringProps, STORE_PLANS, type Tuning } from './props.ts';

export interface DeploymentPlan<Created extends Compute = Compute> {
  readonly compute: ComputeForm<Created>;
  readonly models: ModelPlace;
  readonly batching: Batching;
  readonly visibilityTimeoutSeconds: number;
  readonly largestMessageBytes: number | undefined;
  readonly latencyTargetSeconds: number;
  readonly alarmThresholds: AlarmThresholds;
  readonly maxReceiveCount: number;
  readonly results: readonly Store[];
  /** All stores, including those that no results go to, because their props are also checked. */
  readonly stores: readonly StorePlan[];
  readonly payloadExpiryDays: number;
  readonly capture:
    | { readonly percent: number; readonly bucket?: IBucket | undefined; readonly expiryDays: number }
    | undefined;
  readonly removalPolicy: RemovalPolicy;
  readonly logRetention: RetentionDays;
  readonly logLevel: LogLevel | undefined;
  readonly tracing: boolean;
  readonly eventSourceEnabled: boolean;
  readonly tuning: ReturnType<typeof tuningOf>;
  readonly jobs: JobSettings | undefined;
}

/** Completes the props with defaults. @throws ValidationError if a value that others are computed from is a token */
export function makePlan<Created extends Compute>(props: BatchScoringProps<Created>): DeploymentPlan<Created> {
  const { requestQueue: existing, results = ['queue'], alarmThresholds = {} } = props;
  refuse([
    unknownAtSynth('shards', props.shards),
    unknownAtSynth('results', results, ...results),
    unknownAtSynth('alarmThresholds.inFlightPercent', alarmThresholds.inFlightPercent),
  ]);
  const compute = props.compute ?? defaultCompute<Created>();
  const batching = withDefaults({
    batchSize: props.batchSize,
    windowSeconds: secondsOf('window', props.window),
    fifo: existing?.queue.fifo ?? props.fifo,
    shards: props.shards,
  });
  const context = {
    results,
    stores: props.stores ?? {},
    fifo: batching.fifo,
    requestQueue: existing?.queue,
    deadLetterQueue: existing && deadLettersOf(existing),
  };
  // Derived values are rounded up, so that a fraction is refused only where it was given.
  return {
    compute,
    models: placeOfModels(props.models),
    batching,
    visibilityTimeoutSeconds:
      secondsOf('requestQueue.visibilityTimeout', existing?.visibilityTimeout) ??
      Math.ceil(compute.minVisibility(batching).seconds),
    largestMessageBytes: bytesOf('largestMessage', props.largestMessage),
    latencyTargetSeconds:
      secondsOf('latencyTarget', props.latencyTarget) ??
      Math.ceil(batching.windowSeconds + compute.timeoutSeconds + (compute.wakeSeconds ?? 0)),
    alarmThresholds: thresholdsOf(alarmThresholds, compute.firstStepPercent ?? 100),
    maxReceiveCount: redriveOf(existing?.queue)?.maxReceiveCount ?? props.maxReceiveCount ?? MAX_RECEIVES,
    results,
    stores: Object.values(STORE_PLANS).map((plan) => plan(props, context)),
    payloadExpiryDays: daysOrToken('payloadExpiry', props.payloadExpiry) ?? 30,
    capture: props.capture?.percent
      ? { ...props.capture, expiryDays: daysOrToken('capture.expiry', props.capture.expiry) ?? 30 }
      : undefined,
    removalPolicy: props.removalPolicy ?? RemovalPolicy.RETAIN,
    logRetention: props.logRetention ?? RetentionDays.ONE_MONTH,
    logLevel: props.logLevel,
    tracing: props.tracing ?? false,
    eventSourceEnabled: props.eventSourceEnabled ?? true,
    tuning: tuningOf(props.tuning ?? {}),
    jobs: props.jobs && jobSettings(props.jobs),
  };
}

/** Tuning settings with a unit: their prop, and the unit of the number. */
export const TUNING_AMOUNTS: Readonly<Record<string, readonly [prop: string, unit: string]>> = {
  deadlineMarginMs: ['deadlineMargin', 'milliseconds'],
  maxPayloadBytes: ['maxPayloadSize', 'bytes'],
  maxAgeSeconds: ['maxAge', 'seconds'],
};

/** Returns the tuning settings as plain numbers, by their names in the catalogue. */
function tuningOf({ deadlineMargin, maxPayloadSize, maxAge, ...others }: Tuning) {
  return {
    ...others,
    deadlineMarginMs: millisecondsOf('tuning.deadlineMargin', deadlineMargin),
    maxPayloadBytes: bytesOf('tuning.maxPayloadSize', maxPayloadSize),
    maxAgeSeconds: secondsOrToken('tuning.maxAge', maxAge),
  };
}

function defaultCompute<Created extends Compute>(): ComputeForm<Created> {
  return lambdaCompute() as ComputeForm<Compute> as ComputeForm<Created>;
}

/**
 * Completes the thresholds with defaults. Defaults are low enough to notice a new version that fails half of the
 * invocations in its first step.
 */
function thresholdsOf(given: Partial<AlarmThresholds>, firstStepPercent: number): AlarmThresholds {
  const noticed = Math.floor(firstStepPercent / 2);
  return {
    retriedPercent: given.retriedPercent ?? Math.min(5, noticed),
    errorPercent: given.errorPercent ?? Math.min(50, noticed),
    inFlightPercent: given.inFlightPercent ?? 80,
  };
}
