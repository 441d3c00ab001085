import { type RemovalPolicy, Validations } from 'aws-cdk-lib';
import { AttributeType, BillingMode, type ITable, Table, TableEncryption } from 'aws-cdk-lib/aws-dynamodb';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import type { Store } from '../../../lambda/core/limits.ts';
import { createBucket } from '../base/bucket.ts';
import { createQueue } from '../base/queue.ts';

/** A kind of store that results can go to. */
export type ResultStore = Store;

/** The stores of a deployment; undefined where no results go. */
export interface ResultStores {
  readonly resultQueue?: IQueue | undefined;
  readonly resultTable?: ITable | undefined;
  /** Results lie under the deployment's `keyPrefix` in it. */
  readonly resultBucket?: IBucket | undefined;
}

export interface StoreOptions {
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
export function createResultStores(
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
