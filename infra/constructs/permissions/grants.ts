import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';

/** Pattern of every object's key. */
export const ANY_KEY = '*';

/**
 * The right to get objects, and to list them: without it, S3 answers a request for a missing object with "forbidden"
 * instead of "not found".
 */
export function grantRead(grantee: IGrantable, bucket: IBucket): Grant {
  bucket.encryptionKey?.grantDecrypt(grantee);
  const list = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:ListBucket'],
    resourceArns: [bucket.bucketArn],
    resource: bucket,
  });
  const get = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:GetObject'],
    resourceArns: [bucket.arnForObjects(ANY_KEY)],
    resource: bucket,
  });
  return list.combine(get);
}

/** @param keys pattern of the keys that may be written, such as `payloads/*` */
export function grantPut(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  bucket.encryptionKey?.grantEncryptDecrypt(grantee);
  return Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:PutObject'],
    resourceArns: [bucket.arnForObjects(keys)],
    resource: bucket,
  });
}

/** The right to write items, and to encrypt them. */
export function grantTableWrite(grantee: IGrantable, table: ITable): Grant {
  table.encryptionKey?.grantEncryptDecrypt(grantee);
  return table.grant(grantee, 'dynamodb:BatchWriteItem');
}

/** The right to read items by their keys, and to decrypt them. */
export function grantTableRead(grantee: IGrantable, table: ITable): Grant {
  table.encryptionKey?.grantDecrypt(grantee);
  return table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:BatchGetItem');
}
