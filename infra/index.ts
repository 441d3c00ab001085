// What the package exports as `batchscore/infra`.

export type { LogLevel } from '../lambda/core/limits.ts';
export type { MetricName } from '../lambda/core/observer.ts';

export type {
  AlarmCondition,
  Batching,
  Compute,
  ComputeForm,
  FunctionCompute,
  Graph,
  Wiring,
} from './compute/compute.ts';
export { type EcsGpuOptions, type EcsOptions, ecsCompute, ecsGpuCompute } from './compute/ecsCompute.ts';
export {
  type Concurrency,
  concurrencyProblems,
  type Feed,
  feedFromQueues,
  grantSwitch,
  minVisibility,
} from './compute/eventSource.ts';
export {
  type GpuCompute,
  type LambdaGpuOptions,
  type LambdaOptions,
  lambdaCompute,
  lambdaGpuCompute,
} from './compute/lambdaCompute.ts';
export type { FunctionNetwork, Rollout } from './compute/scoringFunction.ts';
export {
  createScoringFunction,
  type FunctionResources,
  functionAlarms,
  functionCost,
  functionGraph,
  type MoreFunctionProps,
  type PricedFunction,
  type ScoringFunctionOptions,
} from './compute/scoringFunction.ts';
export type { ServiceOptions } from './compute/serviceOptions.ts';
export type { ServiceCompute } from './compute/workerService.ts';
export { BatchScoring } from './constructs/batchScoring.ts';
export type { Queues } from './constructs/channels.ts';
export { createLogGroup, type LogGroupOptions } from './constructs/created.ts';
export type { ModelPlace } from './constructs/existingThings.ts';
export { type Problem, ValidationError } from './constructs/problems.ts';
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
export type { ContainerImage, ImageBuild, ImageTarget } from './image/containerImage.ts';
export type { JobOptions } from './jobs/jobOptions.ts';
export type { Jobs } from './jobs/scoringJobs.ts';
export { PERIOD } from './monitoring/scoringMetrics.ts';
export { PRICES, type Prices } from './priceList.ts';
