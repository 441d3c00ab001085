import { AttributeType, BillingMode, type ITable, Table, TableEncryption } from 'aws-cdk-lib/aws-dynamodb';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { type RemovalPolicy, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { EXPIRES_AT_ATTRIBUTE, MESSAGE_ID_ATTRIBUTE } from '../../lambda/core/record.ts';
import { createBucket, createQueue } from './created.ts';
import type { DeploymentPlan } from './plan.ts';
import { acknowledge, handedOn } from './problems.ts';
import {
  type ExistingQueue,
  FREE_OF_QUEUE,
  HELD_OF_TABLE,
  type MoreQueueProps,
  type MoreTableProps,
  type ResultStore,
  type ResultStores,
} from './props.ts';

/** One queue or more. */
export type Queues = readonly [IQueue, ...IQueue[]];

/** Everything that requests and results pass through, and the dead letters. */
export interface Channels {
  /** One for each shard. */
  readonly requestQueues: Queues;
  /** Undefined if the request queue was given without one. */
  readonly deadLetterQueue: IQueue | undefined;
  readonly stores: ResultStores;
  /** Result queues of clients by name. */
  readonly clientQueues: Readonly<Record<string, IQueue>>;
  readonly payloadBucket: IBucket;
  /** What comes before `requests/` and `results/` in the keys of a deployment: '' in a bucket of its own. */
  readonly payloadPrefix: string;
  readonly resultPrefix: string;
  /** Of samples; undefined where none are kept. */
  readonly captureBucket: IBucket | undefined;
  readonly capturePrefix: string;
}

/** What exists already; the rest is created. */
interface Given {
  readonly requestQueue?: ExistingQueue | undefined;
  readonly stores?: ResultStores | undefined;
  readonly payloadBucket?: IBucket | undefined;
  readonly keyPrefix?: string | undefined;
  /** More of what is created. */
  readonly queueProps?: MoreQueueProps | undefined;
  readonly deadLetterQueueProps?: MoreQueueProps | undefined;
  readonly tableProps?: MoreTableProps | undefined;
}

interface ChannelOptions {
  readonly serviceName: string;
  readonly fifo: boolean;
  readonly shards: number;
  readonly visibilityTimeoutSeconds: number;
  readonly maxReceiveCount: number;
  readonly results: readonly ResultStore[];
  readonly clientQueues: readonly string[];
  readonly encryptionKey: IKey | undefined;
  /** Of stores and dead letters: requests are not kept. */
  readonly removalPolicy: RemovalPolicy;
  readonly payloadExpiryDays: number;
  /** Undefined: never. */
  readonly resultExpiryDays: number | undefined;
  readonly capture: DeploymentPlan['capture'];
}

/** The queues, stores and buckets of a deployment: the given ones, or new ones. */
export function createChannels(scope: Construct, given: Given, options: ChannelOptions): Channels {
  const { requestQueue, stores = {}, keyPrefix = uniquePrefix(scope, options.serviceName) } = given;
  const { capture } = options;
  const requests =
    requestQueue === undefined
      ? createRequestQueues(scope, options, given)
      : { requestQueues: [requestQueue.queue] as const, deadLetterQueue: deadLettersOf(requestQueue) };
  return {
    ...requests,
    stores: resultStores(scope, given, options),
    clientQueues: Object.fromEntries(
      options.clientQueues.map((name) => [name, createResultQueue(scope, options, `Results${capitalized(name)}`)]),
    ),
    // Every deployment has one, because any result may turn out too large for its store.
    payloadBucket:
      given.payloadBucket ??
      createBucket(scope, 'PayloadBucket', { ...options, expiryDays: options.payloadExpiryDays }),
    payloadPrefix: given.payloadBucket === undefined ? '' : keyPrefix,
    resultPrefix: stores.resultBucket === undefined ? '' : keyPrefix,
    captureBucket: capture && (capture.bucket ?? createBucket(scope, 'CaptureBucket', { ...options, ...capture })),
    capturePrefix: capture?.bucket === undefined ? '' : keyPrefix,
  };
}

/** A name as a part of an ID. */
export function capitalized(name: string): string {
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
}

/** The redrive policy of a queue; undefined where the CDK does not know it, as of an imported one. */
export function redriveOf(
  queue: IQueue | undefined,
): { readonly queue: IQueue; readonly maxReceiveCount: number } | undefined {
  return queue instanceof Queue ? queue.deadLetterQueue : undefined;
}

/** The dead letters that a queue was given with, or is known to have. */
export function deadLettersOf({ queue, deadLetterQueue }: ExistingQueue): IQueue | undefined {
  return deadLetterQueue ?? redriveOf(queue)?.queue;
}

/** The URLs of all queues, with commas between them, as the environment and a stack's outputs have them. */
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
/** The longest that SQS can keep a message. */
export const RESULT_DAYS = 14;

const isFreeOfQueue = (key: string): boolean => FREE_OF_QUEUE.some((free) => free === key);

/** New queues, with one queue for the dead letters of all. */
function createRequestQueues(
  scope: Construct,
  options: ChannelOptions,
  { queueProps, deadLetterQueueProps }: Given,
): Pick<Channels, 'requestQueues'> & {
  readonly deadLetterQueue: IQueue;
} {
  const { shards, removalPolicy, maxReceiveCount, ...common } = options;
  const dead = createQueue(scope, 'DeadLetters', {
    fifo: common.fifo,
    encryptionKey: common.encryptionKey,
    retentionDays: DEAD_LETTER_DAYS,
    removalPolicy,
    more: handedOn('deadLetterQueueProps', deadLetterQueueProps, isFreeOfQueue),
  });
  const deadLetterQueue = { queue: dead, maxReceiveCount };
  const more = handedOn('queueProps', queueProps, isFreeOfQueue);
  const create = (id: string): IQueue =>
    createQueue(scope, id, { ...common, retentionDays: REQUEST_DAYS, deadLetterQueue, more });
  // The first has the ID of an only one: a deployment that gets shards keeps its queue, and the messages in it.
  const first = create('Requests');
  const others = Array.from({ length: shards - 1 }, (_, index) => create(`Requests${index + 2}`));
  return { requestQueues: [first, ...others], deadLetterQueue: dead };
}

/** Every store that results go to: the given one, or a new one. */
function resultStores(
  scope: Construct,
  { stores: given = {}, tableProps }: Given,
  options: ChannelOptions,
): ResultStores {
  const { results, resultExpiryDays } = options;
  return {
    resultQueue: results.includes('queue') ? (given.resultQueue ?? createResultQueue(scope, options)) : undefined,
    resultTable: results.includes('table')
      ? (given.resultTable ?? createResultTable(scope, options, tableProps))
      : undefined,
    resultBucket: results.includes('bucket')
      ? (given.resultBucket ?? createBucket(scope, 'ResultBucket', { ...options, expiryDays: resultExpiryDays }))
      : undefined,
  };
}

/** It hides messages as long as the request queue does, so that a function as slow as the one that scores may take results. */
function createResultQueue(scope: Construct, options: ChannelOptions, id = 'Results'): IQueue {
  const { fifo, encryptionKey, removalPolicy, visibilityTimeoutSeconds } = options;
  const queue = createQueue(scope, id, {
    fifo,
    encryptionKey,
    removalPolicy,
    visibilityTimeoutSeconds,
    retentionDays: RESULT_DAYS,
  });
  acknowledge(
    queue,
    'AwsSolutions-SQS3',
    'No consumer can fail on a result, so none needs dead letters; a result that nobody collects expires',
  );
  return queue;
}

function createResultTable(
  scope: Construct,
  { encryptionKey, removalPolicy }: ChannelOptions,
  more: MoreTableProps | undefined,
): ITable {
  return new Table(scope, 'ResultTable', {
    partitionKey: { name: MESSAGE_ID_ATTRIBUTE, type: AttributeType.STRING },
    timeToLiveAttribute: EXPIRES_AT_ATTRIBUTE,
    billingMode: BillingMode.PAY_PER_REQUEST,
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    removalPolicy,
    ...(encryptionKey === undefined
      ? { encryption: TableEncryption.DEFAULT }
      : { encryption: TableEncryption.CUSTOMER_MANAGED, encryptionKey }),
    ...handedOn('tableProps', more, (key) => !HELD_OF_TABLE.some((held) => held === key)),
  });
}
