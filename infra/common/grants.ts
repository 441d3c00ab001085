import type { IEventBus } from 'aws-cdk-lib/aws-events';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { type ITopic, TopicBase } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';
import { acknowledgeWildcard } from './nag.ts';

/**
 * Grants the right to get and list objects. Without the right to list, S3 answers a request for a missing object with
 * "forbidden" instead of "not found". In that check, the object's key counts as the listed prefix.
 *
 * @param keys prefix of the keys that may be read, such as `results/`
 * @see https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
 */
export function grantRead(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  const list = Grant.addToPrincipalOrResource({
    grantee,
    actions: ['s3:ListBucket'],
    resourceArns: [bucket.bucketArn],
    resource: bucket,
    conditions: { StringLike: { 's3:prefix': `${keys}*` } },
  });
  return list.combine(grantGet(grantee, bucket, keys));
}

/** Grants only the right to get objects and to decrypt them. */
export function grantGet(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  bucket.encryptionKey?.grantDecrypt(grantee);
  return grantObjects(grantee, bucket, ['s3:GetObject'], [`${keys}*`]);
}

/**
 * Grants the right to put objects in a single upload. A multipart upload with a customer managed key would also need
 * `kms:Decrypt`.
 *
 * @param keys prefix of the keys that may be written, such as `requests/`
 * @see https://repost.aws/knowledge-center/s3-large-file-encryption-kms-key
 */
export function grantPut(grantee: IGrantable, bucket: IBucket, keys: string): Grant {
  bucket.encryptionKey?.grant(grantee, 'kms:GenerateDataKey');
  return grantObjects(grantee, bucket, ['s3:PutObject'], [`${keys}*`]);
}

/** @param patterns of the keys, in the syntax of policies */
export function grantObjects(
  grantee: IGrantable,
  bucket: IBucket,
  actions: string[],
  patterns: readonly string[],
): Grant {
  const resourceArns = patterns.map((pattern) => bucket.arnForObjects(pattern));
  const { grantPrincipal } = grantee;
  if (Construct.isConstruct(grantPrincipal)) {
    for (const arn of resourceArns) acknowledgeWildcard(grantPrincipal, arn, 'objects');
  }
  return Grant.addToPrincipalOrResource({ grantee, actions, resourceArns, resource: bucket });
}

export function allow(grantee: IGrantable, actions: string[], resources: readonly string[]): Grant {
  return Grant.addToPrincipal({ grantee, actions, resourceArns: [...resources] });
}

/** Grants the right to send events to a bus or a topic, whose key must be known. */
export function grantTell(grantee: IGrantable, events: IEventBus | ITopic): void {
  allow(grantee, ['eventBusArn' in events ? 'events:PutEvents' : 'sns:Publish'], [arnOfEvents(events)]);
  if (events instanceof TopicBase) events.masterKey?.grant(grantee, 'kms:Decrypt', 'kms:GenerateDataKey*');
}

export function arnOfEvents(events: IEventBus | ITopic): string {
  return 'eventBusArn' in events ? events.eventBusArn : events.topicArn;
}

export function combine(grants: readonly Grant[]): Grant {
  return grants.reduce((all, grant) => all.combine(grant));
}
