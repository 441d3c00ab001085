import { type Duration, type RemovalPolicy, Stack, Token, Validations } from 'aws-cdk-lib';
import {
  AttributeType,
  BillingMode,
  CfnGlobalTable,
  CfnTable,
  type ITable,
  Table,
  TableEncryption,
} from 'aws-cdk-lib/aws-dynamodb';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Bucket, IBucket } from 'aws-cdk-lib/aws-s3';
import { CfnQueue, type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import type { Store } from '../../lambda/core/limits.ts';
import { type BucketOptions, createBucket, createQueue } from './created.ts';

/** What exists already; the rest is created. */
interface GivenStorage extends GivenBuckets {
  readonly requestQueue?: ExistingQueue | undefined;
}

interface StorageOptions extends NewQueues, StoreOptions, PayloadBucketOptions {
  readonly serviceName: string;
  readonly results: readonly ResultStore[];
}

/** Everything that requests and results pass through, and the dead letters. */
interface Storage {
  readonly requests: RequestQueues;
  readonly channels: Channels;
}

/** The queues, stores and buckets of a deployment: the given ones, or new ones. */
export function createStorage(scope: Construct, given: GivenStorage, options: StorageOptions): Storage {
  const requests = given.requestQueue ? useRequestQueue(given.requestQueue) : createRequestQueues(scope, options);
  const stores = createResultStores(scope, options.results, given.stores ?? {}, options);
  const payloadBucket = given.payloadBucket ?? createPayloadBucket(scope, options);
  const prefixes = keyPrefixesOf(scope, options.serviceName, given);
  return { requests, channels: { requestQueues: requests.queues, stores, payloadBucket, ...prefixes } };
}

/** Everything that requests and results pass through. */
export interface Channels extends KeyPrefixes {
  readonly requestQueues: Queues;
  readonly stores: ResultStores;
  readonly payloadBucket: IBucket;
}

/** The URLs of all queues, with commas between them, as the environment and a stack's outputs, which are texts, hold them. */
export function urlsOf(queues: Queues): string {
  return queues.map(({ queueUrl }) => queueUrl).join(',');
}

/** What comes before `requests/` and `results/` in the keys of a deployment: '' in a bucket of its own. */
interface KeyPrefixes {
  readonly payloadPrefix: string;
  readonly resultPrefix: string;
}

interface GivenBuckets {
  readonly keyPrefix?: string | undefined;
  readonly payloadBucket?: IBucket | undefined;
  readonly stores?: ResultStores | undefined;
}

/** In buckets that exist already, the given prefix, or one that no other deployment has. */
function keyPrefixesOf(
  scope: Construct,
  serviceName: string,
  { keyPrefix = uniquePrefix(scope, serviceName), payloadBucket, stores }: GivenBuckets,
): KeyPrefixes {
  return {
    payloadPrefix: payloadBucket === undefined ? '' : keyPrefix,
    resultPrefix: stores?.resultBucket === undefined ? '' : keyPrefix,
  };
}

/** The service's name tells deployments of one account and region apart; a bucket may be shared beyond these. */
function uniquePrefix(scope: Construct, serviceName: string): string {
  const { account, region } = Stack.of(scope);
  return `batchscore/${account}/${region}/${serviceName}/`;
}

/** A queue that exists already. */
export interface ExistingQueue {
  /** The queue, standard or FIFO. */
  readonly queue: IQueue;
  /** Its visibility timeout, which the CDK does not know of an imported queue; it is checked against the compute's timeout. */
  readonly visibilityTimeout: Duration;
  /** Where its redrive policy sends messages. @default that of the queue's own construct, if this app creates it */
  readonly deadLetterQueue?: IQueue;
}

/** One queue or more. */
export type Queues = readonly [IQueue, ...IQueue[]];

/** The queues that requests come from, one for each shard, and their dead letters. */
export interface RequestQueues {
  readonly queues: Queues;
  /** Undefined if the queue was given without one. */
  readonly deadLetterQueue: IQueue | undefined;
}

interface NewQueues {
  readonly fifo: boolean;
  readonly shards: number;
  readonly encryptionKey: IKey | undefined;
  /** Of the dead letters: requests are not kept. */
  readonly removalPolicy: RemovalPolicy;
  readonly visibilityTimeoutSeconds: number;
  readonly maxReceiveCount: number;
}

export const RETENTION_DAYS = 4;
/** On a standard queue the days count from the first send, so dead letters must be kept longer than requests. */
export const DEAD_LETTER_RETENTION_DAYS = 14;

/** New queues, with one queue for the dead letters of all. */
function createRequestQueues(scope: Construct, options: NewQueues): RequestQueues {
  const { fifo, shards, encryptionKey, removalPolicy, visibilityTimeoutSeconds, maxReceiveCount } = options;
  const deadLetterQueue = createQueue(scope, 'DeadLetters', {
    fifo,
    encryptionKey,
    retentionDays: DEAD_LETTER_RETENTION_DAYS,
    removalPolicy,
  });
  const create = (id: string): IQueue =>
    createQueue(scope, id, {
      fifo,
      encryptionKey,
      retentionDays: RETENTION_DAYS,
      visibilityTimeoutSeconds,
      deadLetterQueue: { queue: deadLetterQueue, maxReceiveCount },
    });
  // The first has the ID of an only one: a deployment that gets shards keeps its queue, and the messages in it.
  const first = create('Requests');
  const others = Array.from({ length: shards - 1 }, (_, index) => create(`Requests${index + 2}`));
  return { queues: [first, ...others], deadLetterQueue };
}

/** The given queue, with the dead letters that it was given or is known to have. */
export function useRequestQueue({ queue, deadLetterQueue }: ExistingQueue): RequestQueues {
  return { queues: [queue], deadLetterQueue: deadLetterQueue ?? redriveOf(queue)?.queue };
}

/** The redrive policy, known only of a queue that this app creates. */
export function redriveOf(
  queue: IQueue | undefined,
): { readonly queue: IQueue; readonly maxReceiveCount: number } | undefined {
  return queue instanceof Queue ? queue.deadLetterQueue : undefined;
}

/** A kind of store that results can go to. */
export type ResultStore = Store;

/** The stores of a deployment; undefined where no results go. */
export interface ResultStores {
  readonly resultQueue?: IQueue | undefined;
  readonly resultTable?: ITable | undefined;
  /** Results lie under the deployment's `keyPrefix` in it. */
  readonly resultBucket?: IBucket | undefined;
}

interface StoreOptions {
  readonly fifo: boolean;
  readonly encryptionKey: IKey | undefined;
  readonly removalPolicy: RemovalPolicy;
  /** Days until an object of a new bucket is deleted; undefined: never. */
  readonly resultExpiryDays: number | undefined;
}

/** The longest that SQS can keep a message. */
export const RESULT_RETENTION_DAYS = 14;
/** The table's key and time-to-live attribute, as the runtime writes them. */
export const MESSAGE_ID_KEY = 'messageId';
const EXPIRES_AT_ATTRIBUTE = 'expiresAt';

/** Every store that results go to: the given one, or a new one. */
function createResultStores(
  scope: Construct,
  stores: readonly ResultStore[],
  given: ResultStores,
  options: StoreOptions,
): ResultStores {
  return {
    resultQueue: stores.includes('queue') ? (given.resultQueue ?? createResultQueue(scope, options)) : undefined,
    resultTable: stores.includes('table') ? (given.resultTable ?? createResultTable(scope, options)) : undefined,
    resultBucket: stores.includes('bucket')
      ? (given.resultBucket ??
        createBucket(scope, 'ResultBucket', { ...options, expiryDays: options.resultExpiryDays }))
      : undefined,
  };
}

function createResultQueue(scope: Construct, options: StoreOptions): IQueue {
  const queue = createQueue(scope, 'Results', { ...options, retentionDays: RESULT_RETENTION_DAYS });
  Validations.of(queue).acknowledge({
    id: 'AwsSolutions-SQS3',
    reason: 'No consumer can fail on a result, so none needs dead letters; a result that nobody collects expires',
  });
  return queue;
}

function createResultTable(scope: Construct, { encryptionKey, removalPolicy }: StoreOptions): ITable {
  return new Table(scope, 'ResultTable', {
    partitionKey: { name: MESSAGE_ID_KEY, type: AttributeType.STRING },
    timeToLiveAttribute: EXPIRES_AT_ATTRIBUTE,
    billingMode: BillingMode.PAY_PER_REQUEST,
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    removalPolicy,
    ...(encryptionKey === undefined
      ? { encryption: TableEncryption.DEFAULT }
      : { encryption: TableEncryption.CUSTOMER_MANAGED, encryptionKey }),
  });
}

interface PayloadBucketOptions extends Omit<BucketOptions, 'expiryDays'> {
  readonly payloadExpiryDays: number;
}

/** Every deployment has one, because any result may turn out too large for its store. Its objects expire. */
function createPayloadBucket(scope: Construct, options: PayloadBucketOptions): Bucket {
  return createBucket(scope, 'PayloadBucket', { ...options, expiryDays: options.payloadExpiryDays });
}

/*
 * What the CDK knows of queues and tables: the properties of those that this app creates, and nothing of imported ones.
 */

/** SQS's own defaults. @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html */
const DEFAULT_VISIBILITY_SECONDS = 30;
const DEFAULT_RETENTION_SECONDS = 345_600;
const SECONDS_A_DAY = 86_400;

/** Whether it is a FIFO queue; undefined where the ARN is a token and the import did not say so. */
export function fifoOf(queue: IQueue): boolean | undefined {
  const isKnown = queue.fifo || queue instanceof Queue || !Token.isUnresolved(queue.queueArn);
  return isKnown ? queue.fifo : undefined;
}

/** Undefined where the CDK does not know. */
export function visibilitySecondsOf(queue: IQueue | undefined): number | undefined {
  return knownNumber(queue, ({ visibilityTimeout = DEFAULT_VISIBILITY_SECONDS }) => visibilityTimeout);
}

/** Days that a queue keeps its messages; undefined where the CDK does not know. */
export function retentionDaysOf(queue: IQueue | undefined): number | undefined {
  const seconds = knownNumber(
    queue,
    ({ messageRetentionPeriod = DEFAULT_RETENTION_SECONDS }) => messageRetentionPeriod,
  );
  return seconds === undefined ? undefined : seconds / SECONDS_A_DAY;
}

function knownNumber(queue: IQueue | undefined, pick: (resource: CfnQueue) => number): number | undefined {
  const resource = queue?.node.defaultChild;
  if (!(resource instanceof CfnQueue)) return undefined;
  const value = pick(resource);
  return Token.isUnresolved(value) ? undefined : value;
}

/** The key of a table, each attribute with its type, such as `['messageId (S)']`; undefined where the CDK does not know. */
export function keyOf(table: ITable | undefined): readonly string[] | undefined {
  const resource = table?.node.defaultChild;
  if (!(resource instanceof CfnTable || resource instanceof CfnGlobalTable)) return undefined;
  const resolve = (value: unknown) => Stack.of(resource).resolve(value);
  const attributes: readonly CfnTable.AttributeDefinitionProperty[] = resolve(resource.attributeDefinitions) ?? [];
  const keys: readonly CfnTable.KeySchemaProperty[] = resolve(resource.keySchema) ?? [];
  const typeOf = (name: string) => attributes.find(({ attributeName }) => attributeName === name)?.attributeType;
  return keys.map(({ attributeName }) => `${attributeName} (${typeOf(attributeName)})`);
}

/** Whether something exists already, and the CDK was not told which key it is encrypted with, if with one at all. */
export function isKeyUnknown(resource: IQueue | ITable | IBucket | undefined): boolean {
  if (resource === undefined || resource.node.defaultChild !== undefined) return false;
  const key = 'encryptionMasterKey' in resource ? resource.encryptionMasterKey : (resource as IBucket).encryptionKey;
  return key === undefined;
}
