import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';

/**
 * The right to get objects, and to list them: without it, S3 answers a request for a missing object with "forbidden"
 * instead of "not found". For that question the key itself counts as the prefix that is listed.
 *
 * @param keys what the keys begin with that may be read, such as `results/`
 * @see https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
 */
export function grantRead(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  const list = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:ListBucket'],
    resourceArns: [bucket.bucketArn],
    resource: bucket,
    conditions: { StringLike: { 's3:prefix': patternOf(keys) } },
  });
  return list.combine(grantGet(grantee, bucket, keys));
}

/** The right to get objects and to decrypt them, and nothing else. */
export function grantGet(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  bucket.encryptionKey?.grantDecrypt(grantee);
  return Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:GetObject'],
    resourceArns: [bucket.arnForObjects(patternOf(keys))],
    resource: bucket,
  });
}

/**
 * The right to put objects in one piece. In several pieces they could not be put with a key of one's own: for that S3
 * asks for `kms:Decrypt` too.
 *
 * @param keys what the keys begin with that may be written, such as `requests/`
 * @see https://repost.aws/knowledge-center/s3-large-file-encryption-kms-key
 */
export function grantPut(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  bucket.encryptionKey?.grant(grantee, 'kms:GenerateDataKey');
  return Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:PutObject'],
    resourceArns: [bucket.arnForObjects(patternOf(keys))],
    resource: bucket,
  });
}

/** In policies, of all keys that begin so. */
export function patternOf(keys: string): string {
  return `${keys}*`;
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
