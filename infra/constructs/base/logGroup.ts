import { ArnFormat, type RemovalPolicy, Stack } from 'aws-cdk-lib';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { statementText } from './plainText.ts';
import { warn } from './warn.ts';

export interface LogGroupOptions {
  readonly encryptionKey: IKey | undefined;
  readonly logRetention: RetentionDays;
  readonly removalPolicy: RemovalPolicy;
}

/** A log group that expires its logs, and that CloudWatch Logs may encrypt with the given key. */
export function createLogGroup(scope: Construct, id: string, options: LogGroupOptions): LogGroup {
  const { encryptionKey, logRetention, removalPolicy } = options;
  if (encryptionKey !== undefined) allowLogs(scope, encryptionKey);
  return new LogGroup(scope, id, {
    retention: logRetention,
    removalPolicy,
    ...(encryptionKey !== undefined && { encryptionKey }),
  });
}

/**
 * CloudWatch Logs uses the key as a service of its own, so the key's policy must allow it to. That of an imported key
 * cannot be changed here, and the log group would fail when it is deployed: a warning says what to add.
 *
 * @see https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
 */
function allowLogs(scope: Construct, key: IKey): void {
  const stack = Stack.of(scope);
  const logGroups = stack.formatArn({
    service: 'logs',
    resource: 'log-group',
    resourceName: '*',
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
  const statement = new PolicyStatement({
    sid: 'LogGroups',
    principals: [new ServicePrincipal(`logs.${stack.region}.amazonaws.com`)],
    actions: ['kms:Encrypt', 'kms:Decrypt', 'kms:ReEncrypt*', 'kms:GenerateDataKey*', 'kms:DescribeKey'],
    resources: ['*'],
    conditions: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': logGroups } },
  });
  if (key.addToResourcePolicy(statement).statementAdded) return;
  warn(
    scope,
    'logKeyPolicy',
    'encryptionKey: expected a key that CloudWatch Logs may use, got an imported one, whose policy the CDK neither knows ' +
      `nor changes; add this to its policy: ${statementText(scope, statement)}`,
  );
}
