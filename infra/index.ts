// Exports of the package as `batchscore/infra`.

export type { LogLevel } from '../lambda/core/limits.ts';
export type { MetricName } from '../lambda/core/observer.ts';
export type { EfsModels, Models, S3Models } from './common/models.ts';
export { ValidationError } from './common/problems.ts';
export type { Compute, ComputeForm, FunctionCompute } from './compute/compute.ts';
export { type EcsOptions, ecsCompute } from './compute/ecsCompute.ts';
export { type EcsGpuOptions, ecsGpuCompute } from './compute/ecsGpuCompute.ts';
export { type LambdaOptions, lambdaCompute } from './compute/lambdaCompute.ts';
export { type GpuCompute, type LambdaGpuOptions, lambdaGpuCompute } from './compute/lambdaGpuCompute.ts';
export type { FunctionResources, MoreFunctionProps } from './compute/scoringFunction.ts';
export type { ServiceOptions } from './compute/serviceOptions.ts';
export type { ServiceCompute } from './compute/workerService.ts';
export { BatchScoring } from './constructs/batchScoring.ts';
export type {
  BatchScoringProps,
  CaptureOptions,
  ExistingQueue,
  MoreQueueProps,
  ResultStore,
  ResultStores,
  Tuning,
} from './constructs/props.ts';
export type { ContainerImage, ImageBuild } from './image/containerImage.ts';
export type { JobOptions } from './jobs/jobOptions.ts';
export type { Jobs } from './jobs/scoringJobs.ts';
export type { AlarmThresholds } from './monitoring/alarms.ts';
export type { BucketStoreProps } from './stores/bucketStore.ts';
export type { QueueStoreProps } from './stores/queueStore.ts';
export type { MoreTableProps, TableStoreProps } from './stores/tableStore.ts';
