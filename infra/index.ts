// What the package exports as `batchscore/infra`.

export type { LogLevel } from '../lambda/core/limits.ts';
export type { MetricName } from '../lambda/core/observer.ts';

export type { Compute, ComputeForm, FunctionCompute } from './compute/compute.ts';
export { type EcsGpuOptions, type EcsOptions, ecsCompute, ecsGpuCompute } from './compute/ecsCompute.ts';
export {
  type GpuCompute,
  type LambdaGpuOptions,
  type LambdaOptions,
  lambdaCompute,
  lambdaGpuCompute,
} from './compute/lambdaCompute.ts';
export type { FunctionResources, MoreFunctionProps } from './compute/scoringFunction.ts';
export type { ServiceOptions } from './compute/serviceOptions.ts';
export type { ServiceCompute } from './compute/workerService.ts';
export { BatchScoring } from './constructs/batchScoring.ts';
export { ValidationError } from './constructs/problems.ts';
export type {
  AlarmThresholds,
  BatchScoringProps,
  CaptureOptions,
  EfsModels,
  ExistingQueue,
  Models,
  MoreQueueProps,
  MoreTableProps,
  ResultStore,
  ResultStores,
  S3Models,
  Tuning,
} from './constructs/props.ts';
export type { ContainerImage, ImageBuild } from './image/containerImage.ts';
export type { JobOptions } from './jobs/jobOptions.ts';
export type { Jobs } from './jobs/scoringJobs.ts';
