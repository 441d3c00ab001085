import { Stack, Validations } from 'aws-cdk-lib';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { EventType, type IBucket } from 'aws-cdk-lib/aws-s3';
import { LambdaDestination } from 'aws-cdk-lib/aws-s3-notifications';

/** The CDK's function that writes the notifications of a stack's buckets: one for all. */
const HANDLER = 'BucketNotificationsHandler050a0587b7544547bf325f094a3db834';

const OF_HANDLER = {
  'AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]':
    'The CDK gives its function for notifications the managed policy to write its log',
  'AwsSolutions-IAM5[Resource::*]':
    'That function reads the notifications of existing buckets, by names that it is told',
  'AwsSolutions-L1': 'The CDK chooses the runtime of its function for notifications',
};

/**
 * Has S3 tell a function of every file that is put under a prefix. Other notifications of an existing bucket stay.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/EventNotifications.html
 */
export function notifyOfFiles(bucket: IBucket, prefix: string, target: IFunction): void {
  bucket.addEventNotification(EventType.OBJECT_CREATED, new LambdaDestination(target), { prefix });
  const handler = Stack.of(bucket).node.tryFindChild(HANDLER);
  if (handler === undefined) return;
  for (const [id, reason] of Object.entries(OF_HANDLER)) Validations.of(handler).acknowledge({ id, reason });
}
