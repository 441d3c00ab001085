import type { Construct } from 'constructs';
import { LOG_LEVELS, mappingProblems, SHARDS } from '../../lambda/core/limits.ts';
import { capturedKeys, EXPECTED_KEY_PREFIX, isKeyPrefix, requestKeys, resultKeys } from '../../lambda/core/places.ts';
import {
  CONFIG_PREFIX,
  RUNTIME_TELEMETRY_OFF,
  SETTINGS,
  type Setting,
  type SettingName,
  STORES,
} from '../../lambda/settings.ts';
import { EXPIRY_DAYS, warnOfKeyPolicy } from '../common/created.ts';
import {
  deadLettersOf,
  type Existing,
  hasNoRedrive,
  otherAccount,
  otherRegion,
  redriveOf,
  secondsOfQueue,
  unknownKey,
} from '../common/given.ts';
import { modelProblems } from '../common/models.ts';
import { differ, exceeds, known, oneOf, onlyWithNew, outside, type Problem, refuse, warn } from '../common/problems.ts';
import { queueCount } from '../compute/compute.ts';
import { hasGpu } from '../image/stageImage.ts';
import { jobProblems } from '../jobs/jobOptions.ts';
import type { Channels } from './channels.ts';
import { type DeploymentPlan, TUNING_AMOUNTS } from './plan.ts';

/** Checks the plan. @throws ValidationError if props would fail in production, with a sentence for each problem */
export function checkPlan(scope: Construct, plan: DeploymentPlan): void {
  const { compute, batching } = plan;
  // If the batch size is a token, no rule applies to it, and 1 breaks none.
  const mapping = { ...batching, batchSize: known(batching.batchSize) ?? 1 };
  refuse([
    ...(compute.feed === 'worker' ? [] : mappingProblems(mapping, 'window')),
    ...compute.problems(batching),
    ...rangeProblems(plan),
    ...joinedProblems(plan),
    ...modelProblems(plan.models, compute),
    ...jobProblems(plan.jobs, plan),
    ...queueProblems(plan),
    ...plan.stores.flatMap(({ problems }) => problems),
    ...storageProblems(plan),
    ...placeProblems(scope, plan),
  ]);
}

const PERCENT = { min: 0, max: 99 };
/** Retention of SQS. */
const RETENTION_SECONDS = { min: 60, max: 1_209_600 };

function rangeProblems({ alarmThresholds, capture, tuning, ...plan }: DeploymentPlan): Problem[] {
  const ofTuning = Object.entries(tuning).map(([name, value]) => {
    const setting: Setting | undefined = SETTINGS[name as SettingName];
    if (setting === undefined)
      return `tuning.${name}: expected a prop of Tuning, got a name that it does not have; correct it`;
    const [prop, unit] = TUNING_AMOUNTS[name as SettingName] ?? [name];
    const { min, max } = setting;
    if (typeof value !== 'number' || min === undefined || max === undefined) return undefined;
    return outside(`tuning.${prop}`, value, { min, max }, unit);
  });
  const { min, max, expected } = SETTINGS.capturePercent;
  const percent = known(capture?.percent) ?? min;
  return [
    outside('latencyTarget', plan.latencyTargetSeconds, { ...RETENTION_SECONDS, min: 1 }, 'seconds'),
    outside('queueProps.retentionPeriod', plan.retentionSeconds, RETENTION_SECONDS, 'seconds'),
    oneOf('logLevel', plan.logLevel, LOG_LEVELS),
    outside('maxReceiveCount', plan.maxReceiveCount, { min: 3, max: 1000 }),
    outside('alarmThresholds.retriedPercent', alarmThresholds.retriedPercent, PERCENT),
    outside('alarmThresholds.errorPercent', alarmThresholds.errorPercent, PERCENT),
    outside('payloadExpiry', plan.payloadExpiryDays, EXPIRY_DAYS, 'days'),
    outside('capture.expiry', capture?.expiryDays, EXPIRY_DAYS, 'days'),
    (percent < min || percent > max) &&
      `capture.percent: expected ${expected}, got ${percent}; choose one in that range`,
    ...ofTuning,
  ];
}

