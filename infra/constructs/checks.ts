import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { RemovalPolicy, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import {
  BATCH_BYTES,
  LOG_LEVELS,
  MAX_EVENT_BYTES,
  MAX_MESSAGE_BYTES,
  MAX_RECEIVES,
  mappingProblems,
  SHARDS,
} from '../../lambda/core/limits.ts';
import { capturedKeys, EXPECTED_KEY_PREFIX, isKeyPrefix, requestKeys, resultKeys } from '../../lambda/core/places.ts';
import { nearestName } from '../../lambda/core/wrongValue.ts';
import { CONFIG_PREFIX, RUNTIME_TELEMETRY_OFF, SETTINGS, STORES } from '../../lambda/settings.ts';
import { EXPIRY_DAYS } from '../common/created.ts';
import {
  deadLettersOf,
  fifoOf,
  isKeyUnknown,
  otherAccount,
  otherRegion,
  redriveOf,
  retentionDaysOf,
  visibilitySecondsOf,
} from '../common/given.ts';
import { modelProblems } from '../common/models.ts';
import {
  brokenOf,
  exceeds,
  known,
  oneOf,
  outside,
  type Problem,
  type Rule,
  refuse,
  shown,
  statementText,
  warn,
} from '../common/problems.ts';
import type { Compute } from '../compute/compute.ts';
import { imageBuildProblems } from '../image/containerImage.ts';
import { jobProblems } from '../jobs/jobOptions.ts';
import { type Channels, DEAD_LETTER_DAYS, REQUEST_DAYS } from './channels.ts';
import { type DeploymentPlan, TUNING_AMOUNTS } from './plan.ts';
import type { BatchScoringProps } from './props.ts';

type Props = BatchScoringProps<Compute>;

/** Checks the plan. @throws ValidationError if props would fail in production, with a sentence for each problem */
export function checkPlan(scope: Construct, props: Props, plan: DeploymentPlan): void {
  const { compute, batching } = plan;
  // If the batch size is a token, no rule applies to it, and 1 breaks none.
  const mapping = { ...batching, batchSize: known(batching.batchSize) ?? 1 };
  refuse([
    ...imageBuildProblems(props.imageBuild ?? {}, props.image !== undefined, compute.imageTarget.stage),
    ...(compute.feed === 'worker' ? [] : mappingProblems(mapping, 'window')),
    ...compute.problems(batching),
    ...rangeProblems(plan),
    ...joinedProblems(plan),
    ...environmentProblems(props.environment ?? {}),
    ...modelProblems(plan.models, compute),
    ...jobProblems(plan.jobs, plan),
    ...queueProblems(props, plan),
    ...visibilityProblems(props.requestQueue?.queue, plan),
    ...deadLetterProblems(props),
    ...plan.stores.flatMap(({ problems }) => problems),
    ...bucketProblems(props, plan),
    ...placeProblems(scope, props, plan),
  ]);
}

const PERCENT = { min: 0, max: 99 };
/** Allowed removal policies. Tables, buckets and log groups do not support `SNAPSHOT`. */
const REMOVAL_POLICIES = [RemovalPolicy.RETAIN, RemovalPolicy.DESTROY, RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE];

function rangeProblems(plan: DeploymentPlan): Problem[] {
  const { alarmThresholds, maxReceiveCount } = plan;
  const ranges = new Map(Object.entries(SETTINGS).flatMap(([name, one]) => ('min' in one ? [[name, one]] : [])));
  const ofTuning = Object.entries(plan.tuning).map(([name, value]) => {
    const range = ranges.get(name);
    const [prop, unit] = TUNING_AMOUNTS[name] ?? [name];
    return typeof value === 'number' && range !== undefined ? outside(`tuning.${prop}`, value, range, unit) : undefined;
  });
  return [
    outside('latencyTarget', plan.latencyTargetSeconds, { min: 1, max: 1_209_600 }, 'seconds'),
    // A message may be larger than SQS takes, because it then goes through the payload bucket.
    outside('largestMessage', plan.largestMessageBytes, { min: 1, max: SETTINGS.maxPayloadBytes.max }, 'bytes'),
    outside('alarmThresholds.retriedPercent', alarmThresholds.retriedPercent, PERCENT),
    outside('alarmThresholds.errorPercent', alarmThresholds.errorPercent, PERCENT),
    outside('alarmThresholds.inFlightPercent', alarmThresholds.inFlightPercent, { min: 1, max: 99 }),
    outside('payloadExpiry', plan.payloadExpiryDays, EXPIRY_DAYS, 'days'),
    ...(plan.capture === undefined ? [] : captureProblems(plan.capture)),
    exceeds(3, maxReceiveCount)
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
        known(percent) !== undefined && !(percent >= min && percent <= max),
        `capture.percent: expected ${SETTINGS.capturePercent.expected}, got ${percent}; choose one in that range`,
      ],
    ]),
    outside('capture.expiry', expiryDays, EXPIRY_DAYS, 'days'),
  ];
}

