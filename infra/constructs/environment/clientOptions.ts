import { Stack } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { type Channels, urlsOf } from '../storage/channels.ts';
import type { RequestQueues } from '../storage/requestQueue.ts';

/** Where everything is, by the names of the client's options, which the commands' `--stack` file uses as well. */
export function clientOptionsOf(
  scope: Construct,
  { deadLetterQueue }: RequestQueues,
  { requestQueues, stores, payloadBucket, payloadPrefix, resultPrefix }: Channels,
): Record<string, string> {
  const { resultQueue, resultTable, resultBucket } = stores;
  return {
    requestQueueUrl: urlsOf(requestQueues),
    ...(deadLetterQueue !== undefined && { deadLetterQueueUrl: deadLetterQueue.queueUrl }),
    ...(resultQueue !== undefined && { resultQueueUrl: resultQueue.queueUrl }),
    ...(resultTable !== undefined && { resultTable: resultTable.tableName }),
    ...(resultBucket !== undefined && { resultBucket: resultBucket.bucketName }),
    ...(resultPrefix !== '' && { resultPrefix }),
    payloadBucket: payloadBucket.bucketName,
    ...(payloadPrefix !== '' && { payloadPrefix }),
    region: Stack.of(scope).region,
  };
}
