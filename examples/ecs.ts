// Workers on Fargate, which poll the queue themselves. They scale with the backlog, down to no task.
import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import { BatchScoring, ecsCompute } from '../infra/index.ts';

const app = new App();
const stack = new Stack(app, 'Ecs');

const scoring = new BatchScoring(stack, 'Scoring', {
  models: 'models',
  defaultModel: 'digits',
  compute: ecsCompute({ vcpus: 2, memorySize: Size.gibibytes(4), maximumTasks: 8 }),
  window: Duration.millis(200), // The window of a worker may be a fraction of a second.
  results: ['table'],
});
scoring.addClientOutputs();