/** Names of environment variables that Lambda takes. */
const VARIABLE = /^[A-Za-z]\w+$/;
const GPU_PROVIDERS = /\b(cuda|tensorrt)\b/;

function joinedProblems(plan: DeploymentPlan): Problem[] {
  const { environment = {}, alarmActions = [] } = plan.props;
  const { batching, compute, results, stores, latencyTargetSeconds, tuning } = plan;
  const { windowSeconds } = batching;
  const marginMs = tuning.deadlineMarginMs ?? SETTINGS.deadlineMarginMs.default;
  const areStores = results.length > 0 && results.every((store) => STORES.includes(store));
  const mayUseGpu = hasGpu(compute.imageTarget.stage) || tuning.allowProviderFallback === true;
  const ours = Object.keys(environment).filter(
    (name) => name.startsWith(CONFIG_PREFIX) || name === RUNTIME_TELEMETRY_OFF,
  );
  const wrong = Object.keys(environment).find((name) => !VARIABLE.test(name));
  return [
    latencyTargetSeconds <= windowSeconds &&
      `latencyTarget: expected more than the window of ${windowSeconds} seconds, got ${latencyTargetSeconds}; ` +
        'raise it or shorten the window',
    exceeds(latencyTargetSeconds + 1, plan.retentionSeconds) &&
      `latencyTarget: expected less than the ${plan.retentionSeconds} seconds that SQS keeps requests, because its alarm would ` +
        `never go off, got ${latencyTargetSeconds}; lower it, or raise the retention of the request queue`,
    (!areStores || new Set(results).size < results.length) &&
      `results: expected one or more of ${STORES.join(', ')}, each once, got ${results.join(',') || 'none'}; ` +
        'name where results should go',
    ...stores.map(
      ({ name, prop, given }) =>
        given !== undefined &&
        !results.includes(name) &&
        `stores.${prop}: expected ${name} among the results where one is given, got ${results.join(',')}; ` +
          `add ${name} or leave out ${prop}`,
    ),
    compute.timeoutSeconds * 1000 <= marginMs &&
      `timeout: expected more than the deadline margin of ${marginMs} ms, ` +
        `got ${compute.timeoutSeconds} s; raise it or lower tuning.deadlineMargin`,
    GPU_PROVIDERS.test(known(tuning.providers) ?? '') &&
      !mayUseGpu &&
      `tuning.providers: expected none that needs a GPU, because compute ${compute.kind} has none, got ${tuning.providers}; ` +
        'leave it out, take lambdaGpuCompute() or ecsGpuCompute(), or set tuning.allowProviderFallback',
    plan.tracing &&
      compute.feed === 'worker' &&
      `tracing: expected false with compute ${compute.kind}, whose workers have no daemon of X-Ray beside them, got true; leave it out`,
    ours.length > 0 &&
      'environment: expected no name that the construct sets itself, ' +
        `got ${ours.join(', ')}; set it with tuning or another prop`,
    compute.feed !== 'worker' &&
      wrong !== undefined &&
      `environment: expected names of two or more letters, digits and _ that begin with a letter, got ${wrong}; rename it`,
    alarmActions.some((action) => typeof action.bind !== 'function') &&
      'alarmActions: expected actions, got something else; wrap a topic, such as new SnsAction(topic)',
  ];
}

