import { CfnGlobalTable, CfnTable, type ITable } from 'aws-cdk-lib/aws-dynamodb';
import { type IRole, Role } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { CfnQueue, type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { type ResourceEnvironment, Stack, Token } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { known, type Problem, refuse } from './problems.ts';
import { SECONDS_A_DAY } from './units.ts';

/*
 * Reads properties of existing queues, tables and buckets. The CDK knows all properties of resources that this app
 * creates, and very few of imported ones.
 */

/** Resource of a store, which may exist already. */
export type Existing = IQueue | ITable | IBucket;

/** Defaults of SQS. @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html */
export const DEFAULT_SECONDS = { visibilityTimeout: 30, messageRetentionPeriod: 4 * SECONDS_A_DAY };

/** Returns an attribute of a queue in seconds. Undefined if it is not known. */
export function secondsOfQueue(queue: IQueue | undefined, attribute: keyof typeof DEFAULT_SECONDS): number | undefined {
  const resource = queue?.node.defaultChild;
  return resource instanceof CfnQueue ? known(resource[attribute] ?? DEFAULT_SECONDS[attribute]) : undefined;
}

export function redriveOf(
  queue: IQueue | undefined,
): { readonly queue: IQueue; readonly maxReceiveCount: number } | undefined {
  return queue instanceof Queue ? queue.deadLetterQueue : undefined;
}

/** Returns true if a queue is known to have no redrive policy, without which SQS moves no message. */
export function hasNoRedrive(queue: IQueue | undefined): boolean {
  const resource = queue?.node.defaultChild;
  return resource instanceof CfnQueue && resource.redrivePolicy === undefined;
}

/** Returns the dead-letter queue that was given, or that the queue is known to have. */
export function deadLettersOf(given: {
  readonly queue: IQueue;
  readonly deadLetterQueue?: IQueue;
}): IQueue | undefined {
  return given.deadLetterQueue ?? redriveOf(given.queue)?.queue;
}

/** Returns the key of a table, each attribute with its type, such as `messageId (S)`. */
export function keyOf(table: ITable | undefined): string | undefined {
  const resource = resourceOfTable(table);
  if (resource === undefined) return undefined;
  const resolve = (value: unknown) => Stack.of(resource).resolve(value);
  const attributes: readonly CfnTable.AttributeDefinitionProperty[] = resolve(resource.attributeDefinitions) ?? [];
  const keys: readonly CfnTable.KeySchemaProperty[] = resolve(resource.keySchema) ?? [];
  const typeOf = (name: string) => attributes.find(({ attributeName }) => attributeName === name)?.attributeType;
  return keys.map(({ attributeName }) => `${attributeName} (${typeOf(attributeName)})`).join(' and ');
}

/** Returns the name of a table's TTL attribute, or `none`. Undefined if the table is imported. */
export function ttlAttributeOf(table: ITable | undefined): string | undefined {
  const resource = resourceOfTable(table);
  if (resource === undefined) return undefined;
  return Stack.of(resource).resolve(resource.timeToLiveSpecification)?.attributeName ?? 'none';
}

function resourceOfTable(table: ITable | undefined): CfnTable | CfnGlobalTable | undefined {
  const resource = table?.node.defaultChild;
  return resource instanceof CfnTable || resource instanceof CfnGlobalTable ? resource : undefined;
}

/** Returns true if a resource exists already and the CDK does not know which key encrypts it, if any. */
export function isKeyUnknown(resource: Existing | undefined): boolean {
  if (resource === undefined || resource.node.defaultChild !== undefined) return false;
  const key = 'queueArn' in resource ? resource.encryptionMasterKey : resource.encryptionKey;
  return key === undefined;
}

/** Returns a problem if a resource is known to be in a region other than the stack's. */
export function otherRegion(name: string, region: string, place: ResourceEnvironment | undefined): Problem {
  if (place === undefined || !areKnownToDiffer(place.region, region)) return undefined;
  return (
    `${name}: expected one in the region of the stack, ${region}, because hosts use what is in their own region ` +
    `alone, got one in ${place.region}; give one of ${region}, or deploy the stack to ${place.region}`
  );
}

/** Returns a problem if a resource is known to be in an account other than the stack's. */
export function otherAccount(
  name: string,
  account: string,
  place: ResourceEnvironment | undefined,
  because: string,
  cure = `give one of ${account}`,
): Problem {
  if (place === undefined || !areKnownToDiffer(place.account, account)) return undefined;
  return (
    `${name}: expected one in the account of the stack, ${account}, because ${because}, ` +
    `got one in ${place.account}; ${cure}`
  );
}

/**
 * Returns the given role. One of another stack is imported, so that its policy is part of this stack: otherwise each
 * stack would need the other first.
 *
 * @throws ValidationError if the role is known to be in another account, because functions and tasks cannot use one
 */
export function roleGiven(scope: Construct, role: IRole | undefined): IRole | undefined {
  const stack = Stack.of(scope);
  refuse([otherAccount('role', stack.account, role?.env, 'functions and tasks take no other')]);
  return role === undefined || Stack.of(role) === stack ? role : Role.fromRoleArn(scope, 'Given', role.roleArn);
}

function areKnownToDiffer(a: string, b: string): boolean {
  return !Token.isUnresolved(a) && !Token.isUnresolved(b) && a !== b;
}
