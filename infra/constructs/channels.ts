import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { type IQueue, QueueGrants } from 'aws-cdk-lib/aws-sqs';
import { type RemovalPolicy, Stack } from 'aws-cdk-lib/core';
import { Construct } from 'constructs';
import { capturedKeys, requestKeys, resultKeys } from '../../lambda/core/places.ts';
import { createBucket, createQueue, type Queues } from '../common/created.ts';
import { deadLettersOf, isKeyUnknown } from '../common/given.ts';
import { combine, grantPut, grantRead, type Keys } from '../common/grants.ts';
import { acknowledgeKeyActions } from '../common/nag.ts';
import { handedOn } from '../common/problems.ts';
import type { CreatedStore } from '../stores/resultStore.ts';
import type { DeploymentPlan } from './plan.ts';
import { type BatchScoringProps, FREE_OF_QUEUE } from './props.ts';

/** Everything that requests and results pass through, and the dead letters. */
export interface Channels {
  /** One for each shard. */
  readonly requestQueues: Queues;
  /** Undefined if the request queue was given without one. */
  readonly deadLetterQueue: IQueue | undefined;
  readonly stores: readonly CreatedStore[];
  readonly payloadBucket: IBucket;
  /** What comes before `requests/` and `results/` in the keys of a deployment: '' in a bucket of its own. */
  readonly payloadPrefix: string;
  /** Of samples; undefined where none are kept. */
  readonly captureBucket: IBucket | undefined;
  readonly capturePrefix: string;
}

type Given = Pick<
  BatchScoringProps<never>,
  'requestQueue' | 'payloadBucket' | 'keyPrefix' | 'queueProps' | 'deadLetterQueueProps'
>;

interface ChannelOptions
  extends Pick<
    DeploymentPlan,
    | 'batching'
    | 'visibilityTimeoutSeconds'
    | 'maxReceiveCount'
    | 'stores'
    | 'results'
    | 'removalPolicy'
    | 'payloadExpiryDays'
    | 'capture'
  > {
  readonly serviceName: string;
  readonly encryptionKey: IKey | undefined;
  /** Of stores and dead letters: requests are not kept. */
  readonly removalPolicy: RemovalPolicy;
}

/** The queues, stores and buckets of a deployment: the given ones, or new ones. */
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
    // Every deployment has one, because any result may turn out too large for its store.
    payloadBucket:
      given.payloadBucket ??
      createBucket(scope, 'PayloadBucket', { ...options, expiryDays: options.payloadExpiryDays }),
    payloadPrefix: given.payloadBucket === undefined ? '' : keyPrefix,
    captureBucket: capture && (capture.bucket ?? createBucket(scope, 'CaptureBucket', { ...options, ...capture })),
    capturePrefix: capture?.bucket === undefined ? '' : keyPrefix,
  };
}

/** Returns the URLs of all queues, with commas between them, as the environment and a stack's outputs have them. */
export function urlsOf(queues: Queues): string {
  return queues.map(({ queueUrl }) => queueUrl).join(',');
}

/** The service's name tells deployments of one account and region apart; a bucket may be shared beyond these. */
function uniquePrefix(scope: Construct, serviceName: string): string {
  const { account, region } = Stack.of(scope);
  return `batchscore/${account}/${region}/${serviceName}/`;
}

/** Days that a new request queue keeps its messages. */
export const REQUEST_DAYS = 4;
/** On a standard queue the days count from the first send, so dead letters must be kept longer than requests. */
export const DEAD_LETTER_DAYS = 14;

const isFreeOfQueue = (key: string): boolean => FREE_OF_QUEUE.some((free) => free === key);

/** New queues, with one queue for the dead letters of all. */
function createRequestQueues(
  scope: Construct,
  { batching, encryptionKey, removalPolicy, maxReceiveCount, visibilityTimeoutSeconds }: ChannelOptions,
  { queueProps, deadLetterQueueProps }: Given,
): Pick<Channels, 'requestQueues' | 'deadLetterQueue'> {
  const { fifo, shards } = batching;
  const dead = createQueue(scope, 'DeadLetters', {
    fifo,
    encryptionKey,
    retentionDays: DEAD_LETTER_DAYS,
    removalPolicy,
    more: handedOn('deadLetterQueueProps', deadLetterQueueProps, isFreeOfQueue),
  });
  const create = (id: string): IQueue =>
    createQueue(scope, id, {
      fifo,
      encryptionKey,
      visibilityTimeoutSeconds,
      retentionDays: REQUEST_DAYS,
      deadLetterQueue: { queue: dead, maxReceiveCount },
      more: handedOn('queueProps', queueProps, isFreeOfQueue),
    });
  // The first has the ID of an only one: a deployment that gets shards keeps its queue, and the messages in it.
  const first = create('Requests');
  const others = Array.from({ length: shards - 1 }, (_, index) => create(`Requests${index + 2}`));
  return { requestQueues: [first, ...others], deadLetterQueue: dead };
}

