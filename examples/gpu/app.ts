import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import { BatchScoring, lambdaGpuCompute } from 'batchscore/infra';

const app = new App();
const stack = new Stack(app, 'GpuScoring');

/** Embeddings in bulk: GPUs start when a backlog comes and end when it is done, and nothing is paid in between. */
const scoring = new BatchScoring(stack, 'Embeddings', {
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
  largestMessage: Size.bytes(3000),
  // Waking a GPU takes minutes.
  latencyTarget: Duration.minutes(15),
  results: ['bucket'],
  tuning: { maxBatchRows: 256 },
});
scoring.addClientOutputs();