const GPU_PROVIDERS = ['cuda', 'tensorrt'];
/** Execution providers that ONNX Runtime for Node has on Linux. */
const PROVIDERS = ['cpu', 'webgpu', ...GPU_PROVIDERS];

function joinedProblems(plan: DeploymentPlan): Problem[] {
  const { batching, compute, results, latencyTargetSeconds, tuning } = plan;
  const { kind, timeoutSeconds } = compute;
  const { windowSeconds } = batching;
  const marginMs = tuning.deadlineMarginMs ?? SETTINGS.deadlineMarginMs.default;
  const areStores = results.length > 0 && results.every((store) => STORES.includes(store));
  const providers =
    known(tuning.providers)
      ?.split(',')
      .map((name) => name.trim()) ?? [];
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

/**
 * Returns problems with variables that the deployer adds. Props set the host's own variables, so setting one here would
 * bypass the checks.
 */
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
      (known(environment[RUNTIME_TELEMETRY_OFF]) ?? '1') !== '1',
      `environment: expected no ${RUNTIME_TELEMETRY_OFF} but 1, as nothing leaves the account, ` +
        `got ${RUNTIME_TELEMETRY_OFF}; leave it out`,
    ],
  ]);
}

const kindOf = (isFifo: boolean | undefined): string => (isFifo ? 'FIFO' : 'standard');

function queueProblems(props: Props, { batching }: DeploymentPlan): Problem[] {
  const { requestQueue, fifo, queueProps, deadLetterQueueProps, jobEvents } = props;
  const { shards } = batching;
  const queue = requestQueue?.queue;
  return [
    queue === undefined ? outside('shards', shards, SHARDS) : undefined,
    ...brokenOf([
      [
        queue !== undefined && (queueProps ?? deadLetterQueueProps) !== undefined,
        'queueProps, deadLetterQueueProps: expected them only with new queues, got them with a request queue of your own; ' +
          'leave them out, and set them where that queue is made',
      ],
      [
        queueProps?.queueName !== undefined && shards > 1,
        `queueProps.queueName: expected none with ${shards} shards, each of which has a name of its own, ` +
          `got ${shown(queueProps?.queueName)}; leave it out`,
      ],
      [
        queue !== undefined && fifo !== undefined && fifo !== queue.fifo,
        `fifo: expected ${queue?.fifo}, as the given request queue is, got ${fifo}; leave it out, or import the queue ` +
          'with Queue.fromQueueAttributes and fifo',
      ],
      [
        queue !== undefined && shards !== 1,
        `shards: expected 1 with a request queue of your own, got ${shards}; leave out one of the two, or make one ` +
          'construct for each queue',
      ],
      [
        jobEvents !== undefined && 'topicArn' in jobEvents && jobEvents.fifo,
        'jobEvents: expected an EventBridge bus or a standard topic of SNS, got a FIFO topic; give a standard one',
      ],
    ]),
  ];
}

const MAX_VISIBILITY_SECONDS = 43_200;

/**
 * Returns a problem if the visibility timeout is too short: a message that becomes visible during its run is scored and
 * billed twice.
 */
function visibilityProblems(queue: IQueue | undefined, plan: DeploymentPlan): Problem[] {
  const { visibilityTimeoutSeconds: got, batching, compute } = plan;
  const { seconds: recommended, sum } = compute.minVisibility(batching);
  const [min, why] = compute.feed === 'worker' ? [recommended, ` = ${sum}`] : [compute.timeoutSeconds, ', the timeout'];
  const own = visibilitySecondsOf(queue);
  const name = 'requestQueue.visibilityTimeout';
  const [first] = brokenOf([
    [!Number.isInteger(got), `${name}: expected a whole number of seconds, got ${got}; give the queue's own`],
    [
      own !== undefined && got !== own,
      `${name}: expected ${own} seconds, as the given request queue has it, got ${got}; give the queue's own, or change the ` +
        "queue's",
    ],
    [
      got > MAX_VISIBILITY_SECONDS,
      `${name}: expected at most ${MAX_VISIBILITY_SECONDS} seconds, which is what SQS allows, got ${got}; lower it`,
    ],
    [
      got < min,
      `${name}: expected at least ${min} seconds${why}, got ${got}; raise the queue's visibility timeout or lower timeout`,
    ],
  ]);
  return [first];
}

