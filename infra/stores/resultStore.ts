import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import type { Store } from '../../lambda/settings.ts';
import type { Keeping } from '../common/created.ts';
import type { AlarmCondition, Graph } from '../common/metrics.ts';
import type { Problem } from '../common/problems.ts';

/** Stores of a deployment. A store without results is undefined. */
export interface ResultStores {
  /** Queue of the same kind as the request queue, FIFO or standard. */
  readonly resultQueue?: IQueue | undefined;
  /**
   * Table whose partition key is the string `messageId`. Results expire only if its TTL attribute is `expiresAt`.
   */
  readonly resultTable?: ITable | undefined;
  /** Bucket that contains results under the deployment's `keyPrefix`. */
  readonly resultBucket?: IBucket | undefined;
}

/** Props that a store's rules read besides its own. */
export interface StoreContext {
  readonly results: readonly Store[];
  readonly stores: ResultStores;
  readonly fifo: boolean;
}

/** Store for results, before its resources are created. */
export interface StorePlan {
  readonly name: Store;
  /** Its name in the prop `stores`. */
  readonly prop: keyof ResultStores;
  /** Reason why it must be in the stack's account. @default it may be in any */
  readonly ownAccount?: string;
  readonly problems: readonly Problem[];
  /** Days that its results may contain pointers to payloads. @default at most as long as a queue keeps messages */
  readonly pointerDays?: number;
  create(scope: Construct, options: StoreOptions): CreatedStore;
}

interface StoreOptions extends Keeping {
  readonly visibilityTimeoutSeconds: number;
  readonly keyPrefix: string;
}

export interface CreatedStore {
  /** Properties of the construct. */
  readonly resources: ResultStores & { readonly clientQueues?: Readonly<Record<string, IQueue>> };
  /** Options of the client and the commands, by name. They are also settings of the host. */
  readonly clientOptions: Readonly<Record<string, string>>;
  /** Other settings of the host. */
  readonly settings?: Readonly<Record<string, string | number | undefined>>;
  readonly alarms?: readonly AlarmCondition[];
  /** Row of the dashboard. @default none */
  readonly graphs?: readonly Graph[];
  grantWrite(grantee: IGrantable): void;
  grantCollect(grantee: IGrantable): Grant;
}
