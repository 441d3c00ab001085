import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { RemovalPolicy, ResourceEnvironment } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import type { Store } from '../../lambda/settings.ts';
import type { Existing } from '../common/given.ts';
import type { AlarmCondition, Graph } from '../common/metrics.ts';
import type { Problem } from '../common/problems.ts';

/** Store for results, before its resources are created. */
export interface StorePlan {
  readonly name: Store;
  /** Its name in the prop `stores`. */
  readonly prop: string;
  readonly given: Existing | undefined;
  /** Region and account of the existing one, if known. */
  readonly place: ResourceEnvironment | undefined;
  /** Reason why it must be in the stack's account. @default it may be in any */
  readonly ownAccount?: string;
  /** Way to import one with its key. */
  readonly importWith: string;
  readonly problems: readonly Problem[];
  /** Days that its results may contain pointers to payloads. @default at most as long as a queue keeps messages */
  readonly pointerDays?: number;
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
  readonly resource: Existing;
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

/** Props that a store's rules read besides its own. @typeParam Given existing store, by its name in the prop `stores` */
export interface StoreContext<Given> {
  readonly results: readonly Store[];
  readonly stores: Given;
  readonly fifo: boolean;
}
