import { CfnGlobalTable, CfnTable, type ITable } from 'aws-cdk-lib/aws-dynamodb';
import { type IRole, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { CfnQueue, type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { Arn, ArnFormat, type IResource, PhysicalName, type ResourceEnvironment, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { differ, known, type Problem, refuse } from './problems.ts';
import { SECONDS_A_DAY } from './units.ts';

/*
 * Reads properties of existing queues, tables and buckets. The CDK knows all properties of resources that this app
 * creates, and very few of imported ones.
 */

/** Resource of a store, which may exist already. */
export type Existing = IResource & { readonly encryptionKey?: IKey; readonly encryptionMasterKey?: IKey };

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

/** Returns a problem if a resource exists already and the CDK does not know which key encrypts it, if any. */
export function unknownKey(name: string, resource: Existing | undefined): Problem {
  if (resource === undefined || resource.node.defaultChild !== undefined) return undefined;
  const kind = ['Queue', 'Table', 'Bucket'].find((one) => `${one.toLowerCase()}Arn` in resource);
  if (kind === undefined || (resource.encryptionKey ?? resource.encryptionMasterKey) !== undefined) return undefined;
  return (
    `${name}: expected to know the key that it is encrypted with, got an imported one without; if it has a key of its ` +
    `own, import it with ${kind}.from${kind}Attributes and ${kind === 'Queue' ? 'keyArn' : 'encryptionKey'}`
  );
}

/** Returns a problem if a resource is known to be in a region other than the stack's. */
export function otherRegion(scope: Construct, name: string, resource: IResource | undefined): Problem {
  const { region } = Stack.of(scope);
  const place = placeOf(resource);
  return (
    differ(place?.region, region) &&
    `${name}: expected one in the region of the stack, ${region}, because hosts use what is in their own region ` +
      `alone, got one in ${place?.region}; give one of ${region}, or deploy the stack to ${place?.region}`
  );
}

/** Returns a problem if a resource is known to be in an account other than the stack's. */
export function otherAccount(
  scope: Construct,
  name: string,
  resource: IResource | undefined,
  because: string,
  cureFor = (account: string) => `give one of ${account}`,
): Problem {
  const { account } = Stack.of(scope);
  const place = placeOf(resource);
  return (
    differ(place?.account, account) &&
    `${name}: expected one in the account of the stack, ${account}, because ${because}, ` +
      `got one in ${place?.account}; ${cureFor(account)}`
  );
}

/** Returns the region and account of a resource. For an imported table, the CDK returns the stack's instead of its ARN's. */
function placeOf(resource: IResource | undefined): ResourceEnvironment | undefined {
  const arn = resource !== undefined && 'tableArn' in resource ? known(String(resource.tableArn)) : undefined;
  if (resource === undefined || arn === undefined) return resource?.env;
  const { region = resource.env.region, account = resource.env.account } = Arn.split(
    arn,
    ArnFormat.SLASH_RESOURCE_NAME,
  );
  return { region, account };
}

/**
 * Returns the role of hosts: the given one, or a new one. A given one of another stack is imported, so that its policy
 * is part of this stack: otherwise each stack would need the other first.
 *
 * @param service that assumes a new one
 * @throws ValidationError if the role is known to be in another account, because functions and tasks cannot use one
 */
export function hostRole(scope: Construct, given: IRole | undefined, service: string, description: string): IRole {
  if (given === undefined) {
    const assumedBy = new ServicePrincipal(service);
    return new Role(scope, 'Role', { roleName: PhysicalName.GENERATE_IF_NEEDED, assumedBy, description });
  }
  refuse([otherAccount(scope, 'role', given, 'functions and tasks take no other')]);
  return Stack.of(given) === Stack.of(scope) ? given : Role.fromRoleArn(scope, 'Given', given.roleArn);
}
