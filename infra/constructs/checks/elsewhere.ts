import { Arn, ArnFormat, type ResourceEnvironment, Stack, Token } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { IRepository } from 'aws-cdk-lib/aws-ecr';
import type { IRole } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { type Problem, refuse } from '../base/refuse.ts';
import type { ModelPlace } from '../storage/models.ts';
import type { ResultStores } from '../storage/resultStores.ts';

/** What exists already and is used by the host; what was not given is undefined. */
export interface GivenThings {
  readonly requestQueue?: { readonly queue: IQueue } | undefined;
  readonly stores?: ResultStores | undefined;
  readonly payloadBucket?: IBucket | undefined;
  readonly encryptionKey?: IKey | undefined;
  readonly image?: { readonly repository: IRepository } | undefined;
  readonly jobs?: { readonly bucket?: IBucket | undefined } | undefined;
}

/** Where the models are, and what runs. */
interface Planned {
  readonly models: ModelPlace;
  readonly compute: { readonly feed?: 'mapping' | 'worker' };
}

/**
 * Mappings, keys and images of another region are refused when the stack is deployed; queues, tables and buckets of
 * another region fail at the first message. ECS alone pulls images from anywhere. Nothing is said where the CDK does not
 * know one of the two.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 * @throws Error naming everything that is elsewhere
 */
export function refuseElsewhere(scope: Construct, given: GivenThings, { models, compute }: Planned): void {
  const { requestQueue, stores = {}, payloadBucket, encryptionKey, image, jobs } = given;
  const { region, account } = Stack.of(scope);
  const table = stores.resultTable && placeOf(stores.resultTable);
  refuse([
    otherRegion('requestQueue', region, requestQueue?.queue.env),
    otherRegion('stores.resultQueue', region, stores.resultQueue?.env),
    otherRegion('stores.resultTable', region, table),
    otherAccount('stores.resultTable', account, table, 'hosts call it by its name'),
    otherRegion('stores.resultBucket', region, stores.resultBucket?.env),
    otherRegion('payloadBucket', region, payloadBucket?.env),
    otherRegion('encryptionKey', region, encryptionKey?.env),
    compute.feed === 'worker' ? undefined : otherRegion('image', region, image?.repository.env),
    otherRegion('jobs.bucket', region, jobs?.bucket?.env),
    otherAccount('jobs.bucket', account, jobs?.bucket?.env, 'the stack sets its notifications'),
    otherRegion('models.bucket', region, models.s3?.bucketOfUri?.env),
  ]);
}

/**
 * Neither a function nor a task takes a role of another account, and the CDK grants nothing to one.
 *
 * @throws Error when that is known
 */
export function refuseForeignRole(scope: Construct, role: IRole | undefined): void {
  const { account } = Stack.of(scope);
  refuse([otherAccount('role', account, role?.env, 'functions and tasks take no other')]);
}

/** Of an imported table the CDK takes the place to be that of the stack, whatever its ARN says. */
function placeOf({ tableArn, env }: ITable): ResourceEnvironment {
  if (Token.isUnresolved(tableArn)) return env;
  const { region = env.region, account = env.account } = Arn.split(tableArn, ArnFormat.SLASH_RESOURCE_NAME);
  return { region, account };
}

function otherRegion(name: string, region: string, place: ResourceEnvironment | undefined): Problem {
  if (place === undefined || !areKnownToDiffer(place.region, region)) return undefined;
  return (
    `${name}: expected one in the region of the stack, ${region}, because hosts use what is in their own region alone, ` +
    `got one in ${place.region}; give one of ${region}, or deploy the stack to ${place.region}`
  );
}

function otherAccount(name: string, account: string, place: ResourceEnvironment | undefined, because: string): Problem {
  if (place === undefined || !areKnownToDiffer(place.account, account)) return undefined;
  return (
    `${name}: expected one in the account of the stack, ${account}, because ${because}, ` +
    `got one in ${place.account}; give one of ${account}`
  );
}

function areKnownToDiffer(a: string, b: string): boolean {
  return !Token.isUnresolved(a) && !Token.isUnresolved(b) && a !== b;
}
