// FIFO queues: the requests of a message group are scored in order, and their results keep it.
import { App, Duration, Stack } from 'aws-cdk-lib';
import { BatchScoring, lambdaCompute } from '../infra/index.ts';

const app = new App();
const stack = new Stack(app, 'Fifo');

const scoring = new BatchScoring(stack, 'Scoring', {
  models: 'models',
  defaultModel: 'digits',
  fifo: true, // At most ten messages in a batch, and no window.
  compute: lambdaCompute({ timeout: Duration.seconds(30) }),
  results: ['queue', 'table'],
});
scoring.addClientOutputs();
