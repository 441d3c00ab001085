import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { BatchScoring, lambdaCompute } from 'batchscore/infra';

const app = new App();
const stack = new Stack(app, 'Clicks');
const tracker = new Role(stack, 'Tracker', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') });

// Four request queues behind one function. Each may have 120,000 messages in flight, here 500 × 240 at the most, and its
// mapping starts with five invocations and adds 300 a minute. The account needs a concurrency quota of 960 for this alone.
const scoring = new BatchScoring(stack, 'Scores', {
  models: 'models',
  defaultModel: 'digits',
  shards: 4,
  compute: lambdaCompute({ memorySize: Size.mebibytes(3008), timeout: Duration.seconds(30), maximumConcurrency: 960 }),
  batchSize: 500,
  window: Duration.seconds(2),
  resultsPerMessage: 'fill',
});

// The permission is for all four queues; the output `requestQueueUrl` names them all, and the client takes it as it is.
scoring.grantSubmit(tracker);
scoring.addClientOutputs();
