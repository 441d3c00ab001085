import { App, Stack } from 'aws-cdk-lib';
import { BatchScoring, lambdaGpuCompute } from 'batchscore/infra';

const app = new App();
const stack = new Stack(app, 'GpuScoring');

/** Embeddings in bulk: GPUs start when a backlog comes and end when it is done, and nothing is paid in between. */
const scoring = new BatchScoring(stack, 'Embeddings', {
  models: 'models',
  defaultModel: 'tickets',
  compute: lambdaGpuCompute({
    gpuMemoryGiB: 24,
    memoryMb: 8192,
    timeoutSeconds: 300,
    minimumEnvironments: 0,
    maximumEnvironments: 4,
  }),
  batchSize: 2000,
  windowSeconds: 30,
  largestMessageBytes: 3000,
  // Waking a GPU takes minutes.
  latencyTargetSeconds: 900,
  results: ['bucket'],
  tuning: { maxBatchRows: 256 },
});
scoring.addClientOutputs();
