import { Token } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import {
  BATCH_BYTES,
  FILL,
  MAX_EVENT_BYTES,
  outside,
  type ResultsPerMessage,
  STORES,
} from '../../lambda/core/limits.ts';
import { nearestName } from '../../lambda/core/wrongValue.ts';
import { CONFIG_PREFIX, RUNTIME_TELEMETRY_OFF, SETTINGS } from '../../lambda/settings.ts';
import type { Batching } from '../compute/compute.ts';
import type { ImageTarget } from '../image/containerImage.ts';
import type { ResultStore } from './channels.ts';
import type { ModelPlace } from './existingThings.ts';
import type { TuningNumbers } from './hostEnvironment.ts';
import type { AlarmThresholds } from './plan.ts';
import { type Problem, warn } from './problems.ts';

const MAX_MESSAGE_BYTES = 1_048_576;

/** What makes a batch full, and what it is then. */
const MAX_BYTES = {
  mapping: [MAX_EVENT_BYTES, 'invocation'],
  worker: [BATCH_BYTES, 'batch of a worker'],
} as const;

/** Any message may wait out the whole window, so a target within the window would be missed constantly. */
export function latencyProblems({ windowSeconds }: Batching, latencyTargetSeconds: number): Problem[] {
  return [
    outside('latencyTargetSeconds', latencyTargetSeconds, { min: 1, max: 1_209_600 }),
    latencyTargetSeconds <= windowSeconds
      ? `latencyTargetSeconds: expected more than windowSeconds, ${windowSeconds}, got ${latencyTargetSeconds}; ` +
        'raise it or shorten the window'
      : undefined,
  ];
}

/** Larger than SQS takes is not refused: such messages go through the payload bucket. */
export function largestMessageProblem(largestMessageBytes: number | undefined): Problem {
  return outside('largestMessageBytes', largestMessageBytes, { min: 1, max: SETTINGS.maxPayloadBytes.max });
}

/**
 * Lambda invokes the function as soon as 6 MB have gathered, and a worker scores 32 MiB, so a batch that would be larger
 * never fills. That works, so it is only a warning.
 */
export function warnOfLargeMessages(
  scope: Construct,
  { batchSize }: Batching,
  largestMessageBytes: number | undefined,
  feed: 'mapping' | 'worker' = 'mapping',
): void {
  if (largestMessageBytes === undefined) return;
  const inlineBytes = Math.min(largestMessageBytes, MAX_MESSAGE_BYTES);
  const [max, where] = MAX_BYTES[feed];
  if (batchSize * inlineBytes <= max) return;
  warn(
    scope,
    'messageBytes',
    `batchSize: expected at most ${max} bytes in one ${where}, got ${batchSize} × ${inlineBytes} ` +
      `bytes = ${batchSize * inlineBytes}; lower batchSize to ${Math.floor(max / inlineBytes)} ` +
      'or send large bodies through the payload bucket',
  );
}

/** A share of more than all never goes off; one of nothing in flight always does. */
export function alarmProblems({ retriedPercent, errorPercent, inFlightPercent }: AlarmThresholds): Problem[] {
  return [
    outside('retriedPercent', retriedPercent, { min: 0, max: 99 }),
    outside('errorPercent', errorPercent, { min: 0, max: 99 }),
    outside('inFlightPercent', inFlightPercent, { min: 1, max: 99 }),
  ];
}

interface ResultSettings {
  readonly results: readonly ResultStore[];
  readonly resultsPerMessage: ResultsPerMessage;
  readonly resultMessageBytes: number;
  readonly resultTtlSeconds: number;
}

/** Where results go, and how long they stay there. */
export function resultProblems(settings: ResultSettings): Problem[] {
  const { results, resultTtlSeconds } = settings;
  return [
    notSomeStores(results),
    ...packingProblems(settings),
    outside('resultTtlSeconds', resultTtlSeconds, SETTINGS.resultTtlSeconds),
  ];
}

function notSomeStores(results: readonly ResultStore[]): Problem {
  const known = results.every((store) => STORES.includes(store));
  if (known && results.length > 0 && new Set(results).size === results.length) return undefined;
  const got = results.length > 0 ? results.join(',') : 'none';
  return `results: expected one or more of ${STORES.join(', ')}, each once, got ${got}; name where results should go`;
}

function packingProblems({ results, resultsPerMessage, resultMessageBytes }: ResultSettings): Problem[] {
  return [
    resultsPerMessage === FILL ? undefined : notSomeResults(resultsPerMessage),
    outside('resultMessageBytes', resultMessageBytes, SETTINGS.resultMessageBytes),
    resultsPerMessage !== 1 && !results.includes('queue')
      ? `resultsPerMessage: expected queue among the results, whose messages they share, got ${results.join(',')}; ` +
        'add queue or leave it out'
      : undefined,
    resultsPerMessage === 1 && resultMessageBytes !== SETTINGS.resultMessageBytes.default
      ? `resultMessageBytes: expected it with resultsPerMessage above 1, as it is the size of a message of several results, ` +
        `got ${resultMessageBytes} with 1; set resultsPerMessage to ${FILL} or leave it out`
      : undefined,
  ];
}

function notSomeResults(resultsPerMessage: number): Problem {
  const { min, max } = SETTINGS.resultsPerMessage;
  if (outside('resultsPerMessage', resultsPerMessage, SETTINGS.resultsPerMessage) === undefined) return undefined;
  return (
    `resultsPerMessage: expected a whole number from ${min} to ${max}, or ${FILL}, got ${resultsPerMessage}; ` +
    'choose one of these'
  );
}

/** What the host would refuse when it starts, or could never work with. */
export function tuningProblems(tuning: TuningNumbers, timeoutSeconds: number): Problem[] {
  return [...rangeProblems(tuning), withinMargin(timeoutSeconds, tuning.deadlineMarginMs)];
}

