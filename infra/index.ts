// What the package exports as `batchscore/infra`.

export type { LogLevel } from '../lambda/core/limits.ts';
export type { MetricName } from '../lambda/core/metricNames.ts';
export type { AlarmThresholds } from './constructs/base/alarmThresholds.ts';
export type { Batching } from './constructs/base/batching.ts';
export { createLogGroup, type LogGroupOptions } from './constructs/base/logGroup.ts';
export { PERIOD } from './constructs/base/period.ts';
export { PRICES, type Prices } from './constructs/base/prices.ts';
export type { Problem } from './constructs/base/refuse.ts';
export { BatchScoring } from './constructs/batchScoring.ts';
export { type Concurrency, concurrencyProblems } from './constructs/checks/concurrency.ts';
export type { Rollout } from './constructs/checks/rollout.ts';
export type {
  AlarmCondition,
  Compute,
  ComputeForm,
  FunctionCompute,
  Graph,
  Wiring,
} from './constructs/compute/compute.ts';
export { type Feed, feedFromQueues, grantSwitch } from './constructs/compute/eventSource.ts';
export { functionCost, type PricedFunction } from './constructs/compute/functionCost.ts';
export { functionAlarms, functionGraph } from './constructs/compute/functionMonitoring.ts';
export type { FunctionNetwork } from './constructs/compute/functionNetwork.ts';
export { type LambdaOptions, lambdaCompute } from './constructs/compute/lambda.ts';
export { type GpuCompute, type LambdaGpuOptions, lambdaGpuCompute } from './constructs/compute/lambdaGpu.ts';
export { leastVisibility } from './constructs/compute/leastVisibility.ts';
export {
  createScoringFunction,
  type FunctionResources,
  type ScoringFunctionOptions,
} from './constructs/compute/scoringFunction.ts';
export { type EcsOptions, ecsCompute } from './constructs/ecs/ecs.ts';
export { type EcsGpuOptions, ecsGpuCompute } from './constructs/ecs/ecsGpu.ts';
export type { ServiceCompute } from './constructs/ecs/service.ts';
export type { ServiceOptions } from './constructs/ecs/serviceOptions.ts';
export type { Tuning } from './constructs/environment/tuning.ts';
export type { ContainerImage, ImageTarget } from './constructs/image/image.ts';
export type { ImageBuild } from './constructs/image/imageBuild.ts';
export type { Jobs } from './constructs/jobs/jobs.ts';
export type { JobOptions } from './constructs/jobs/options.ts';
export type { BatchScoringProps } from './constructs/props.ts';
export type { EfsModels, ModelPlace, Models, S3Models } from './constructs/storage/models.ts';
export type { ExistingQueue, Queues } from './constructs/storage/requestQueue.ts';
export type { ResultStore, ResultStores } from './constructs/storage/resultStores.ts';
