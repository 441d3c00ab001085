import {
  AttributeType,
  BillingMode,
  type ITable,
  Table,
  TableEncryption,
  type TableProps,
} from 'aws-cdk-lib/aws-dynamodb';
import type { Duration } from 'aws-cdk-lib/core';
import { EXPIRES_AT_ATTRIBUTE, MESSAGE_ID_ATTRIBUTE } from '../../lambda/core/record.ts';
import { SETTINGS } from '../../lambda/settings.ts';
import { keyOf, ttlAttributeOf } from '../common/given.ts';
import { onlyWithNew, outside, warn } from '../common/problems.ts';
import { SECONDS_A_DAY, secondsOf } from '../common/units.ts';
import type { StoreContext, StorePlan } from './resultStore.ts';

export interface TableStores {
  /**
   * Table whose partition key is the string `messageId`. Results expire only if its TTL attribute is `expiresAt`.
   */
  readonly resultTable?: ITable | undefined;
}

export interface TableStoreProps {
  /** Additional options of the new result table. @default on demand, with point-in-time recovery */
  readonly tableProps?: MoreTableProps;
  /** Age at which a result in the table expires, whole seconds. @default a week */
  readonly resultTtl?: Duration;
}

/** Table options that no guarantee of the construct depends on. */
export type MoreTableProps = Omit<
  TableProps,
  'partitionKey' | 'sortKey' | 'timeToLiveAttribute' | 'encryption' | 'encryptionKey' | 'pointInTimeRecovery'
>;

const TABLE_KEY = `${MESSAGE_ID_ATTRIBUTE} (S)`;

/** Plans a store that writes results as items of a table. Items expire. */
export function tableStore({ tableProps, resultTtl }: TableStoreProps, context: StoreContext<TableStores>): StorePlan {
  const { resultTable: given } = context.stores;
  const resultTtlSeconds = secondsOf('resultTtl', resultTtl) ?? SETTINGS.resultTtlSeconds.default;
  const key = keyOf(given);
  return {
    name: 'table',
    prop: 'resultTable',
    given,
    ownAccount: 'hosts call it by its name',
    pointerDays: resultTtlSeconds / SECONDS_A_DAY,
    problems: [
      outside('resultTtl', resultTtlSeconds, SETTINGS.resultTtlSeconds, 'seconds'),
      onlyWithNew('tableProps', tableProps, 'result table', context.results.includes('table') && given === undefined),
      key !== undefined &&
        key !== TABLE_KEY &&
        `stores.resultTable: expected the partition key ${TABLE_KEY} and no sort key, got ${key}; give a table with that key`,
    ],
    create(scope, { encryptionKey, removalPolicy }) {
      const attribute = ttlAttributeOf(given);
      const noExpiry =
        attribute !== undefined &&
        attribute !== EXPIRES_AT_ATTRIBUTE &&
        `stores.resultTable: expected the TTL attribute ${EXPIRES_AT_ATTRIBUTE}, because results never expire without, got ` +
          `${attribute}; set it as the table's timeToLiveAttribute`;
      warn(scope, 'noExpiry', noExpiry);
      const table =
        given ??
        new Table(scope, 'ResultTable', {
          ...tableProps,
          partitionKey: { name: MESSAGE_ID_ATTRIBUTE, type: AttributeType.STRING },
          timeToLiveAttribute: EXPIRES_AT_ATTRIBUTE,
          billingMode: tableProps?.billingMode ?? BillingMode.PAY_PER_REQUEST,
          pointInTimeRecoverySpecification: tableProps?.pointInTimeRecoverySpecification ?? {
            pointInTimeRecoveryEnabled: true,
          },
          removalPolicy: tableProps?.removalPolicy ?? removalPolicy,
          encryption: encryptionKey === undefined ? TableEncryption.DEFAULT : TableEncryption.CUSTOMER_MANAGED,
          encryptionKey,
        });
      return {
        resources: { resultTable: table },
        clientOptions: { resultTable: table.tableName },
        settings: { resultTtlSeconds },
        grantWrite(grantee) {
          table.encryptionKey?.grantEncryptDecrypt(grantee);
          table.grant(grantee, 'dynamodb:BatchWriteItem');
        },
        grantCollect(grantee) {
          table.encryptionKey?.grantDecrypt(grantee);
          return table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:BatchGetItem');
        },
      };
    },
  };
}