/**
 * Returns a problem if the redrive policy of an existing queue does not name the given dead-letter queue. The alarm and
 * permissions would be for a queue that gets no messages.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
 */
function deadLetterProblems({ requestQueue, maxReceiveCount }: Props): Problem[] {
  if (requestQueue === undefined) return [];
  const { queue, deadLetterQueue } = requestQueue;
  const redrive = redriveOf(queue);
  const rules: Rule[] = [
    [
      exceeds(redrive?.maxReceiveCount, maxReceiveCount) || exceeds(maxReceiveCount, redrive?.maxReceiveCount),
      `maxReceiveCount: expected ${redrive?.maxReceiveCount}, as the given request queue has it, got ${maxReceiveCount}; ` +
        "leave it out, or change the queue's",
    ],
  ];
  if (deadLetterQueue !== undefined) {
    const name = 'requestQueue.deadLetterQueue';
    const [ofQueue, ofDeadLetters] = [fifoOf(queue), fifoOf(deadLetterQueue)];
    rules.push(
      [
        queue.queueArn === deadLetterQueue.queueArn,
        `${name}: expected another queue than the request queue, got the same; give the one that its redrive policy names`,
      ],
      [
        ofQueue !== undefined && ofDeadLetters !== undefined && ofQueue !== ofDeadLetters,
        `${name}: expected a ${kindOf(ofQueue)} queue, as the request queue is, got a ${kindOf(ofDeadLetters)} queue; ` +
          'give the one that the redrive policy of the request queue names',
      ],
      [
        redrive !== undefined && redrive.queue.queueArn !== deadLetterQueue.queueArn,
        `${name}: expected ${redrive?.queue.node.path}, where the redrive policy of the request queue sends messages, ` +
          `got ${deadLetterQueue.node.path}; leave it out`,
      ],
    );
  }
  return brokenOf(rules);
}

/** First part of the default key prefix. The rest is known only at deployment. */
const DEFAULT_KEYS = 'batchscore/';

/** Returns problems with prefixes and expiry: prefixes are for existing buckets, and expiry is for new ones. */
function bucketProblems(props: Props, plan: DeploymentPlan): Problem[] {
  const { keyPrefix, payloadBucket, stores, payloadExpiry } = props;
  const { payloadExpiryDays, capture, jobs } = plan;
  const resultBucket = stores?.resultBucket;
  const captureBucket = capture?.bucket;
  const hasShared = [payloadBucket, resultBucket, captureBucket].some((bucket) => bucket !== undefined);
  const keys = known(keyPrefix ?? DEFAULT_KEYS);
  const ofAnother = (name: string, days: number | undefined, bucketName: string, bucket: unknown): Rule => [
    days !== undefined && bucket !== undefined,
    `${name}: expected none with a ${bucketName} that exists already, because objects expire by the lifecycle rules of ` +
      `that bucket, got ${shown(days, ' days')}; leave it out, and give the bucket a rule`,
  ];
  const withJobs = (name: string, objects: string, bucket: IBucket | undefined, keysOf: typeof requestKeys): Rule[] =>
    [known(jobs?.inputPrefix), known(jobs?.outputPrefix)].flatMap((ofJobs) => {
      if (
        bucket === undefined ||
        bucket.bucketName !== jobs?.bucket?.bucketName ||
        ofJobs === undefined ||
        keys === undefined
      )
        return [];
      const prefix = keysOf(keys);
      return [
        [
          prefix.startsWith(ofJobs) || ofJobs.startsWith(prefix),
          `${name}: expected ${objects} to lie apart from the '${ofJobs}' of jobs, got the same bucket with '${prefix}'; ` +
            'take another bucket, or another keyPrefix',
        ],
      ];
    });
  return brokenOf([
    [
      keyPrefix !== undefined && !hasShared,
      'keyPrefix: expected it with a payloadBucket, resultBucket or capture.bucket that exists already, as new ones are shared with ' +
        `nobody, got ${shown(keyPrefix)} without; leave it out`,
    ],
    [
      known(keyPrefix) !== undefined && hasShared && (keyPrefix === '' || !isKeyPrefix(keyPrefix ?? '')),
      `keyPrefix: ${EXPECTED_KEY_PREFIX}, got '${keyPrefix}'; change it`,
    ],
    ofAnother('payloadExpiry', payloadExpiry && payloadExpiryDays, 'payloadBucket', payloadBucket),
    ofAnother('capture.expiry', props.capture?.expiry && capture?.expiryDays, 'capture.bucket', captureBucket),
    ...withJobs('capture.bucket', 'samples', captureBucket, capturedKeys),
    ...withJobs('payloadBucket', 'requests', payloadBucket, requestKeys),
    ...withJobs('payloadBucket', 'results', payloadBucket, resultKeys),
    ...withJobs('stores.resultBucket', 'results', resultBucket, resultKeys),
    ...(payloadBucket === undefined ? expiresBeforeItsPointers(props, plan) : []),
  ]);
}

