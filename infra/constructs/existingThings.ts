import { CfnGlobalTable, CfnTable, type ITable } from 'aws-cdk-lib/aws-dynamodb';
import { type IRole, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { CfnQueue, type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { Arn, ArnFormat, type ResourceEnvironment, Stack, Token } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { outside, SHARDS } from '../../lambda/core/limits.ts';
import {
  capturedKeys,
  EXPECTED_KEY_PREFIX,
  isKeyPrefix,
  isS3Uri,
  type ModelsUri,
  readModelsUri,
  requestKeys,
  resultKeys,
} from '../../lambda/core/places.ts';
import { MESSAGE_ID_ATTRIBUTE } from '../../lambda/core/record.ts';
import type { Compute } from '../compute/compute.ts';
import { type Channels, DEAD_LETTER_DAYS, deadLettersOf, REQUEST_DAYS, RESULT_DAYS, redriveOf } from './channels.ts';
import type { DeploymentPlan } from './plan.ts';
import { brokenOf, type Problem, type Rule, refuse, statementText, warn } from './problems.ts';
import type { BatchScoringProps, EfsModels, Models } from './props.ts';

/*
 * What exists already. The CDK knows the properties of queues, tables and buckets that the same app creates, and next to
 * nothing of imported ones: nothing is refused for what it does not know.
 */

/** SQS's own defaults. @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html */
const DEFAULT_VISIBILITY_SECONDS = 30;
const DEFAULT_RETENTION_SECONDS = 345_600;
const SECONDS_A_DAY = 86_400;

/** Undefined where the ARN is a token and the import did not say so. */
function fifoOf(queue: IQueue): boolean | undefined {
  const isKnown = queue.fifo || queue instanceof Queue || !Token.isUnresolved(queue.queueArn);
  return isKnown ? queue.fifo : undefined;
}

function knownNumber(queue: IQueue | undefined, pick: (resource: CfnQueue) => number): number | undefined {
  const resource = queue?.node.defaultChild;
  if (!(resource instanceof CfnQueue)) return undefined;
  const value = pick(resource);
  return Token.isUnresolved(value) ? undefined : value;
}

/** Days that a queue keeps messages; undefined where the CDK does not know it. */
export function retentionDaysOf(queue: IQueue | undefined): number | undefined {
  const seconds = knownNumber(queue, (resource) => resource.messageRetentionPeriod ?? DEFAULT_RETENTION_SECONDS);
  return seconds && seconds / SECONDS_A_DAY;
}

/** The key of a table, each attribute with its type, such as `messageId (S)`. */
function keyOf(table: ITable | undefined): string | undefined {
  const resource = table?.node.defaultChild;
  if (!(resource instanceof CfnTable || resource instanceof CfnGlobalTable)) return undefined;
  const resolve = (value: unknown) => Stack.of(resource).resolve(value);
  const attributes: readonly CfnTable.AttributeDefinitionProperty[] = resolve(resource.attributeDefinitions) ?? [];
  const keys: readonly CfnTable.KeySchemaProperty[] = resolve(resource.keySchema) ?? [];
  const typeOf = (name: string) => attributes.find(({ attributeName }) => attributeName === name)?.attributeType;
  return keys.map(({ attributeName }) => `${attributeName} (${typeOf(attributeName)})`).join(' and ');
}

/** Returns true if something exists already, and the CDK was not told which key it is encrypted with, if with one at all. */
export function isKeyUnknown(resource: IQueue | ITable | IBucket | undefined): boolean {
  if (resource === undefined || resource.node.defaultChild !== undefined) return false;
  const key = 'encryptionMasterKey' in resource ? resource.encryptionMasterKey : (resource as IBucket).encryptionKey;
  return key === undefined;
}

/** Everything that does not fit: queues, stores and buckets that were given, and what was said of those that were not. */
export function existingProblems(props: BatchScoringProps<Compute>, plan: DeploymentPlan): Problem[] {
  return [
    ...queueProblems(props, plan),
    ...visibilityProblems(props.requestQueue?.queue, plan),
    ...deadLetterProblems(props),
    ...storeProblems(props, plan),
    ...bucketProblems(props, plan),
    ...brokenOf([
      [
        props.jobEvents !== undefined && 'topicArn' in props.jobEvents && props.jobEvents.fifo,
        'jobEvents: expected an EventBridge bus or a standard topic of SNS, got a FIFO topic; give a standard one',
      ],
    ]),
  ];
}

const kindOf = (isFifo: boolean | undefined): string => (isFifo ? 'FIFO' : 'standard');

/** Between queues of different kinds the order of a message group would be lost, or its name would be missing. */
function queueProblems(props: BatchScoringProps<Compute>, { batching, results }: DeploymentPlan): Problem[] {
  const { requestQueue, fifo, stores, queueProps, deadLetterQueueProps, tableProps } = props;
  const { shards } = batching;
  const queue = requestQueue?.queue;
  const ofResults = stores?.resultQueue?.fifo;
  return brokenOf([
    [
      queue !== undefined && (queueProps ?? deadLetterQueueProps) !== undefined,
      'queueProps, deadLetterQueueProps: expected them only with new queues, got them with a request queue of your own; ' +
        'leave them out, and set them where that queue is made',
    ],
    [
      queueProps?.queueName !== undefined && shards > 1,
      `queueProps.queueName: expected none with ${shards} shards, each of which has a name of its own, ` +
        `got ${queueProps?.queueName}; leave it out`,
    ],
    [
      tableProps !== undefined && (stores?.resultTable !== undefined || !results.includes('table')),
      'tableProps: expected only with a new result table, got none to make; leave it out, or name table among the results',
    ],
    [
      queue !== undefined && fifo !== undefined && fifo !== queue.fifo,
      `fifo: expected ${queue?.fifo}, as the given request queue is, got ${fifo}; leave it out, or import the queue ` +
        'with Queue.fromQueueAttributes and fifo',
    ],
    [
      ofResults !== undefined && ofResults !== batching.fifo,
      `stores.resultQueue: expected a ${kindOf(batching.fifo)} queue, as the request queue is, got a ` +
        `${kindOf(ofResults)} queue; give one of the same kind`,
    ],
    [
      queue !== undefined && shards !== 1,
      `shards: expected 1 with a request queue of your own, got ${shards}; leave out one of the two, or make one ` +
        'construct for each queue',
    ],
  ]).concat(queue === undefined ? outside('shards', shards, SHARDS) : undefined);
}

const MAX_VISIBILITY_SECONDS = 43_200;

/** A message that becomes visible while it is still being scored is scored, and paid for, twice. */
function visibilityProblems(queue: IQueue | undefined, plan: DeploymentPlan): Problem[] {
  const { visibilityTimeoutSeconds: got, batching, compute } = plan;
  const { seconds: recommended, sum } = compute.minVisibility(batching);
  const [min, why] = compute.feed === 'worker' ? [recommended, ` = ${sum}`] : [compute.timeoutSeconds, ', the timeout'];
  const known = knownNumber(queue, (resource) => resource.visibilityTimeout ?? DEFAULT_VISIBILITY_SECONDS);
  const name = 'requestQueue.visibilityTimeout';
  const [first] = brokenOf([
    [!Number.isInteger(got), `${name}: expected a whole number of seconds, got ${got}; give the queue's own`],
    [
      known !== undefined && got !== known,
      `${name}: expected ${known} seconds, as the given request queue has it, got ${got}; give the queue's own, or change the ` +
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
 * Dead letters that the redrive policy of an existing queue does not name: alarm and permissions would be those of a queue
 * that gets none.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
 */
function deadLetterProblems({ requestQueue, maxReceiveCount }: BatchScoringProps<Compute>): Problem[] {
  if (requestQueue === undefined) return [];
  const { queue, deadLetterQueue } = requestQueue;
  const known = redriveOf(queue);
  const rules: Rule[] = [
    [
      known !== undefined && maxReceiveCount !== undefined && known.maxReceiveCount !== maxReceiveCount,
      `maxReceiveCount: expected ${known?.maxReceiveCount}, as the given request queue has it, got ${maxReceiveCount}; ` +
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
        known !== undefined && known.queue.queueArn !== deadLetterQueue.queueArn,
        `${name}: expected ${known?.queue.node.path}, where the redrive policy of the request queue sends messages, ` +
          `got ${deadLetterQueue.node.path}; leave it out`,
      ],
    );
  }
  return brokenOf(rules);
}

const TABLE_KEY = `${MESSAGE_ID_ATTRIBUTE} (S)`;

/** Existing stores must be named by `results`, and fit for them. */
function storeProblems(
  { stores = {}, requestQueue }: BatchScoringProps<Compute>,
  { results }: DeploymentPlan,
): Problem[] {
  const { resultQueue, resultTable, resultBucket } = stores;
  const key = keyOf(resultTable);
  const notNamed = Object.entries({ queue: resultQueue, table: resultTable, bucket: resultBucket }).map(
    ([store, given]): Rule => {
      const name = `result${store.replace(/^./, (letter) => letter.toUpperCase())}`;
      return [
        given !== undefined && !results.some((one) => one === store),
        `stores.${name}: expected ${store} among the results where one is given, got ${results.join(',')}; ` +
          `add ${store} or leave out ${name}`,
      ];
    },
  );
  const same = (other: IQueue | undefined, role: string, why: string): Rule => [
    resultQueue !== undefined && resultQueue.queueArn === other?.queueArn,
    `stores.resultQueue: expected another queue than the ${role}, because ${why}, got the same; give one of its own`,
  ];
  return brokenOf([
    ...notNamed,
    same(requestQueue?.queue, 'request queue', 'results would be scored as requests'),
    same(
      requestQueue && deadLettersOf(requestQueue),
      'dead-letter queue',
      'dead letters would be collected as results',
    ),
    [
      key !== undefined && key !== TABLE_KEY,
      `stores.resultTable: expected the partition key ${TABLE_KEY} and no sort key, got ${key}; give a table with that key`,
    ],
  ]);
}

/** How the keys of a deployment begin that was given no prefix: what follows is known when it is deployed. */
const DEFAULT_KEYS = 'batchscore/';

/** Prefixes and expiry: each belongs to one kind of bucket, to those that exist already or to new ones. */
function bucketProblems(props: BatchScoringProps<Compute>, plan: DeploymentPlan): Problem[] {
  const { keyPrefix, payloadBucket, stores, payloadExpiry } = props;
  const { results, payloadExpiryDays, resultExpiryDays, capture, jobs } = plan;
  const resultBucket = stores?.resultBucket;
  const captureBucket = capture?.bucket;
  const hasShared = [payloadBucket, resultBucket, captureBucket].some((bucket) => bucket !== undefined);
  const keys = keyPrefix ?? DEFAULT_KEYS;
  const ofAnother = (name: string, days: number | undefined, bucketName: string, bucket: unknown): Rule => [
    days !== undefined && bucket !== undefined,
    `${name}: expected none with a ${bucketName} that exists already, because objects expire by the lifecycle rules of ` +
      `that bucket, got ${days} days; leave it out, and give the bucket a rule`,
  ];
  const withJobs = (name: string, objects: string, bucket: IBucket | undefined, prefix: string): Rule[] =>
    [jobs?.inputPrefix, jobs?.outputPrefix].map((ofJobs) => [
      bucket !== undefined &&
        bucket.bucketName === jobs?.bucket?.bucketName &&
        ofJobs !== undefined &&
        (prefix.startsWith(ofJobs) || ofJobs.startsWith(prefix)),
      `${name}: expected ${objects} to lie apart from the '${ofJobs}' of jobs, got the same bucket with '${prefix}'; ` +
        'take another bucket, or another keyPrefix',
    ]);
  return brokenOf([
    [
      keyPrefix !== undefined && !hasShared,
      'keyPrefix: expected it with a payloadBucket, resultBucket or capture.bucket that exists already, as new ones are shared with ' +
        `nobody, got '${keyPrefix}' without; leave it out`,
    ],
    [
      keyPrefix !== undefined && hasShared && (keyPrefix === '' || !isKeyPrefix(keyPrefix)),
      `keyPrefix: ${EXPECTED_KEY_PREFIX}, got '${keyPrefix}'; change it`,
    ],
    ofAnother('payloadExpiry', payloadExpiry && payloadExpiryDays, 'payloadBucket', payloadBucket),
    ofAnother('resultExpiry', resultExpiryDays, 'resultBucket', resultBucket),
    ofAnother('capture.expiry', props.capture?.expiry && capture?.expiryDays, 'capture.bucket', captureBucket),
    ...withJobs('capture.bucket', 'samples', captureBucket, capturedKeys(keys)),
    ...withJobs('payloadBucket', 'requests', payloadBucket, requestKeys(keys)),
    ...withJobs('payloadBucket', 'results', payloadBucket, resultKeys(keys)),
    ...withJobs('stores.resultBucket', 'results', resultBucket, resultKeys(keys)),
    [
      resultExpiryDays !== undefined && !results.includes('bucket'),
      'resultExpiry: expected it with bucket among the results, as it is the expiry of that bucket, ' +
        `got ${resultExpiryDays} days without; add bucket or leave it out`,
    ],
    ...(payloadBucket === undefined ? expiresBeforeItsPointers(props, plan) : []),
  ]);
}

/**
 * A payload must not expire before the last message or result that points to it. On a standard queue the days of a dead
 * letter count from the first send, on a FIFO queue from when it became one. Results in the bucket point to nothing.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
 */
function expiresBeforeItsPointers({ requestQueue, stores }: BatchScoringProps<Compute>, plan: DeploymentPlan): Rule[] {
  const { batching, results, resultTtlSeconds, payloadExpiryDays: got } = plan;
  const requestDays = requestQueue === undefined ? REQUEST_DAYS : retentionDaysOf(requestQueue.queue);
  const deadDays = requestQueue === undefined ? DEAD_LETTER_DAYS : retentionDaysOf(deadLettersOf(requestQueue));
  const resultDays = stores?.resultQueue === undefined ? RESULT_DAYS : retentionDaysOf(stores.resultQueue);
  const inQueue = `the request queue keeps pointers to large requests for ${requestDays} days`;
  const both =
    batching.fifo && requestDays !== undefined && deadDays !== undefined ? requestDays + deadDays : undefined;
  const kept: [days: number | undefined, why: string, cure?: string][] = [
    [both, `${inQueue} and the dead letters for ${deadDays} more`],
    [requestDays, inQueue],
    [deadDays, `the dead letters keep pointers to large requests for ${deadDays} days`],
    [
      results.includes('queue') ? resultDays : undefined,
      `the result queue keeps pointers to large results for ${resultDays} days`,
    ],
    [
      results.includes('table') ? resultTtlSeconds / SECONDS_A_DAY : undefined,
      `the table keeps pointers to large results for ${resultTtlSeconds} s`,
      ' or lower resultTtl',
    ],
  ];
  const [[days = 0, why, cure = ''] = [0, '']] = kept.toSorted(([a = 0], [b = 0]) => b - a);
  return [
    [
      got < days,
      `payloadExpiry: expected at least ${Math.ceil(days)} days, because ${why}, got ${got}; raise it${cure}`,
    ],
  ];
}

/**
 * Mappings, keys and images of another region are refused when the stack is deployed; queues, tables and buckets of
 * another region fail at the first message. ECS alone pulls images from anywhere. Nothing is said where the CDK does not
 * know one of the two.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 * @throws Error naming everything that is elsewhere
 */
export function refuseElsewhere(scope: Construct, given: BatchScoringProps<Compute>, plan: DeploymentPlan): void {
  const { requestQueue, stores = {}, payloadBucket, encryptionKey, image, jobs } = given;
  const { region, account } = Stack.of(scope);
  const table = stores.resultTable && placeOf(stores.resultTable);
  const inRegion: Readonly<Record<string, ResourceEnvironment | undefined>> = {
    requestQueue: requestQueue?.queue.env,
    'stores.resultQueue': stores.resultQueue?.env,
    'stores.resultTable': table,
    'stores.resultBucket': stores.resultBucket?.env,
    payloadBucket: payloadBucket?.env,
    'capture.bucket': plan.capture?.bucket?.env,
    encryptionKey: encryptionKey?.env,
    image: plan.compute.feed === 'worker' ? undefined : image?.repository.env,
    'jobs.bucket': jobs?.bucket?.env,
    'models.bucket': plan.models.s3?.bucketOfUri?.env,
  };
  refuse([
    ...Object.entries(inRegion).map(([name, place]) =>
      place === undefined || !areKnownToDiffer(place.region, region)
        ? undefined
        : `${name}: expected one in the region of the stack, ${region}, because hosts use what is in their own region ` +
          `alone, got one in ${place.region}; give one of ${region}, or deploy the stack to ${place.region}`,
    ),
    otherAccount('stores.resultTable', account, table, 'hosts call it by its name'),
    otherAccount('jobs.bucket', account, jobs?.bucket?.env, 'the stack sets its notifications'),
  ]);
}

/**
 * Neither a function nor a task takes a role of another account, and the CDK grants nothing to one.
 *
 * @throws Error when that is known
 */
export function refuseForeignRole(scope: Construct, role: IRole | undefined): void {
  const { account } = Stack.of(scope);
  refuse([otherAccount('role', account, role?.env, 'functions and tasks take no other')]);
}

/** Of an imported table the CDK takes the place to be that of the stack, whatever its ARN says. */
function placeOf({ tableArn, env }: ITable): ResourceEnvironment {
  if (Token.isUnresolved(tableArn)) return env;
  const { region = env.region, account = env.account } = Arn.split(tableArn, ArnFormat.SLASH_RESOURCE_NAME);
  return { region, account };
}

function otherAccount(name: string, account: string, place: ResourceEnvironment | undefined, because: string): Problem {
  if (place === undefined || !areKnownToDiffer(place.account, account)) return undefined;
  return (
    `${name}: expected one in the account of the stack, ${account}, because ${because}, ` +
    `got one in ${place.account}; give one of ${account}`
  );
}

function areKnownToDiffer(a: string, b: string): boolean {
  return !Token.isUnresolved(a) && !Token.isUnresolved(b) && a !== b;
}

const QUEUE = 'Queue.fromQueueAttributes and keyArn';
const TABLE = 'Table.fromTableAttributes and encryptionKey';
const BUCKET = 'Bucket.fromBucketAttributes and encryptionKey';

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html */
const READ_AND_WRITE = ['kms:Decrypt', 'kms:GenerateDataKey'];
/** @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html */
const OF_TABLE = ['kms:Decrypt', 'kms:DescribeKey', 'kms:Encrypt', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'];

/**
 * AWS recommends six timeouts and the window, so that throttled batches are tried again before their messages are visible.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
 */
export function warnOfShortVisibility(scope: Construct, plan: DeploymentPlan): void {
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

/** Returns true if nobody told the key of an existing queue, table or bucket, so that nothing is granted for it. */
export function warnOfUnknownKeys(scope: Construct, channels: Channels, jobBucket: IBucket | undefined): void {
  const { requestQueues, stores, payloadBucket, captureBucket } = channels;
  const existing = [
    { name: 'requestQueue', resource: requestQueues[0], how: QUEUE, actions: ['kms:Decrypt'] },
    { name: 'stores.resultQueue', resource: stores.resultQueue, how: QUEUE, actions: READ_AND_WRITE },
    { name: 'stores.resultTable', resource: stores.resultTable, how: TABLE, actions: OF_TABLE },
    { name: 'stores.resultBucket', resource: stores.resultBucket, how: BUCKET, actions: ['kms:GenerateDataKey'] },
    { name: 'payloadBucket', resource: payloadBucket, how: BUCKET, actions: READ_AND_WRITE },
    { name: 'capture.bucket', resource: captureBucket, how: BUCKET, actions: ['kms:GenerateDataKey'] },
    { name: 'jobs.bucket', resource: jobBucket, how: BUCKET, actions: READ_AND_WRITE },
  ];
  for (const { name, resource, how, actions } of existing) {
    if (!isKeyUnknown(resource)) continue;
    const statement = new PolicyStatement({ actions, resources: ['KEY_ARN'] });
    warn(
      scope,
      'unknownKey',
      `${name}: expected to know the key that it is encrypted with, got an imported one without; if it has a key of its ` +
        `own, import it with ${how}, or add this to the function's role: ${statementText(scope, statement)}`,
      { resource: name },
    );
  }
}

/** Without dead letters a message that ends its host comes back, with those beside it, until it expires. */
export function warnOfNoDeadLetters(scope: Construct, { deadLetterQueue }: Channels, maxReceiveCount: number): void {
  if (deadLetterQueue !== undefined) return;
  const policy = JSON.stringify({ deadLetterTargetArn: 'DEAD_LETTER_QUEUE_ARN', maxReceiveCount });
  warn(
    scope,
    'noDeadLetters',
    'requestQueue: expected a queue with dead letters, because a message that can never be scored comes back until it ' +
      `expires, got one of which none are known; give deadLetterQueue, and the queue the redrive policy ${policy}`,
  );
}

/** Where models are; none of the three: in the image. */
export interface ModelPlace {
  readonly folder?: string;
  readonly s3?: ModelsUri & { readonly bucketOfUri?: IBucket | undefined };
  readonly efs?: EfsModels;
}

/** @throws Error when a URI has no digest */
export function placeOfModels(models: Models | undefined): ModelPlace {
  if (models === undefined) return {};
  if (typeof models === 'string') return isS3Uri(models) ? { s3: readModelsUri(models) } : { folder: models };
  if ('accessPoint' in models) return { efs: models };
  return { s3: { ...readModelsUri(models.uri), bucketOfUri: models.bucket } };
}

/** Where a function has the file system: Lambda takes no place outside `/mnt/`. */
export const MOUNT_PATH = '/mnt/models';

/** Steps of letters, digits and a few signs, which lead nowhere else. */
const FOLDER = /^(?!\.{1,2}(?:\/|$))[\w.=+-]+(?:\/(?!\.{1,2}(?:\/|$))[\w.=+-]+)*$/;

/**
 * Models outside the image must be where the function can reach them, as far as that is known.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-filesystem.html
 */
export function modelProblems(
  { s3, efs }: ModelPlace,
  { kind, hasNetwork = false }: DeploymentPlan['compute'],
): Problem[] {
  const bucket = s3?.bucketOfUri?.bucketName;
  return brokenOf([
    [
      bucket !== undefined && !Token.isUnresolved(bucket) && bucket !== s3?.bucket,
      `models.bucket: expected the bucket of the URI, ${s3?.bucket}, got ${bucket}; give that one, or publish into this one`,
    ],
    [
      efs !== undefined && !hasNetwork,
      'models: expected a function with a network of its own, because a file system is mounted there, ' +
        `got compute ${kind} without; give lambdaCompute the vpc of the file system, or take models in S3`,
    ],
    [
      efs?.folder !== undefined && !FOLDER.test(efs.folder),
      'models.folder: expected a folder below the access point, such as releases/42, of letters, digits and . _ = + -, ' +
        `got '${efs?.folder}'; name it without slashes at its ends`,
    ],
  ]);
}
