import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { RemovalPolicy, ResourceEnvironment } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import type { Store } from '../../lambda/core/limits.ts';
import type { AlarmCondition, Graph } from '../common/metrics.ts';
import type { Problem } from '../common/problems.ts';

/** The stores of a deployment; undefined where no results go. */
export interface ResultStores {
  readonly resultQueue?: IQueue | undefined;
  readonly resultTable?: ITable | undefined;
  /** Results lie under the deployment's `keyPrefix` in it. */
  readonly resultBucket?: IBucket | undefined;
}

/** A store that results go to, before it is made. */
export interface StorePlan {
  readonly name: Store;
  /** The prop of an existing one. */
  readonly prop: keyof ResultStores;
  readonly given: IQueue | ITable | IBucket | undefined;
  /** Where the existing one is, as far as that is known. */
  readonly place: ResourceEnvironment | undefined;
  /** Why it must be in the account of the stack. @default it need not be */
  readonly ownAccount?: string;
  /** How one is imported with its key, and what hosts do with the key. */
  readonly key: { readonly how: string; readonly actions: readonly string[] };
  readonly problems: readonly Problem[];
  /** How long results in it may point to payloads, and what to do if that is too long. @default they point to nothing */
  readonly pointers?: { readonly days: number | undefined; readonly why: string; readonly cure?: string };
  create(scope: Construct, options: StoreOptions): CreatedStore;
}

interface StoreOptions {
  readonly encryptionKey: IKey | undefined;
  readonly removalPolicy: RemovalPolicy;
  readonly visibilityTimeoutSeconds: number;
  /** Begins the keys of existing buckets. */
  readonly keyPrefix: string;
}

/** A store that results go to. */
export interface CreatedStore {
  readonly prop: keyof ResultStores;
  readonly resource: IQueue | ITable | IBucket;
  /** Result queues of clients, by their names. */
  readonly clientQueues?: Readonly<Record<string, IQueue>>;
  /** Settings of the host, by their names. */
  readonly settings: Readonly<Record<string, string | number | undefined>>;
  /** What the client and the commands are told, by the names of their options. */
  readonly clientOptions: Readonly<Record<string, string>>;
  readonly alarms: readonly AlarmCondition[];
  /** A row of the dashboard; empty without. */
  readonly graphs: readonly Graph[];
  grantWrite(grantee: IGrantable): void;
  grantCollect(grantee: IGrantable): Grant;
}

/** What a store's rules read besides its own props. */
export interface StoreContext {
  readonly results: readonly Store[];
  readonly stores: ResultStores;
  readonly fifo: boolean;
  readonly requestQueue: IQueue | undefined;
  readonly deadLetterQueue: IQueue | undefined;
}

/** Returns what is wrong with an existing store that no results go to. */
export function notNamed(store: Store, prop: keyof ResultStores, { results, stores }: StoreContext): Problem {
  if (stores[prop] === undefined || results.includes(store)) return undefined;
  return (
    `stores.${prop}: expected ${store} among the results where one is given, got ${results.join(',')}; ` +
    `add ${store} or leave out ${prop}`
  );
}