function queueProblems(plan: DeploymentPlan): Problem[] {
  const { requestQueue, fifo, maxReceiveCount, jobEvents, queueProps, deadLetterQueueProps } = plan.props;
  const { batching, compute, visibilityTimeoutSeconds: visibility } = plan;
  const { shards, urgent } = batching;
  const queue = requestQueue?.queue;
  const redrive = redriveOf(queue);
  const dead = requestQueue?.deadLetterQueue;
  const own = secondsOfQueue(queue, 'visibilityTimeout') ?? visibility;
  const { seconds: recommended, sum } = compute.minVisibility(batching);
  const [least, why] =
    compute.feed === 'worker' ? [recommended, ` = ${sum}`] : [compute.timeoutSeconds, ', the timeout'];
  return [
    outside('shards', shards, { ...SHARDS, max: SHARDS.max - Number(urgent) }),
    onlyWithNew('shards', shards === 1 ? undefined : shards, 'request queue', queue === undefined),
    onlyWithNew('urgent', urgent || undefined, 'request queue', queue === undefined),
    onlyWithNew('queueProps', queueProps, 'request queue', queue === undefined),
    onlyWithNew('deadLetterQueueProps', deadLetterQueueProps, 'dead-letter queue', queue === undefined),
    outside('requestQueue.visibilityTimeout', visibility, { min: 0, max: 43_200 }, 'seconds'),
    queueProps?.queueName !== undefined &&
      queueCount(batching) > 1 &&
      `queueProps.queueName: expected none with ${queueCount(batching)} request queues, each of which has a name of its own, ` +
        `got ${known(queueProps.queueName) ?? 'a token'}; leave it out`,
    queueProps?.queueName !== undefined &&
      queueProps.queueName === deadLetterQueueProps?.queueName &&
      `deadLetterQueueProps.queueName: expected another name than queueProps.queueName, got ${queueProps.queueName}; change one`,
    queue !== undefined &&
      fifo !== undefined &&
      fifo !== queue.fifo &&
      `fifo: expected ${queue.fifo}, as the given request queue is, got ${fifo}; leave it out, or import the queue ` +
        'with Queue.fromQueueAttributes and fifo',
    visibility !== own &&
      `requestQueue.visibilityTimeout: expected ${own} seconds, as the given request queue has it, got ${visibility}; ` +
        "give the queue's own, or change the queue's",
    visibility < least &&
      `requestQueue.visibilityTimeout: expected at least ${least} seconds${why}, got ${visibility}; raise the queue's ` +
        'visibility timeout or lower timeout',
    differ(redrive?.maxReceiveCount, maxReceiveCount) &&
      `maxReceiveCount: expected ${redrive?.maxReceiveCount}, as the given request queue has it, got ${maxReceiveCount}; ` +
        "leave it out, or change the queue's",
    dead !== undefined &&
      redrive !== undefined &&
      redrive.queue.queueArn !== dead.queueArn &&
      `requestQueue.deadLetterQueue: expected ${redrive.queue.node.path}, where the redrive policy of the request queue ` +
        `sends messages, got ${dead.node.path}; leave it out`,
    dead !== undefined &&
      hasNoRedrive(queue) &&
      'requestQueue.deadLetterQueue: expected a request queue with a redrive policy, because SQS moves no message without, ' +
        `got ${queue?.node.path} with none; give that queue its deadLetterQueue`,
    jobEvents !== undefined &&
      'topicArn' in jobEvents &&
      jobEvents.fifo &&
      'jobEvents: expected an EventBridge bus or a standard topic of SNS, got a FIFO topic; give a standard one',
    ...separationProblems(plan),
  ];
}

/** Returns problems with queues that are used twice, or are not of the request queue's kind. */
function separationProblems({ props: { requestQueue, stores }, batching: { fifo } }: DeploymentPlan): Problem[] {
  const given = Object.entries({
    requestQueue: requestQueue?.queue,
    'requestQueue.deadLetterQueue': requestQueue && deadLettersOf(requestQueue),
    'stores.resultQueue': stores?.resultQueue,
  }).flatMap(([name, queue]) => (queue === undefined ? [] : [{ name, queue }]));
  return given.flatMap(({ name, queue }, index) => {
    const same = given.slice(0, index).find((other) => other.queue.queueArn === queue.queueArn);
    return [
      queue.fifo !== fifo &&
        `${name}: expected a ${kindOf(fifo)} queue, as the request queue is, got a ${kindOf(!fifo)} queue; give one of the ` +
          'same kind',
      same !== undefined &&
        `${name}: expected another queue than ${same.name}, because requests, dead letters and results would be taken for ` +
          'each other, got the same; give one of its own',
    ];
  });
}

