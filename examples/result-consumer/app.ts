import { fileURLToPath } from 'node:url';
import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import { Architecture, Runtime } from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import { BatchScoring, lambdaCompute } from 'batchscore/infra';

const CONSUMER_TIMEOUT_SECONDS = 20;

// A queue of results with dead letters of its own, as a consumer may fail on a result. Six timeouts, as AWS asks for.
const app = new App();
const stack = new Stack(app, 'Scores');
const deadResults = new Queue(stack, 'DeadResults', { encryption: QueueEncryption.SQS_MANAGED, enforceSSL: true });
const results = new Queue(stack, 'Results', {
  encryption: QueueEncryption.SQS_MANAGED,
  enforceSSL: true,
  visibilityTimeout: Duration.seconds(6 * CONSUMER_TIMEOUT_SECONDS),
  deadLetterQueue: { queue: deadResults, maxReceiveCount: 5 },
});

// SQS bills 64 KiB as one request, so a message holds as many results as fit.
const scoring = new BatchScoring(stack, 'Digits', {
  models: 'models',
  defaultModel: 'digits',
  compute: lambdaCompute({ memorySize: Size.mebibytes(3008), timeout: Duration.seconds(30) }),
  batchSize: 500,
  window: Duration.seconds(5),
  stores: { resultQueue: results },
  resultsPerMessage: 10_000,
});

const consumer = new NodejsFunction(stack, 'Consumer', {
  entry: fileURLToPath(new URL('consumer.ts', import.meta.url)),
  runtime: Runtime.NODEJS_22_X,
  architecture: Architecture.ARM_64,
  timeout: Duration.seconds(CONSUMER_TIMEOUT_SECONDS),
  environment: { PAYLOAD_BUCKET: scoring.payloadBucket.bucketName },
  // Within this repository the package is not built yet: its sources are bundled. Leave it out in an app of your own.
  bundling: { esbuildArgs: { '--conditions': 'batchscore-source' } },
});
consumer.addEventSource(new SqsEventSource(results, { batchSize: 10, reportBatchItemFailures: true }));
scoring.grantCollect(consumer);
