import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { RemovalPolicy } from 'aws-cdk-lib/core';
import {
  FILL,
  LOG_LEVELS,
  type LogLevel,
  MAX_RECEIVES,
  mappingProblems,
  outside,
  type ResultsPerMessage,
  STORES,
} from '../../lambda/core/limits.ts';
import { nearestName } from '../../lambda/core/wrongValue.ts';
import { CONFIG_PREFIX, RUNTIME_TELEMETRY_OFF, SETTINGS } from '../../lambda/settings.ts';
import { type Batching, type Compute, type ComputeForm, withDefaults } from '../compute/compute.ts';
import { lambdaCompute } from '../compute/lambdaCompute.ts';
import { imageBuildProblems } from '../image/containerImage.ts';
import { type JobSettings, jobProblems, jobSettings } from '../jobs/jobOptions.ts';
import { redriveOf } from './channels.ts';
import { existingProblems, type ModelPlace, modelProblems, placeOfModels } from './existingThings.ts';
import { brokenOf, oneOf, type Problem, refuse, unknownAtSynth } from './problems.ts';
import type { AlarmThresholds, BatchScoringProps, ResultStore, Tuning } from './props.ts';
import { bytesOf, daysOrToken, millisecondsOf, secondsOf, secondsOrToken } from './units.ts';

/** The props, completed with defaults and checked to work together. */
export interface DeploymentPlan<Created extends Compute = Compute> {
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
  /** Undefined: no samples are kept. */
  readonly capture:
    | { readonly percent: number; readonly bucket?: IBucket | undefined; readonly expiryDays: number }
    | undefined;
  readonly removalPolicy: RemovalPolicy;
  readonly logRetention: RetentionDays;
  readonly logLevel: LogLevel | undefined;
  readonly tracing: boolean;
  readonly eventSourceEnabled: boolean;
  readonly tuning: ReturnType<typeof tuningOf>;
  /** Undefined: there are none. */
  readonly jobs: JobSettings | undefined;
}

