// A function on GPUs, on Lambda Managed Instances. GPUs start when a backlog comes and stop when it is done.
import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import { BatchScoring, lambdaGpuCompute } from '../infra/index.ts';

const app = new App();
const stack = new Stack(app, 'GpuFunction');

const scoring = new BatchScoring(stack, 'Scoring', {
  models: 'models',
  defaultModel: 'tickets',
  compute: lambdaGpuCompute({
    gpuMemory: Size.gibibytes(24),
    memorySize: Size.gibibytes(8),
    timeout: Duration.minutes(5),
    minimumEnvironments: 0,
    maximumEnvironments: 4,
  }),
  batchSize: 2000,
  window: Duration.seconds(30),
  latencyTarget: Duration.minutes(15), // Waking a GPU takes minutes.
  results: ['bucket'],
  tuning: { maxBatchRows: 256 },
});
scoring.addClientOutputs();