/**
 * Returns rules against payloads that expire before the last message or result that points to them. Days of a dead
 * letter count from the first send on a standard queue, and from its move on a FIFO queue. Results in the bucket
 * contain no pointers.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
 */
function expiresBeforeItsPointers({ requestQueue }: Props, plan: DeploymentPlan): Rule[] {
  const { batching, results, stores, payloadExpiryDays: got } = plan;
  const requestDays = requestQueue === undefined ? REQUEST_DAYS : retentionDaysOf(requestQueue.queue);
  const deadDays = requestQueue === undefined ? DEAD_LETTER_DAYS : retentionDaysOf(deadLettersOf(requestQueue));
  const inQueue = `the request queue keeps pointers to large requests for ${requestDays} days`;
  const both =
    batching.fifo && requestDays !== undefined && deadDays !== undefined ? requestDays + deadDays : undefined;
  const kept: { days: number | undefined; why: string; cure?: string }[] = [
    { days: both, why: `${inQueue} and the dead letters for ${deadDays} more` },
    { days: requestDays, why: inQueue },
    { days: deadDays, why: `the dead letters keep pointers to large requests for ${deadDays} days` },
    ...stores.flatMap(({ name, pointers }) => (pointers && results.includes(name) ? [pointers] : [])),
  ];
  const [longest] = kept.toSorted(({ days: a = 0 }, { days: b = 0 }) => b - a);
  const { days = 0, why, cure = '' } = longest ?? { why: '' };
  return [
    [
      exceeds(days, got),
      `payloadExpiry: expected at least ${Math.ceil(days)} days, because ${why}, got ${got}; raise it${cure}`,
    ],
  ];
}

/**
 * Returns problems with resources in another region. Mappings, keys and images fail at deployment. Queues, tables and
 * buckets fail at the first message. Only ECS pulls images from any region. If the CDK does not know one of the two
 * regions, there is no problem.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
function placeProblems(scope: Construct, given: Props, plan: DeploymentPlan): Problem[] {
  const { requestQueue, payloadBucket, encryptionKey, image, jobs } = given;
  const { region, account } = Stack.of(scope);
  const inRegion = {
    requestQueue: requestQueue?.queue.env,
    payloadBucket: payloadBucket?.env,
    'capture.bucket': plan.capture?.bucket?.env,
    encryptionKey: encryptionKey?.env,
    image: plan.compute.feed === 'worker' ? undefined : image?.repository.env,
    'jobs.bucket': jobs?.bucket?.env,
    'models.bucket': plan.models.s3?.bucketOfUri?.env,
  };
  return [
    ...Object.entries(inRegion).map(([name, place]) => otherRegion(name, region, place)),
    ...plan.stores.flatMap(({ prop, place, ownAccount }) => [
      otherRegion(`stores.${prop}`, region, place),
      ownAccount && otherAccount(`stores.${prop}`, account, place, ownAccount),
    ]),
    otherAccount('jobs.bucket', account, jobs?.bucket?.env, 'the stack sets its notifications'),
  ];
}

/** Warns of settings that work, but may fail later or cost more than necessary. */
export function warnOfPlan(scope: Construct, props: Props, plan: DeploymentPlan, channels: Channels): void {
  warnOfLargeMessages(scope, plan);
  warnOfShortVisibility(scope, plan);
  warnOfNoDeadLetters(scope, channels, plan.maxReceiveCount);
  if (props.encryptionKey === undefined) warnOfUnknownKeys(scope, channels, plan);
  warnOfOtherAccounts(scope, props, plan);
}

/**
 * Warns if full batches would exceed 6 MB, at which Lambda invokes the function, or 32 MiB, at which a worker starts to
 * score. Such batches never fill.
 */