/**
 * Grants what scoring needs: take requests, delay them, read their payloads, write results. Existing things whose key the
 * CDK does not know are taken to have that of the deployment, which also encrypts the environment.
 */
export function grantScoring(scope: Construct, grantee: IGrantable, keys: Keys, channels: Channels): void {
  const { requestQueues, stores, payloadBucket, payloadPrefix, captureBucket, capturePrefix } = channels;
  for (const queue of requestQueues) QueueGrants.fromQueue(queue).consumeMessages(grantee);
  grantRead(grantee, payloadBucket, requestKeys(payloadPrefix));
  grantPut(grantee, payloadBucket, resultKeys(payloadPrefix));
  for (const store of stores) store.grantWrite(grantee);
  if (captureBucket !== undefined) grantPut(grantee, captureBucket, capturedKeys(capturePrefix));
  acknowledgeKeyActions(scope);
  // A role of one's own stands elsewhere, and its policy with it.
  if (Construct.isConstruct(grantee.grantPrincipal)) acknowledgeKeyActions(grantee.grantPrincipal);
  keys.encryptionKey?.grantDecrypt(grantee);
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  if ([...requestQueues, ...resourcesOf(stores), payloadBucket, captureBucket].some(isKeyUnknown)) {
    keys.encryptionKey?.grantEncryptDecrypt(grantee);
  }
}

const resourcesOf = (stores: readonly CreatedStore[]) => stores.map(({ resource }) => resource);

/** Grants what a producer needs: send requests, and upload those that are too large to send. */
export function grantSubmit(grantee: IGrantable, { encryptionKey }: Keys, channels: Channels): Grant {
  const { requestQueues, payloadBucket, payloadPrefix } = channels;
  if ([...requestQueues, payloadBucket].some(isKeyUnknown)) encryptionKey?.grantEncryptDecrypt(grantee);
  return combine([
    ...requestQueues.map((queue) => QueueGrants.fromQueue(queue).sendMessages(grantee)),
    grantPut(grantee, payloadBucket, requestKeys(payloadPrefix)),
  ]);
}

/** Grants what a consumer needs: take results from every store, and read those that were too large for it. */
export function grantCollect(grantee: IGrantable, keys: Keys, channels: Channels): Grant {
  const { stores, payloadBucket, payloadPrefix } = channels;
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  if ([...resourcesOf(stores), payloadBucket].some(isKeyUnknown)) keys.encryptionKey?.grantDecrypt(grantee);
  return combine([
    grantRead(grantee, payloadBucket, resultKeys(payloadPrefix)),
    ...stores.map((store) => store.grantCollect(grantee)),
  ]);
}

/** To see how much waits, and to drop it. */
const EMPTY = ['sqs:GetQueueAttributes', 'sqs:GetQueueUrl', 'sqs:PurgeQueue'];

/**
 * To look into the dead letters, to make visible again at once what was looked at, and to send them back.
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
const REENCRYPT = ['kms:Decrypt', 'kms:GenerateDataKey'];

/** Grants what an operator needs: look into the dead letters, send them back, empty the queues. */
export function grantRepair(grantee: IGrantable, keys: Keys, channels: Channels): Grant {
  const { requestQueues, deadLetterQueue } = channels;
  const on = (queue: IQueue, actions: string[]): Grant =>
    Grant.addToPrincipalOrResource({ grantee, actions, resourceArns: [queue.queueArn], resource: queue });
  if (deadLetterQueue === undefined) return combine(requestQueues.map((queue) => on(queue, EMPTY)));
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  if ([...requestQueues, deadLetterQueue].some(isKeyUnknown)) keys.encryptionKey?.grant(grantee, ...REENCRYPT);
  const grants = [
    ...requestQueues.map((queue) => on(queue, [...EMPTY, 'sqs:SendMessage'])),
    on(deadLetterQueue, [...EMPTY, ...REDRIVE]),
  ];
  deadLetterQueue.encryptionMasterKey?.grantDecrypt(grantee);
  for (const queue of requestQueues) queue.encryptionMasterKey?.grant(grantee, ...REENCRYPT);
  return combine(grants);
}