/** @throws Error naming everything that would fail in production, with the numbers and the cure */
export function makePlan<Created extends Compute>(props: BatchScoringProps<Created>): DeploymentPlan<Created> {
  const compute = props.compute ?? defaultCompute<Created>();
  const existing = props.requestQueue;
  const batching = withDefaults({
    batchSize: props.batchSize,
    windowSeconds: secondsOf('window', props.window),
    fifo: existing?.queue.fifo ?? props.fifo,
    shards: props.shards,
  });
  // What is derived is rounded up: a fraction is refused where it was given, and nowhere else.
  const plan: DeploymentPlan<Created> = {
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
    alarmThresholds: thresholdsOf(props.alarmThresholds ?? {}, compute.firstStepPercent ?? 100),
    maxReceiveCount: redriveOf(existing?.queue)?.maxReceiveCount ?? props.maxReceiveCount ?? MAX_RECEIVES,
    results: props.results ?? ['queue'],
    resultsPerMessage: props.resultsPerMessage ?? SETTINGS.resultsPerMessage.default,
    resultMessageBytes: bytesOf('resultMessageSize', props.resultMessageSize) ?? SETTINGS.resultMessageBytes.default,
    resultTtlSeconds: secondsOrToken('resultTtl', props.resultTtl) ?? SETTINGS.resultTtlSeconds.default,
    payloadExpiryDays: daysOrToken('payloadExpiry', props.payloadExpiry) ?? 30,
    resultExpiryDays: daysOrToken('resultExpiry', props.resultExpiry),
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
  refuse([
    unknownAtSynth('shards', props.shards),
    unknownAtSynth('results', props.results, ...plan.results),
    unknownAtSynth('alarmThresholds.inFlightPercent', plan.alarmThresholds.inFlightPercent),
    ...imageBuildProblems(props.imageBuild ?? {}, props.image !== undefined, compute.imageTarget.stage),
    ...(compute.feed === 'worker' ? [] : mappingProblems(batching, 'window')),
    ...compute.problems(batching),
    ...rangeProblems(plan),
    ...joinedProblems(plan),
    ...environmentProblems(props.environment ?? {}),
    ...modelProblems(plan.models, compute),
    ...jobProblems(plan.jobs, plan),
    ...existingProblems(props, plan),
  ]);
  return plan;
}

/** The settings of the scoring with plain numbers, by their names in the catalogue. */
function tuningOf({ deadlineMargin, maxPayloadSize, ...others }: Tuning) {
  return {
    ...others,
    deadlineMarginMs: millisecondsOf('tuning.deadlineMargin', deadlineMargin),
    maxPayloadBytes: bytesOf('tuning.maxPayloadSize', maxPayloadSize),
  };
}

/** Where no compute is given, `Created` is the default of the type parameter, which is what this creates. */
function defaultCompute<Created extends Compute>(): ComputeForm<Created> {
  return lambdaCompute() as ComputeForm<Compute> as ComputeForm<Created>;
}

/**
 * The thresholds that were given, and the defaults of the others: low enough for a new version to set an alarm off that
 * fails half of the invocations that it gets first.
 */
function thresholdsOf(given: Partial<AlarmThresholds>, firstStepPercent: number): AlarmThresholds {
  const noticed = Math.floor(firstStepPercent / 2);
  return {
    retriedPercent: given.retriedPercent ?? Math.min(5, noticed),
    errorPercent: given.errorPercent ?? Math.min(50, noticed),
    inFlightPercent: given.inFlightPercent ?? 80,
  };
}

const PERCENT = { min: 0, max: 99 };
const EXPIRY_DAYS = { min: 1, max: 3650 };
/** Not `SNAPSHOT`: tables, buckets and log groups have none. */
const REMOVAL_POLICIES = [RemovalPolicy.RETAIN, RemovalPolicy.DESTROY, RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE];

/** Settings of the scoring whose prop has a unit: its name, and the unit of the number. */
const TUNING_AMOUNTS: Readonly<Record<string, readonly [prop: string, unit: string]>> = {
  deadlineMarginMs: ['deadlineMargin', 'milliseconds'],
  maxPayloadBytes: ['maxPayloadSize', 'bytes'],
};

/** Values that are out of their own range. */
function rangeProblems(plan: DeploymentPlan): Problem[] {
  const { resultsPerMessage, alarmThresholds, maxReceiveCount } = plan;
  const ranges = new Map(Object.entries(SETTINGS).flatMap(([name, one]) => ('min' in one ? [[name, one]] : [])));
  const ofTuning = Object.entries(plan.tuning).map(([name, value]) => {
    const range = ranges.get(name);
    const [prop, unit] = TUNING_AMOUNTS[name] ?? [name];
    return typeof value === 'number' && range !== undefined ? outside(`tuning.${prop}`, value, range, unit) : undefined;
  });
  return [
    outside('latencyTarget', plan.latencyTargetSeconds, { min: 1, max: 1_209_600 }, 'seconds'),
    // Larger than SQS takes is not refused: such messages go through the payload bucket.
    outside('largestMessage', plan.largestMessageBytes, { min: 1, max: SETTINGS.maxPayloadBytes.max }, 'bytes'),
    outside('alarmThresholds.retriedPercent', alarmThresholds.retriedPercent, PERCENT),
    outside('alarmThresholds.errorPercent', alarmThresholds.errorPercent, PERCENT),
    outside('alarmThresholds.inFlightPercent', alarmThresholds.inFlightPercent, { min: 1, max: 99 }),
    resultsPerMessage === FILL
      ? undefined
      : outside('resultsPerMessage', resultsPerMessage, SETTINGS.resultsPerMessage),
    outside('resultMessageSize', plan.resultMessageBytes, SETTINGS.resultMessageBytes, 'bytes'),
    outside('resultTtl', plan.resultTtlSeconds, SETTINGS.resultTtlSeconds, 'seconds'),
    outside('payloadExpiry', plan.payloadExpiryDays, EXPIRY_DAYS, 'days'),
    outside('resultExpiry', plan.resultExpiryDays, EXPIRY_DAYS, 'days'),
    ...(plan.capture === undefined ? [] : captureProblems(plan.capture)),
    maxReceiveCount < 3
      ? 'maxReceiveCount: expected at least 3, because throttles and timeouts count as receives, ' +
        `got ${maxReceiveCount}; raise it to ${MAX_RECEIVES}`
      : outside('maxReceiveCount', maxReceiveCount, { min: 3, max: 1000 }),
    oneOf('removalPolicy', plan.removalPolicy, REMOVAL_POLICIES),
    oneOf('logLevel', plan.logLevel, LOG_LEVELS),
    ...ofTuning,
  ];
}

function captureProblems({ percent, expiryDays }: NonNullable<DeploymentPlan['capture']>): Problem[] {
  const { min, max } = SETTINGS.capturePercent;
  return [
    ...brokenOf([
      [
        !(percent >= min && percent <= max),
        `capture.percent: expected ${SETTINGS.capturePercent.expected}, got ${percent}; choose one in that range`,
      ],
    ]),
    outside('capture.expiry', expiryDays, EXPIRY_DAYS, 'days'),
  ];
}

const GPU_PROVIDERS = ['cuda', 'tensorrt'];
/** Those that ONNX Runtime for Node has on Linux. */
const PROVIDERS = ['cpu', 'webgpu', ...GPU_PROVIDERS];

/** Values that do not go together. */
function joinedProblems(plan: DeploymentPlan): Problem[] {
  const { batching, compute, results, resultsPerMessage, resultMessageBytes, latencyTargetSeconds, tuning } = plan;
  const { kind, timeoutSeconds } = compute;
  const { windowSeconds } = batching;
  const marginMs = tuning.deadlineMarginMs ?? SETTINGS.deadlineMarginMs.default;
  const areStores = results.length > 0 && results.every((store) => STORES.includes(store));
  const providers = tuning.providers?.split(',').map((name) => name.trim()) ?? [];
  const unknown = providers.find((name) => !PROVIDERS.includes(name));
  const nearest = unknown && nearestName(unknown, PROVIDERS);
  const hasGpu = compute.imageTarget.stage.endsWith('-gpu') || tuning.allowProviderFallback === true;
  return brokenOf([
    [
      latencyTargetSeconds <= windowSeconds,
      `latencyTarget: expected more than the window of ${windowSeconds} seconds, got ${latencyTargetSeconds}; ` +
        'raise it or shorten the window',
    ],
    [
      !areStores || new Set(results).size < results.length,
      `results: expected one or more of ${STORES.join(', ')}, each once, got ${results.join(',') || 'none'}; ` +
        'name where results should go',
    ],
    [
      resultsPerMessage !== 1 && !results.includes('queue'),
      `resultsPerMessage: expected queue among the results, whose messages they share, got ${results.join(',')}; ` +
        'add queue or leave it out',
    ],
    [
      resultsPerMessage === 1 && resultMessageBytes !== SETTINGS.resultMessageBytes.default,
      'resultMessageSize: expected it with resultsPerMessage above 1, as it is the size of a message of several results, ' +
        `got ${resultMessageBytes} bytes with 1; set resultsPerMessage to ${FILL} or leave it out`,
    ],
    [
      timeoutSeconds * 1000 <= marginMs,
      `timeout: expected more than the deadline margin of ${marginMs} ms, ` +
        `got ${timeoutSeconds} s = ${timeoutSeconds * 1000} ms; raise it or lower tuning.deadlineMargin`,
    ],
    [
      unknown !== undefined,
      `tuning.providers: expected execution providers among ${PROVIDERS.join(', ')}, got '${unknown}'; ` +
        (nearest === undefined ? 'take one of them' : `did you mean ${nearest}?`),
    ],
    [
      providers.some((name) => GPU_PROVIDERS.includes(name)) && !hasGpu,
      `tuning.providers: expected none that needs a GPU, because compute ${kind} has none, got ${tuning.providers}; ` +
        'leave it out, take lambdaGpuCompute() or ecsGpuCompute(), or set tuning.allowProviderFallback',
    ],
    [
      plan.tracing && compute.feed === 'worker',
      `tracing: expected false with compute ${kind}, whose workers have no daemon of X-Ray beside them, got true; leave it out`,
    ],
  ]);
}

/** @see https://docs.aws.amazon.com/lambda/latest/api/API_Environment.html */
const VARIABLE_NAME = /^[a-zA-Z]\w+$/;

/** The host's own variables come from the props: one that is set twice would contradict what was checked. */
function environmentProblems(environment: Readonly<Record<string, string>>): Problem[] {
  const names = Object.keys(environment);
  const ours = names.filter((name) => name.startsWith(CONFIG_PREFIX));
  const illegal = names.filter((name) => !VARIABLE_NAME.test(name));
  return brokenOf([
    [
      ours.length > 0,
      `environment: expected no name that begins with ${CONFIG_PREFIX}, as the construct sets those, ` +
        `got ${ours.join(', ')}; set it with tuning or another prop`,
    ],
    [
      illegal.length > 0,
      'environment: expected names of a letter followed by letters, digits and _, at least two in all, ' +
        `got ${illegal.join(', ')}; rename it`,
    ],
    [
      (environment[RUNTIME_TELEMETRY_OFF] ?? '1') !== '1',
      `environment: expected no ${RUNTIME_TELEMETRY_OFF} but 1, as nothing leaves the account, ` +
        `got ${RUNTIME_TELEMETRY_OFF}; leave it out`,
    ],
  ]);
}
