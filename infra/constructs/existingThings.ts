import { Arn, ArnFormat, type ResourceEnvironment, Stack, Token } from 'aws-cdk-lib';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { IRepository } from 'aws-cdk-lib/aws-ecr';
import type { IAccessPoint } from 'aws-cdk-lib/aws-efs';
import { type IRole, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { isS3Uri, type ModelsUri, readModelsUri } from '../../lambda/core/places.ts';
import { type Channels, isKeyUnknown, type RequestQueues, type ResultStores } from './channels.ts';
import { type Problem, refuse, statementText, warn } from './problems.ts';

/** What exists already and is used by the host; what was not given is undefined. */
interface GivenThings {
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

/** Whether a queue, table or bucket that exists already has a key of its own is not known, so nothing is granted for it. */
export function warnOfUnknownKeys(
  scope: Construct,
  { requestQueues: [requestQueue], stores, payloadBucket }: Channels,
  jobBucket?: IBucket,
): void {
  const existing = [
    { name: 'requestQueue', resource: requestQueue, how: QUEUE, actions: ['kms:Decrypt'] },
    { name: 'stores.resultQueue', resource: stores.resultQueue, how: QUEUE, actions: READ_AND_WRITE },
    { name: 'stores.resultTable', resource: stores.resultTable, how: TABLE, actions: OF_TABLE },
    { name: 'stores.resultBucket', resource: stores.resultBucket, how: BUCKET, actions: ['kms:GenerateDataKey'] },
    { name: 'payloadBucket', resource: payloadBucket, how: BUCKET, actions: READ_AND_WRITE },
    { name: 'jobs.bucket', resource: jobBucket, how: BUCKET, actions: READ_AND_WRITE },
  ];
  for (const { name, resource, how, actions } of existing) {
    if (!isKeyUnknown(resource)) continue;
    const statement = new PolicyStatement({ actions, resources: ['KEY_ARN'] });
    warn(
      scope,
      'unknownKey',
      `${name}: expected to know the key that it is encrypted with, got an imported one without; if it has a key of its ` +
        `own, import it with ${how}, or add this to the function's role: ${statementText(scope, statement)}`,
      { resource: name },
    );
  }
}

const QUEUE = 'Queue.fromQueueAttributes and keyArn';
const TABLE = 'Table.fromTableAttributes and encryptionKey';
const BUCKET = 'Bucket.fromBucketAttributes and encryptionKey';

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html */
const READ_AND_WRITE = ['kms:Decrypt', 'kms:GenerateDataKey'];
/** @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html */
const OF_TABLE = ['kms:Decrypt', 'kms:DescribeKey', 'kms:Encrypt', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'];

/** Without dead letters a message that ends its host comes back, with those beside it, until it expires. */
export function warnOfNoDeadLetters(
  scope: Construct,
  { deadLetterQueue }: RequestQueues,
  maxReceiveCount: number,
): void {
  if (deadLetterQueue !== undefined) return;
  const policy = JSON.stringify({ deadLetterTargetArn: 'DEAD_LETTER_QUEUE_ARN', maxReceiveCount });
  warn(
    scope,
    'noDeadLetters',
    'requestQueue: expected a queue with dead letters, because a message that can never be scored comes back until it ' +
      `expires, got one of which none are known; give deadLetterQueue, and the queue the redrive policy ${policy}`,
  );
}

/** A model repository in S3, which hosts fetch when they start. */
export interface S3Models {
  /** `s3://bucket/prefix/<digest>`, as `batchscore publish` printed it. */
  readonly uri: string;
  /**
   * The bucket of the URI, so that its policy and its key grant what reading takes.
   * @default one whose objects are encrypted with a key of S3, or of AWS
   */
  readonly bucket?: IBucket;
}

/** A model repository in a file system, which the function mounts and may not write to: `lambdaCompute` with a `vpc`. */
export interface EfsModels {
  /** One that exists is `AccessPoint.fromAccessPointAttributes`, with its file system. */
  readonly accessPoint: IAccessPoint;
  /** The repository's folder below the access point, such as `releases/42`: another one is another deployment. @default its root */
  readonly folder?: string;
}

/** Where models are: a folder that is built into the image, S3, or a file system. Text with `s3://` is S3. */
export type Models = string | S3Models | EfsModels;

/** One of the three. */
export interface ModelPlace {
  readonly folder?: string;
  readonly s3?: ModelsUri & { readonly bucketOfUri?: IBucket | undefined };
  readonly efs?: EfsModels;
}

/** @throws Error when a URI has no digest */
export function placeOfModels(models: Models | undefined): ModelPlace {
  if (models === undefined) return {};
  if (typeof models === 'string') return isS3Uri(models) ? { s3: readModelsUri(models) } : { folder: models };
  if ('accessPoint' in models) return { efs: models };
  return { s3: { ...readModelsUri(models.uri), bucketOfUri: models.bucket } };
}

/** Where a function has the file system: Lambda takes no place outside `/mnt/`. */
export const MOUNT_PATH = '/mnt/models';

/** Where a host finds the repository that it mounts. */
export function mountedFolder({ folder }: EfsModels): string {
  return folder === undefined ? MOUNT_PATH : `${MOUNT_PATH}/${folder}`;
}
