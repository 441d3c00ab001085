// Workers on GPUs, on instances that ECS chooses, starts and stops (Managed Instances).
import { App, Duration, Size, Stack } from 'aws-cdk-lib';
import { BatchScoring, ecsGpuCompute } from '../infra/index.ts';

const app = new App();
const stack = new Stack(app, 'EcsGpu');

const scoring = new BatchScoring(stack, 'Scoring', {
  models: 'models',
  defaultModel: 'tickets',
  compute: ecsGpuCompute({
    gpuMemory: Size.gibibytes(16),
    minimumTasks: 0, // Scales to zero. Waking takes minutes; 1 keeps a GPU running.
    maximumTasks: 4,
  }),
  batchSize: 1000,
  window: Duration.millis(50),
});
scoring.addClientOutputs();
