import { Stack, Token } from 'aws-cdk-lib';
import { CfnGlobalTable, CfnTable, type ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { CfnQueue, type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';

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