function kindOf(isFifo: boolean): string {
  return isFifo ? 'FIFO' : 'standard';
}

const KEYS = [requestKeys, resultKeys, capturedKeys];
/** First part of the default key prefix. The rest is known only at deployment. */
const DEFAULT_KEYS = 'batchscore/';
/**
 * Days until the last message with a pointer is gone: those of a dead letter, which on a FIFO queue count from its move.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
 */
const MESSAGE_DAYS = { standard: 14, fifo: 18 };

/** Returns problems with prefixes and expiry: prefixes are for existing buckets, and expiry is for new ones. */
function storageProblems(plan: DeploymentPlan): Problem[] {
  const { keyPrefix, payloadBucket, payloadExpiry, stores = {} } = plan.props;
  const { batching, capture, jobs, results } = plan;
  const shared = [payloadBucket, stores.resultBucket, capture?.bucket].filter((bucket) => bucket !== undefined);
  const keys = known(keyPrefix ?? DEFAULT_KEYS);
  const isWithJobs = shared.some(({ bucketName }) => bucketName === jobs?.bucket?.bucketName);
  const pointerDays = Math.max(
    batching.fifo ? MESSAGE_DAYS.fifo : MESSAGE_DAYS.standard,
    ...plan.stores.map(({ name, pointerDays = 0 }) => (results.includes(name) ? pointerDays : 0)),
  );
  return [
    onlyWithNew('payloadExpiry', payloadExpiry, 'payload bucket', payloadBucket === undefined),
    onlyWithNew('capture.expiry', plan.props.capture?.expiry, 'capture bucket', capture?.bucket === undefined),
    keyPrefix !== undefined &&
      shared.length === 0 &&
      'keyPrefix: expected it with a payloadBucket, resultBucket or capture.bucket that exists already, as new ones are ' +
        `shared with nobody, got ${known(keyPrefix) ?? 'a token'} without; leave it out`,
    known(keyPrefix) !== undefined &&
      shared.length > 0 &&
      (keyPrefix === '' || !isKeyPrefix(keyPrefix ?? '')) &&
      `keyPrefix: ${EXPECTED_KEY_PREFIX}, got '${keyPrefix}'; change it`,
    isWithJobs &&
      keys !== undefined &&
      KEYS.some((keysIn) => overlap(keysIn(keys), known(jobs?.inputPrefix))) &&
      `keyPrefix: expected keys apart from jobs.inputPrefix, '${jobs?.inputPrefix}', whose objects start jobs, got ` +
        `'${keys}' in the same bucket; change one of the two`,
    payloadBucket === undefined &&
      exceeds(pointerDays, plan.payloadExpiryDays) &&
      `payloadExpiry: expected at least ${Math.ceil(pointerDays)} days, as long as messages and results may point to ` +
        `payloads, got ${plan.payloadExpiryDays}; raise it`,
  ];
}

function overlap(one: string, other: string | undefined): boolean {
  return other !== undefined && (one.startsWith(other) || other.startsWith(one));
}

interface Given {
  readonly name: string;
  readonly resource: Existing | undefined;
  /** Reason why it must be in the stack's account. @default it may be in any */
  readonly ownAccount?: string | undefined;
}

const NOTIFIES = 'the stack sets its notifications';

/** Returns the existing queues, tables and buckets. */
function existingOf({ props, capture, jobs, stores }: DeploymentPlan): Given[] {
  const { requestQueue, payloadBucket } = props;
  return [
    { name: 'requestQueue', resource: requestQueue?.queue },
    ...stores.map(({ prop, given, ownAccount }) => ({ name: `stores.${prop}`, resource: given, ownAccount })),
    { name: 'payloadBucket', resource: payloadBucket },
    { name: 'capture.bucket', resource: capture?.bucket },
    { name: 'jobs.bucket', resource: jobs?.bucket, ownAccount: NOTIFIES },
  ];
}