function warnOfLargeMessages(scope: Construct, { batching, largestMessageBytes = 0, compute }: DeploymentPlan): void {
  const batchSize = known(batching.batchSize) ?? 0;
  const inlineBytes = Math.min(largestMessageBytes, MAX_MESSAGE_BYTES);
  const [max, where] = compute.feed === 'worker' ? [BATCH_BYTES, 'batch of a worker'] : [MAX_EVENT_BYTES, 'invocation'];
  if (batchSize * inlineBytes <= max) return;
  warn(
    scope,
    'messageBytes',
    `batchSize: expected at most ${max} bytes in one ${where}, got ${batchSize} × ${inlineBytes} ` +
      `bytes = ${batchSize * inlineBytes}; lower batchSize to ${Math.floor(max / inlineBytes)} ` +
      'or send large bodies through the payload bucket',
  );
}

/**
 * Warns if the visibility timeout is below AWS's recommendation of six function timeouts plus the window. With that,
 * throttled batches are retried before their messages become visible.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
 */
function warnOfShortVisibility(scope: Construct, plan: DeploymentPlan): void {
  const { seconds, sum } = plan.compute.minVisibility(plan.batching);
  if (plan.visibilityTimeoutSeconds >= seconds) return;
  warn(
    scope,
    'visibility',
    `requestQueue.visibilityTimeout: expected at least ${seconds} seconds = ${sum}, which AWS recommends because messages of a batch ` +
      `that is throttled or fails late come again, got ${plan.visibilityTimeoutSeconds}; raise the queue's visibility ` +
      'timeout or lower timeout',
  );
}

/** Warns if there is no dead-letter queue: a message that ends its host returns with its batch until it expires. */
function warnOfNoDeadLetters(scope: Construct, { deadLetterQueue }: Channels, maxReceiveCount: number): void {
  if (deadLetterQueue !== undefined) return;
  const policy = JSON.stringify({ deadLetterTargetArn: 'DEAD_LETTER_QUEUE_ARN', maxReceiveCount });
  warn(
    scope,
    'noDeadLetters',
    'requestQueue: expected a queue with dead letters, because a message that can never be scored comes back until it ' +
      `expires, got one of which none are known; give deadLetterQueue, and the queue the redrive policy ${policy}`,
  );
}

/**
 * Warns of resources in another account. Their owner must grant access, because the CDK cannot change a policy there.
 */
function warnOfOtherAccounts(
  scope: Construct,
  { requestQueue, payloadBucket, encryptionKey }: Props,
  plan: DeploymentPlan,
): void {
  const places = {
    requestQueue: requestQueue?.queue.env,
    payloadBucket: payloadBucket?.env,
    encryptionKey: encryptionKey?.env,
    ...Object.fromEntries(plan.stores.map(({ prop, place }) => [`stores.${prop}`, place])),
  };
  const { account } = Stack.of(scope);
  for (const [name, place] of Object.entries(places)) {
    const cure = `have its owner let account ${account} use it in its policy, and deploy then`;
    const problem = otherAccount(name, account, place, 'the CDK cannot change the policy of others', cure);
    if (problem !== undefined) warn(scope, 'otherAccount', problem, { resource: name });
  }
}

const QUEUE = 'Queue.fromQueueAttributes and keyArn';
const BUCKET = 'Bucket.fromBucketAttributes and encryptionKey';
const READ_AND_WRITE = ['kms:Decrypt', 'kms:GenerateDataKey'];

/** Warns of existing queues, tables and buckets whose key is unknown, because no permission is granted for it. */
function warnOfUnknownKeys(scope: Construct, channels: Channels, plan: DeploymentPlan): void {
  const existing = [
    { name: 'requestQueue', resource: channels.requestQueues[0], how: QUEUE, actions: ['kms:Decrypt'] },
    ...plan.stores.map(({ prop, given, key }) => ({ name: `stores.${prop}`, resource: given, ...key })),
    { name: 'payloadBucket', resource: channels.payloadBucket, how: BUCKET, actions: READ_AND_WRITE },
    { name: 'capture.bucket', resource: channels.captureBucket, how: BUCKET, actions: ['kms:GenerateDataKey'] },
    { name: 'jobs.bucket', resource: plan.jobs?.bucket, how: BUCKET, actions: READ_AND_WRITE },
  ];
  for (const { name, resource, how, actions } of existing) {
    if (!isKeyUnknown(resource)) continue;
    const statement = new PolicyStatement({ actions: [...actions], resources: ['KEY_ARN'] });
    warn(
      scope,
      'unknownKey',
      `${name}: expected to know the key that it is encrypted with, got an imported one without; if it has a key of its ` +
        `own, import it with ${how}, or add this to the function's role: ${statementText(scope, statement)}`,
      { resource: name },
    );
  }
}
