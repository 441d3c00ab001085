// A request queue that the app has already, with its dead letters.
import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { BatchScoring, lambdaCompute } from '../infra/index.ts';

const app = new App();
const stack = new Stack(app, 'ExistingQueue');
// SQS counts from the first send, so dead letters must be kept longer than the four days of the queue itself.
const deadOrders = new Queue(stack, 'DeadOrders', { enforceSSL: true, retentionPeriod: Duration.days(14) });
const visibilityTimeout = Duration.seconds(200);
const orders = new Queue(stack, 'Orders', {
  enforceSSL: true,
  visibilityTimeout,
  deadLetterQueue: { queue: deadOrders, maxReceiveCount: 20 },
});

const scoring = new BatchScoring(stack, 'Scoring', {
  models: 'models',
  defaultModel: 'digits',
  requestQueue: { queue: orders, visibilityTimeout },
  // AWS recommends 6 × timeout + window, here 6 × 30 s + 5 s = 185 s, as the visibility timeout at least.
  compute: lambdaCompute({ memorySize: Size.mebibytes(3008), timeout: Duration.seconds(30) }),
  batchSize: 500,
  window: Duration.seconds(5),
  results: ['table'],
});
scoring.addClientOutputs();
