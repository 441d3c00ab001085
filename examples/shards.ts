// Four request queues behind one function, for more messages in flight than the 120,000 of one queue.
import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { BatchScoring, lambdaCompute } from '../infra/index.ts';

const app = new App();
const stack = new Stack(app, 'Shards');
const producer = new Role(stack, 'Producer', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') });

const scoring = new BatchScoring(stack, 'Scoring', {
  models: 'models',
  defaultModel: 'digits',
  shards: 4,
  // 240 invocations for each queue. The account needs a concurrency quota of 960 for this function alone.
  compute: lambdaCompute({ memorySize: Size.mebibytes(3008), timeout: Duration.seconds(30), maximumConcurrency: 240 }),
  batchSize: 500,
  window: Duration.seconds(2),
  resultsPerMessage: 10_000,
});

// The permission covers all four queues. The output `requestQueueUrl` lists them, and the client takes it as it is.
scoring.grantSubmit(producer);
scoring.addClientOutputs();
