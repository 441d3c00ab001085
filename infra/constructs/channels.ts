import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { type IQueue, QueueGrants } from 'aws-cdk-lib/aws-sqs';
import { Duration, Stack } from 'aws-cdk-lib/core';
import { Construct } from 'constructs';
import { capturedKeys, requestKeys, resultKeys } from '../../lambda/core/places.ts';
import { createBucket, createQueue, type Queues } from '../common/created.ts';
import { deadLettersOf } from '../common/given.ts';
import { combine, grantPut, grantRead } from '../common/grants.ts';
import { acknowledgeKeyActions } from '../common/nag.ts';
import type { CreatedStore } from '../stores/resultStore.ts';
import type { DeploymentPlan } from './plan.ts';
import type { BatchScoringProps } from './props.ts';

export interface Channels {
  readonly requestQueues: Queues;
  /** Dead-letter queue. Undefined if the request queue was given without one. */
  readonly deadLetterQueue: IQueue | undefined;
  readonly stores: readonly CreatedStore[];
  readonly payloadBucket: IBucket;
  /** Prefix before `requests/` and `results/` in the deployment's keys: '' in a bucket of its own. */
  readonly payloadPrefix: string;
  /** Bucket for samples. Undefined if none are kept. */
  readonly captureBucket: IBucket | undefined;
  readonly capturePrefix: string;
}

type Given = Pick<
  BatchScoringProps,
  'requestQueue' | 'payloadBucket' | 'keyPrefix' | 'queueProps' | 'deadLetterQueueProps'
>;

type ChannelOptions = DeploymentPlan & { readonly serviceName: string };

/** Returns the queues, stores and buckets of a deployment. Creates them unless they are given. */
export function createChannels(scope: Construct, given: Given, options: ChannelOptions): Channels {
  const { requestQueue, keyPrefix = uniquePrefix(scope, options.serviceName) } = given;
  const { capture, results } = options;
  const requests =
    requestQueue === undefined
      ? createRequestQueues(scope, options, given)
      : { requestQueues: [requestQueue.queue] as const, deadLetterQueue: deadLettersOf(requestQueue) };
  return {
    ...requests,
    stores: options.stores
      .filter(({ name }) => results.includes(name))
      .map((store) => store.create(scope, { ...options, keyPrefix })),
    // Each deployment has a payload bucket, because a result may be too large for its store.
    payloadBucket:
      given.payloadBucket ??
      createBucket(scope, 'PayloadBucket', { ...options, expiryDays: options.payloadExpiryDays }),
    payloadPrefix: given.payloadBucket === undefined ? '' : keyPrefix,
    captureBucket: capture && (capture.bucket ?? createBucket(scope, 'CaptureBucket', { ...options, ...capture })),
    capturePrefix: capture?.bucket === undefined ? '' : keyPrefix,
  };
}

/** Returns the URLs of all queues, separated by commas. */
export function urlsOf(queues: Queues): string {
  return queues.map(({ queueUrl }) => queueUrl).join(',');
}

/** Returns a key prefix that no other deployment has. The service name is unique only in its account and region. */
function uniquePrefix(scope: Construct, serviceName: string): string {
  const { account, region } = Stack.of(scope);
  return `batchscore/${account}/${region}/${serviceName}/`;
}

/** Days that a new request queue keeps messages. */
const REQUEST_DAYS = 4;
/**
 * Days that a new dead-letter queue keeps messages. On a standard queue they count from the first send, so it needs
 * more days than a request queue.
 */
const DEAD_LETTER_DAYS = 14;

