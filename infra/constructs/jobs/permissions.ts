import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { acknowledgeWildcard } from '../base/acknowledge.ts';
import { grantPut, grantRead, patternOf } from '../permissions/grants.ts';
import type { Keys } from '../permissions/keyPermissions.ts';
import { isKeyUnknown } from '../storage/known.ts';
import type { StateMachineNames } from './names.ts';

/** Where jobs read and write. */
export interface JobPlaces {
  readonly bucket: IBucket;
  readonly inputPrefix: string;
  readonly outputPrefix: string;
}

/** What both functions need: read files, read and write what jobs write, and their environment's key. */
export function grantJobs(scope: Construct, grantee: IGrantable, places: JobPlaces, keys: Keys): void {
  const { bucket, inputPrefix, outputPrefix } = places;
  grantRead(grantee, bucket, inputPrefix);
  grantRead(grantee, bucket, outputPrefix);
  grantPut(grantee, bucket, outputPrefix);
  keys.encryptionKey?.grantDecrypt(grantee);
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  grantUnknownKey(grantee, bucket, keys.encryptionKey);
  for (const prefix of [inputPrefix, outputPrefix]) {
    acknowledgeWildcard(scope, bucket.arnForObjects(patternOf(prefix)), 'Files and jobs have keys of their own');
  }
}

/** What of a job is removed when it is resumed: what ended it before. */
const OF_AN_END = ['manifest.json', 'failure.json', 'cancelled', 'failed/*'];

/** The right to resume jobs, which removes what ended them, and nothing that was scored. */
export function grantResume(scope: Construct, grantee: IGrantable, { bucket, outputPrefix }: JobPlaces): void {
  const resourceArns = OF_AN_END.map((name) => bucket.arnForObjects(`${outputPrefix}*/${name}`));
  Grant.addToPrincipalOrResource({ grantee, actions: ['s3:DeleteObject'], resourceArns, resource: bucket });
  for (const arn of resourceArns) acknowledgeWildcard(scope, arn, 'Every job has a folder of its own');
}

/** The right to start executions of the state machine, and nothing else. */
export function grantStart(grantee: IGrantable, { arn }: StateMachineNames): Grant {
  return Grant.addToPrincipal({ grantee, actions: ['states:StartExecution'], resourceArns: [arn] });
}

/**
 * What someone needs who submits jobs: put files, start jobs and look at them, fetch what they wrote, and cancel them,
 * which leaves a mark in the job's folder that resuming removes.
 */
export function grantSubmitJobs(
  grantee: IGrantable,
  { bucket, inputPrefix, outputPrefix }: JobPlaces,
  names: StateMachineNames,
  keys: Keys,
): Grant {
  const [executions] = names.executions;
  const grants = [
    grantRead(grantee, bucket, inputPrefix),
    grantPut(grantee, bucket, inputPrefix),
    grantRead(grantee, bucket, outputPrefix),
    Grant.addToPrincipalOrResource({
      grantee,
      actions: ['s3:PutObject'],
      resourceArns: [bucket.arnForObjects(`${outputPrefix}*/cancelled`)],
      resource: bucket,
    }),
    grantStart(grantee, names),
    Grant.addToPrincipal({
      grantee,
      actions: ['states:DescribeExecution', 'states:StopExecution'],
      resourceArns: executions === undefined ? [] : [executions],
    }),
  ];
  // What an execution was given and answered is encrypted with the state machine's key.
  keys.encryptionKey?.grantDecrypt(grantee);
  keys.formerEncryptionKey?.grantDecrypt(grantee);
  grantUnknownKey(grantee, bucket, keys.encryptionKey);
  return grants.reduce((all, grant) => all.combine(grant));
}

/** An existing bucket whose key the CDK does not know is taken to have the deployment's. */
export function grantUnknownKey(grantee: IGrantable, bucket: IBucket, key: IKey | undefined): void {
  if (isKeyUnknown(bucket)) key?.grantEncryptDecrypt(grantee);
}
