import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { acknowledgeWildcard } from '../base/acknowledge.ts';
import type { ModelPlace } from '../storage/models.ts';
import { grantGet, patternOf } from './grants.ts';

/** The right to get the objects of one published repository, and no others. */
export function grantModels(scope: Construct, grantee: IGrantable, { s3 }: ModelPlace): void {
  if (s3 === undefined) return;
  const bucket = s3.bucketOfUri ?? Bucket.fromBucketName(scope, 'Models', s3.bucket);
  const keys = `${s3.folder}/`;
  grantGet(grantee, bucket, keys);
  const objects = bucket.arnForObjects(patternOf(keys));
  acknowledgeWildcard(scope, objects, 'These are the files of one model repository, which only its manifest lists');
}
