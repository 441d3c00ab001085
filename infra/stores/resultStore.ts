import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { RemovalPolicy, ResourceEnvironment } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import type { Store } from '../../lambda/settings.ts';
import type { AlarmCondition, Graph } from '../common/metrics.ts';
import type { Problem } from '../common/problems.ts';

/** Store for results, before its resources are created. */
export interface StorePlan {
  readonly name: Store;
  /** Name of the resource among the props and members of the construct. */
  readonly prop: string;
  readonly given: IQueue | ITable | IBucket | undefined;
  /** Region and account of the existing one, if known. */
  readonly place: ResourceEnvironment | undefined;
  /** Reason why it must be in the stack's account. @default it may be in any */
  readonly ownAccount?: string;
  /** Way to import one with its key, and the actions of hosts that use the key. */
  readonly key: { readonly how: string; readonly actions: readonly string[] };
  readonly problems: readonly Problem[];
  /**
   * Days that its results may contain pointers to payloads, and the remedy if that is too long.
   * @default it contains none
   */
  readonly pointers?: { readonly days: number | undefined; readonly why: string; readonly cure?: string };
  create(scope: Construct, options: StoreOptions): CreatedStore;
}

interface StoreOptions {
  readonly encryptionKey: IKey | undefined;
  readonly removalPolicy: RemovalPolicy;
  readonly visibilityTimeoutSeconds: number;
  readonly keyPrefix: string;
}

export interface CreatedStore {
  readonly prop: string;
  readonly resource: IQueue | ITable | IBucket;
  readonly clientQueues?: Readonly<Record<string, IQueue>>;
  readonly settings: Readonly<Record<string, string | number | undefined>>;
  /** Options of the client and the commands, by name. */
  readonly clientOptions: Readonly<Record<string, string>>;
  readonly alarms: readonly AlarmCondition[];
  /** Row of the dashboard. Empty if there is none. */
  readonly graphs: readonly Graph[];
  grantWrite(grantee: IGrantable): void;
  grantCollect(grantee: IGrantable): Grant;
}

/** Props that a store's rules read besides its own. */
export interface StoreContext<Stores> {
  readonly results: readonly Store[];
  readonly stores: Stores;
  readonly fifo: boolean;
  readonly requestQueue: IQueue | undefined;
  readonly deadLetterQueue: IQueue | undefined;
}

/** Returns a problem if an existing store is given that no results go to. */
export function notNamed<Stores>(
  store: Store,
  prop: keyof Stores & string,
  { results, stores }: StoreContext<Stores>,
): Problem {
  if (stores[prop] === undefined || results.includes(store)) return undefined;
  return (
    `stores.${prop}: expected ${store} among the results where one is given, got ${results.join(',')}; ` +
    `add ${store} or leave out ${prop}`
  );
}