/** Of those that the catalogue has a range of. */
function rangeProblems(values: TuningNumbers): Problem[] {
  const ranges = new Map(Object.entries(SETTINGS).flatMap(([name, one]) => ('min' in one ? [[name, one]] : [])));
  return Object.entries(values).map(([name, value]) => {
    const range = ranges.get(name);
    return typeof value === 'number' && range !== undefined ? outside(name, value, range) : undefined;
  });
}

/** Nothing is started within the margin before the deadline, so within a shorter timeout nothing would ever start. */
function withinMargin(timeoutSeconds: number, deadlineMarginMs: number = SETTINGS.deadlineMarginMs.default): Problem {
  if (timeoutSeconds * 1000 > deadlineMarginMs) return undefined;
  return (
    `timeoutSeconds: expected more than the deadline margin of ${deadlineMarginMs} ms, ` +
    `got ${timeoutSeconds} s = ${timeoutSeconds * 1000} ms; raise it or lower deadlineMarginMs`
  );
}

const OF_GPUS = ['cuda', 'tensorrt'];
/** Those that ONNX Runtime for Node has on Linux. */
const KNOWN = ['cpu', 'webgpu', ...OF_GPUS];

/** A host would not start with a provider that its machine has no device for, unless it may go on with the next. */
export function providersProblem(
  { providers, allowProviderFallback }: TuningNumbers,
  { kind, imageTarget }: { readonly kind: string; readonly imageTarget: ImageTarget },
): Problem {
  const names = providers?.split(',').map((name) => name.trim()) ?? [];
  const unknown = names.find((name) => !KNOWN.includes(name));
  if (unknown !== undefined) {
    const nearest = nearestName(unknown, KNOWN);
    const cure = nearest === undefined ? 'take one of them' : `did you mean ${nearest}?`;
    return `providers: expected execution providers among ${KNOWN.join(', ')}, got '${unknown}'; ${cure}`;
  }
  const needsGpu = names.some((name) => OF_GPUS.includes(name));
  if (!needsGpu || imageTarget.stage.endsWith('-gpu') || allowProviderFallback === true) return undefined;
  return (
    `providers: expected none that needs a GPU, because compute ${kind} has none, got ${providers}; leave it out, take ` +
    `compute ${kind}-gpu or allow a fallback`
  );
}

type Environment = Readonly<Record<string, string>>;

/** @see https://docs.aws.amazon.com/lambda/latest/api/API_Environment.html */
const NAME = /^[a-zA-Z]\w+$/;

/** The host's own variables come from the props: one that is set twice would contradict what was checked. */
export function environmentProblems(environment: Environment): Problem[] {
  const names = Object.keys(environment);
  return [
    named(
      names.filter((name) => name.startsWith(CONFIG_PREFIX)),
      `no name that begins with ${CONFIG_PREFIX}, as the construct sets those`,
      'set it with tuning or another prop',
    ),
    named(
      names.filter((name) => !NAME.test(name)),
      'names of a letter followed by letters, digits and _, at least two in all',
      'rename it',
    ),
    named(
      names.filter((name) => name === RUNTIME_TELEMETRY_OFF && environment[name] !== '1'),
      `no ${RUNTIME_TELEMETRY_OFF} but 1, as nothing leaves the account`,
      'leave it out',
    ),
  ];
}

function named(names: readonly string[], expected: string, cure: string): Problem {
  return names.length === 0 ? undefined : `environment: expected ${expected}, got ${names.join(', ')}; ${cure}`;
}

/** What a compute says of itself. */
interface MountingCompute {
  readonly kind: string;
  readonly hasNetwork?: boolean;
}

/** Models outside the image must be where the function can reach them, as far as that is known. */
export function modelProblems(place: ModelPlace, compute: MountingCompute): Problem[] {
  return [otherBucket(place), noNetwork(place, compute), otherFolder(place)];
}

function otherBucket({ s3 }: ModelPlace): Problem {
  const name = s3?.bucketOfUri?.bucketName;
  if (name === undefined || Token.isUnresolved(name) || name === s3?.bucket) return undefined;
  return `models.bucket: expected the bucket of the URI, ${s3?.bucket}, got ${name}; give that one, or publish into this one`;
}

/** @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-filesystem.html */
function noNetwork({ efs }: ModelPlace, { kind, hasNetwork = false }: MountingCompute): Problem {
  if (efs === undefined || hasNetwork) return undefined;
  return (
    'models: expected a function with a network of its own, because a file system is mounted there, ' +
    `got compute ${kind} without; give lambdaCompute the vpc of the file system, or take models in S3`
  );
}

/** Steps of letters, digits and a few signs, which lead nowhere else. */
const FOLDER = /^(?!\.{1,2}(?:\/|$))[\w.=+-]+(?:\/(?!\.{1,2}(?:\/|$))[\w.=+-]+)*$/;

function otherFolder({ efs }: ModelPlace): Problem {
  if (efs?.folder === undefined || FOLDER.test(efs.folder)) return undefined;
  return (
    'models.folder: expected a folder below the access point, such as releases/42, of letters, digits and . _ = + -, ' +
    `got '${efs.folder}'; name it without slashes at its ends`
  );
}

/** Lambda has X-Ray's daemon beside each function; nothing has it beside a worker. */
export function tracingProblem(
  tracing: boolean,
  { kind, feed }: { readonly kind: string; readonly feed?: 'mapping' | 'worker' },
): Problem {
  if (!tracing || feed !== 'worker') return undefined;
  return `tracing: expected false with compute ${kind}, whose workers have no daemon of X-Ray beside them, got true; leave it out`;
}