function createRequestQueues(
  scope: Construct,
  { batching, encryptionKey, removalPolicy, maxReceiveCount, visibilityTimeoutSeconds }: ChannelOptions,
  { queueProps, deadLetterQueueProps }: Given,
): Pick<Channels, 'requestQueues' | 'deadLetterQueue'> {
  const { fifo, shards } = batching;
  const dead = createQueue(scope, 'DeadLetters', {
    ...deadLetterQueueProps,
    fifo,
    encryptionKey,
    retentionPeriod: Duration.days(DEAD_LETTER_DAYS),
    removalPolicy: deadLetterQueueProps?.removalPolicy ?? removalPolicy,
  });
  const create = (id: string): IQueue =>
    createQueue(scope, id, {
      ...queueProps,
      fifo,
      encryptionKey,
      visibilityTimeout: Duration.seconds(visibilityTimeoutSeconds),
      retentionPeriod: Duration.days(REQUEST_DAYS),
      deadLetterQueue: { queue: dead, maxReceiveCount },
    });
  // The first queue has the same ID with one shard and with several, so adding shards keeps the queue and its messages.
  const first = create('Requests');
  const others = Array.from({ length: shards - 1 }, (_, index) => create(`Requests${index + 2}`));
  return { requestQueues: [first, ...others], deadLetterQueue: dead };
}

/**
 * Grants the permissions for scoring: take requests, delay them, read their payloads, write results, and decrypt the
 * environment.
 */
export function grantScoring(
  scope: Construct,
  grantee: IGrantable,
  encryptionKey: IKey | undefined,
  channels: Channels,
): void {
  const { requestQueues, stores, payloadBucket, payloadPrefix, captureBucket, capturePrefix } = channels;
  for (const queue of requestQueues) QueueGrants.fromQueue(queue).consumeMessages(grantee);
  grantRead(grantee, payloadBucket, requestKeys(payloadPrefix));
  grantPut(grantee, payloadBucket, resultKeys(payloadPrefix));
  for (const store of stores) store.grantWrite(grantee);
  if (captureBucket !== undefined) grantPut(grantee, captureBucket, capturedKeys(capturePrefix));
  encryptionKey?.grantDecrypt(grantee);
  acknowledgeKeyActions(scope);
  // A role that the deployer gives has its policy elsewhere.
  if (Construct.isConstruct(grantee.grantPrincipal)) acknowledgeKeyActions(grantee.grantPrincipal);
}

/** Grants the permissions of a producer: send requests, and upload those that are too large to send. */
export function grantSubmit(grantee: IGrantable, { requestQueues, payloadBucket, payloadPrefix }: Channels): Grant {
  return combine([
    ...requestQueues.map((queue) => QueueGrants.fromQueue(queue).sendMessages(grantee)),
    grantPut(grantee, payloadBucket, requestKeys(payloadPrefix)),
  ]);
}

/** Grants the permissions of a consumer: take results from all stores, and read those that are too large for one. */
export function grantCollect(grantee: IGrantable, { stores, payloadBucket, payloadPrefix }: Channels): Grant {
  return combine([
    grantRead(grantee, payloadBucket, resultKeys(payloadPrefix)),
    ...stores.map((store) => store.grantCollect(grantee)),
  ]);
}

/** Actions that count and purge waiting messages. */
const EMPTY = ['sqs:GetQueueAttributes', 'sqs:GetQueueUrl', 'sqs:PurgeQueue'];

/**
 * Actions that read dead letters, make them visible again immediately, and send them back.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
 */
const REDRIVE = [
  'sqs:StartMessageMoveTask',
  'sqs:ListMessageMoveTasks',
  'sqs:CancelMessageMoveTask',
  'sqs:ReceiveMessage',
  'sqs:DeleteMessage',
  'sqs:ChangeMessageVisibility',
];

/** Grants the permissions of an operator: read dead letters, send them back, empty the queues. */
export function grantRepair(grantee: IGrantable, { requestQueues, deadLetterQueue }: Channels): Grant {
  const on = (queue: IQueue, actions: string[]): Grant =>
    Grant.addToPrincipalOrResource({ grantee, actions, resourceArns: [queue.queueArn], resource: queue });
  if (deadLetterQueue === undefined) return combine(requestQueues.map((queue) => on(queue, EMPTY)));
  deadLetterQueue.encryptionMasterKey?.grantDecrypt(grantee);
  for (const queue of requestQueues) queue.encryptionMasterKey?.grant(grantee, 'kms:Decrypt', 'kms:GenerateDataKey');
  return combine([
    ...requestQueues.map((queue) => on(queue, [...EMPTY, 'sqs:SendMessage'])),
    on(deadLetterQueue, [...EMPTY, ...REDRIVE]),
  ]);
}
