import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Names, RemovalPolicy } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { MAX_RECEIVES } from '../../lambda/core/limits.ts';
import type { SettingName } from '../../lambda/settings.ts';
import { DEFAULT_SECONDS, redriveOf, secondsOfQueue } from '../common/given.ts';
import { placeOfModels } from '../common/models.ts';
import { type Problem, refuse, unknownAtSynth } from '../common/problems.ts';
import { bytesOf, daysOf, millisecondsOf, secondsOf } from '../common/units.ts';
import type { Batching, Compute, ComputeForm } from '../compute/compute.ts';
import { jobSettings } from '../jobs/jobOptions.ts';
import type { AlarmThresholds } from '../monitoring/alarms.ts';
import { type BatchScoringProps, type ExistingQueue, STORE_PLANS, type Tuning } from './props.ts';

/** Defaults by kind of queue. A FIFO queue delivers at most ten records and has no window. */
const DEFAULTS = { standard: { batchSize: 100, windowSeconds: 1 }, fifo: { batchSize: 10, windowSeconds: 0 } };

/** Default expiry of payloads and samples. */
const EXPIRY_DAYS = 30;

export type DeploymentPlan = ReturnType<typeof makePlan>;

/** Completes the props with defaults. @throws ValidationError if a value that others are computed from is a token */
export function makePlan(scope: Construct, props: BatchScoringProps<Compute>, compute: ComputeForm) {
  const { requestQueue: existing, results = ['queue'], stores = {}, capture } = props;
  refuse([
    unknownAtSynth('shards', props.shards),
    unknownAtSynth('results', results, ...results),
    !Array.isArray(results) && `results: expected an array of stores, got ${results}; write ['${results}']`,
    typeof compute.create !== 'function' &&
      `compute: expected what a call such as lambdaCompute() returns, got a ${typeof compute}; call it`,
    existing && incompleteQueue(existing),
  ]);
  const fifo = existing?.queue.fifo ?? props.fifo ?? false;
  const byKind = fifo ? DEFAULTS.fifo : DEFAULTS.standard;
  const batching: Batching = {
    fifo,
    shards: props.shards ?? 1,
    urgent: props.urgent ?? false,
    batchSize: props.batchSize ?? byKind.batchSize,
    windowSeconds: secondsOf('window', props.window) ?? byKind.windowSeconds,
  };
  const context = { results, stores, fifo };
  const timeToScore = compute.timeoutSeconds + (compute.wakeSeconds ?? 0);
  const latencyTargetSeconds =
    secondsOf('latencyTarget', props.latencyTarget) ?? Math.ceil(batching.windowSeconds + timeToScore);
  // Derived values are rounded up, so that a fraction is refused only where it was given.
  return {
    props,
    compute,
    serviceName: Names.uniqueResourceName(scope, { separator: '-', maxLength: 64 }),
    batching,
    results,
    models: placeOfModels(props.models),
    visibilityTimeoutSeconds:
      secondsOf('requestQueue.visibilityTimeout', existing?.visibilityTimeout) ??
      Math.ceil(compute.minVisibility(batching).seconds),
    /** Seconds that SQS keeps requests. Undefined if the queue is imported. */
    retentionSeconds:
      existing === undefined
        ? (secondsOf('queueProps.retentionPeriod', props.queueProps?.retentionPeriod) ??
          DEFAULT_SECONDS.messageRetentionPeriod)
        : secondsOfQueue(existing.queue, 'messageRetentionPeriod'),
    latencyTargetSeconds,
    urgentTargetSeconds: Math.min(latencyTargetSeconds, Math.ceil(timeToScore)),
    alarmThresholds: thresholdsOf(props.alarmThresholds ?? {}, compute.firstStepPercent ?? 100),
    maxReceiveCount: redriveOf(existing?.queue)?.maxReceiveCount ?? props.maxReceiveCount ?? MAX_RECEIVES,
    /** All stores, including those that no results go to, because their props are also checked. */
    stores: Object.values(STORE_PLANS).map((plan) => plan(props, context)),
    payloadExpiryDays: daysOf('payloadExpiry', props.payloadExpiry) ?? EXPIRY_DAYS,
    capture: capture?.percent
      ? { ...capture, expiryDays: daysOf('capture.expiry', capture.expiry) ?? EXPIRY_DAYS }
      : undefined,
    removalPolicy: props.removalPolicy ?? RemovalPolicy.RETAIN,
    logRetention: props.logRetention ?? RetentionDays.ONE_MONTH,
    logLevel: props.logLevel,
    tracing: props.tracing ?? false,
    eventSourceEnabled: props.eventSourceEnabled ?? true,
    encryptionKey: props.encryptionKey,
    events: props.jobEvents,
    tuning: tuningOf(props.tuning ?? {}),
    jobs: props.jobs && jobSettings(props.jobs),
  };
}

/** Returns a problem if something is left out, as in an app that no compiler has checked. */
function incompleteQueue({ queue, visibilityTimeout }: Partial<ExistingQueue>): Problem {
  if (queue === undefined)
    return 'requestQueue: expected an object with queue and visibilityTimeout, got none of a queue; write { queue, visibilityTimeout }';
  const seconds = secondsOfQueue(queue, 'visibilityTimeout');
  const own = seconds === undefined ? "the queue's own" : `Duration.seconds(${seconds}), as the queue has it`;
  return (
    visibilityTimeout === undefined && `requestQueue.visibilityTimeout: expected a duration, got none; give ${own}`
  );
}

/** Tuning settings with a unit: their prop, and the unit of the number. */
export const TUNING_AMOUNTS: Readonly<Partial<Record<SettingName, readonly [prop: keyof Tuning, unit: string]>>> = {
  deadlineMarginMs: ['deadlineMargin', 'milliseconds'],
  maxPayloadBytes: ['maxPayloadSize', 'bytes'],
  maxAgeSeconds: ['maxAge', 'seconds'],
};

type Plain = number | string | boolean | undefined;

/** Returns the tuning settings as plain numbers, by their names in the catalogue. */
function tuningOf({ deadlineMargin, maxPayloadSize, maxAge, ...others }: Tuning) {
  // A prop that has a unit, or that is no setting, does not compile here.
  const plain: { [K in keyof typeof others]: K extends SettingName ? Extract<Tuning[K], Plain> : never } = others;
  return {
    ...plain,
    deadlineMarginMs: millisecondsOf('tuning.deadlineMargin', deadlineMargin),
    maxPayloadBytes: bytesOf('tuning.maxPayloadSize', maxPayloadSize),
    maxAgeSeconds: secondsOf('tuning.maxAge', maxAge),
  };
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
  };
}
