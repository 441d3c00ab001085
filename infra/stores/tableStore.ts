import {
  AttributeType,
  BillingMode,
  type ITable,
  Table,
  TableEncryption,
  type TableProps,
} from 'aws-cdk-lib/aws-dynamodb';
import { Arn, ArnFormat, type Duration, type ResourceEnvironment, Token } from 'aws-cdk-lib/core';
import { EXPIRES_AT_ATTRIBUTE, MESSAGE_ID_ATTRIBUTE } from '../../lambda/core/record.ts';
import { SETTINGS } from '../../lambda/settings.ts';
import { keyOf, SECONDS_A_DAY } from '../common/given.ts';
import { brokenOf, handedOn, known, outside } from '../common/problems.ts';
import { secondsOrToken } from '../common/units.ts';
import { notNamed, type StoreContext, type StorePlan } from './resultStore.ts';

export interface TableStoreProps {
  /** Additional options of the new result table. @default on demand, with point-in-time recovery */
  readonly tableProps?: MoreTableProps;
  /** Time after which a result in the table expires, whole seconds. @default a week */
  readonly resultTtl?: Duration;
}

/** Table options that no guarantee of the construct depends on. */
export type MoreTableProps = Omit<TableProps, (typeof HELD)[number]>;
const HELD = ['partitionKey', 'sortKey', 'timeToLiveAttribute', 'encryption', 'encryptionKey'] as const;

const TABLE_KEY = `${MESSAGE_ID_ATTRIBUTE} (S)`;

export interface TableStores {
  readonly resultTable?: ITable | undefined;
}

/** Plans a store that writes results as items of a table. Items expire. */
export function tableStore({ tableProps, resultTtl }: TableStoreProps, context: StoreContext<TableStores>): StorePlan {
  const { resultTable: given } = context.stores;
  const resultTtlSeconds = secondsOrToken('resultTtl', resultTtl) ?? SETTINGS.resultTtlSeconds.default;
  const ttl = known(resultTtlSeconds);
  const key = keyOf(given);
  return {
    name: 'table',
    prop: 'resultTable',
    given,
    place: given && placeOf(given),
    ownAccount: 'hosts call it by its name',
    key: {
      how: 'Table.fromTableAttributes and encryptionKey',
      // @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
      actions: ['kms:Decrypt', 'kms:DescribeKey', 'kms:Encrypt', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'],
    },
    pointers: {
      days: ttl && ttl / SECONDS_A_DAY,
      why: `the table keeps pointers to large results for ${ttl} s`,
      cure: ' or lower resultTtl',
    },
    problems: [
      outside('resultTtl', resultTtlSeconds, SETTINGS.resultTtlSeconds, 'seconds'),
      notNamed('table', 'resultTable', context),
      ...brokenOf([
        [
          tableProps !== undefined && (given !== undefined || !context.results.includes('table')),
          'tableProps: expected only with a new result table, got none to make; leave it out, or name table among the results',
        ],
        [
          key !== undefined && key !== TABLE_KEY,
          `stores.resultTable: expected the partition key ${TABLE_KEY} and no sort key, got ${key}; give a table with that key`,
        ],
      ]),
    ],
    create(scope, { encryptionKey, removalPolicy }) {
      const table =
        given ??
        new Table(scope, 'ResultTable', {
          partitionKey: { name: MESSAGE_ID_ATTRIBUTE, type: AttributeType.STRING },
          timeToLiveAttribute: EXPIRES_AT_ATTRIBUTE,
          billingMode: BillingMode.PAY_PER_REQUEST,
          pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
          removalPolicy,
          ...(encryptionKey === undefined
            ? { encryption: TableEncryption.DEFAULT }
            : { encryption: TableEncryption.CUSTOMER_MANAGED, encryptionKey }),
          ...handedOn('tableProps', tableProps, (prop) => !HELD.some((held) => held === prop)),
        });
      return {
        prop: 'resultTable',
        resource: table,
        settings: { resultTable: table.tableName, resultTtlSeconds },
        clientOptions: { resultTable: table.tableName },
        alarms: [],
        graphs: [],
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

/** Returns a table's region and account from its ARN. For an imported table, the CDK always returns the stack's. */
function placeOf({ tableArn, env }: ITable): ResourceEnvironment {
  if (Token.isUnresolved(tableArn)) return env;
  const { region = env.region, account = env.account } = Arn.split(tableArn, ArnFormat.SLASH_RESOURCE_NAME);
  return { region, account };
}
