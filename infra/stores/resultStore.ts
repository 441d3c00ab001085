import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import type { Store } from '../../lambda/settings.ts';
import type { Keeping } from '../common/created.ts';
import type { Existing } from '../common/given.ts';
import type { AlarmCondition, Graph } from '../common/metrics.ts';
import type { Problem } from '../common/problems.ts';

/** Props that a store's rules read besides its own. @typeParam Given existing store, by its name in the prop `stores` */
export interface StoreContext<Given> {
  readonly results: readonly Store[];
  readonly stores: Given;
  readonly fifo: boolean;
}

/** Store for results, before its resources are created. */
export interface StorePlan {
  readonly name: Store;
  /** Its name in the prop `stores`. */
  readonly prop: string;
  readonly given: Existing | undefined;
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
  readonly resources: object;
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