/**
 * Returns problems with resources in another region. Mappings, keys and images fail at deployment. Queues, tables and
 * buckets fail at the first message. Only ECS pulls images from any region. If the CDK does not know one of the two
 * regions, there is no problem.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
function placeProblems(scope: Construct, plan: DeploymentPlan): Problem[] {
  const keyId = known(plan.encryptionKey?.keyId);
  return [
    keyId?.startsWith('alias/') &&
      `encryptionKey: expected a key, got the imported ${keyId}, to which the CDK may grant nothing; import its key with ` +
        'Key.fromKeyArn or Key.fromLookup',
    ...existingOf(plan).flatMap(({ name, resource, ownAccount }) => [
      otherRegion(scope, name, resource),
      ownAccount && otherAccount(scope, name, resource, ownAccount),
    ]),
    otherRegion(scope, 'encryptionKey', plan.encryptionKey),
    otherRegion(scope, 'models.bucket', plan.models.s3?.bucketOfUri),
    plan.compute.feed !== 'worker' && otherRegion(scope, 'image', plan.props.image?.repository),
  ];
}

/** Warns of settings that work, but may fail later or cost more than necessary. */
export function warnOfPlan(scope: Construct, plan: DeploymentPlan, channels: Channels): void {
  warnOfQueue(scope, plan, channels);
  const because = 'the CDK cannot change the policy of others';
  const askOwner = (account: string) => `have its owner let account ${account} use it in its policy, and deploy then`;
  const existing = existingOf(plan);
  for (const { name, resource } of [{ name: 'encryptionKey', resource: plan.encryptionKey }, ...existing]) {
    warn(scope, 'otherAccount', otherAccount(scope, name, resource, because, askOwner), { resource: name });
  }
  if (plan.encryptionKey !== undefined) {
    warnOfKeyPolicy(
      scope,
      plan.encryptionKey,
      'logKeyPolicy',
      'CloudWatch Logs may use',
      'https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html',
    );
  }
  for (const { name, resource } of existing) warn(scope, 'unknownKey', unknownKey(name, resource), { resource: name });
}

/**
 * Warns if the visibility timeout is below AWS's recommendation, six function timeouts plus the window. A shorter one
 * ends while Lambda still retries throttled batches. Warns if there is no dead-letter queue: a message
 * that ends its host returns with its batch until it expires.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
 */
function warnOfQueue(scope: Construct, plan: DeploymentPlan, { deadLetterQueue }: Channels): void {
  const { compute, batching, visibilityTimeoutSeconds, maxReceiveCount, retentionSeconds } = plan;
  const deadSeconds = secondsOfQueue(deadLetterQueue, 'messageRetentionPeriod');
  const { seconds, sum } = compute.minVisibility(batching);
  const visibility =
    visibilityTimeoutSeconds < seconds &&
    `requestQueue.visibilityTimeout: expected at least ${seconds} seconds = ${sum}, which AWS recommends because messages of a batch ` +
      `that is throttled or fails late come again, got ${visibilityTimeoutSeconds}; raise the queue's visibility timeout or ` +
      'lower timeout';
  const policy = JSON.stringify({ deadLetterTargetArn: 'DEAD_LETTER_QUEUE_ARN', maxReceiveCount });
  const noDeadLetters =
    deadLetterQueue === undefined &&
    'requestQueue: expected a queue with dead letters, because a message that can never be scored comes back until it ' +
      `expires, got one of which none are known; give deadLetterQueue, and the queue the redrive policy ${policy}`;
  const goesEarly =
    !batching.fifo &&
    exceeds(retentionSeconds, deadSeconds) &&
    `requestQueue.deadLetterQueue: expected it to keep messages for at least ${retentionSeconds} seconds, as the request queue ` +
      `does, because SQS counts from the first send, got ${deadSeconds}; raise its retentionPeriod`;
  warn(scope, 'visibility', visibility);
  warn(scope, 'deadLettersExpire', goesEarly);
  warn(scope, 'noDeadLetters', noDeadLetters);
}
