import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { acknowledgeWildcard } from '../base/acknowledge.ts';
import type { ModelPlace } from '../storage/models.ts';

/** The right to get the objects of one published repository, and no others. */
export function grantModels(scope: Construct, grantee: IGrantable, { s3 }: ModelPlace): void {
  if (s3 === undefined) return;
  const bucket = s3.bucketOfUri ?? Bucket.fromBucketName(scope, 'Models', s3.bucket);
  const objects = bucket.arnForObjects(`${s3.folder}/*`);
  bucket.encryptionKey?.grantDecrypt(grantee);
  Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:GetObject'],
    resourceArns: [objects],
    resource: bucket,
  });
  acknowledgeWildcard(scope, objects, 'These are the files of one model repository, which only its manifest lists');
}
