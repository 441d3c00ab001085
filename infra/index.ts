// What the package exports as `batchscore/infra`.
export type { MetricName } from '../lambda/core/contract/metricNames.ts';
export type { LogLevel } from '../lambda/limits/configuration.ts';
export type { AlarmThresholds } from './constructs/base/alarmThresholds.ts';
export { PRICES, type Prices } from './constructs/base/prices.ts';
export { BatchScoring } from './constructs/batchScoring.ts';
export type { AlarmCondition, Compute, ComputeForm, Graph, Wiring } from './constructs/compute/compute.ts';
export { type LambdaOptions, lambdaCompute } from './constructs/compute/lambda.ts';
export { type LambdaGpuOptions, lambdaGpuCompute } from './constructs/compute/lambdaGpu.ts';
export type { Tuning } from './constructs/environment/tuning.ts';
export type { ContainerImage, ImageTarget } from './constructs/image/image.ts';
export type { ImageBuild } from './constructs/image/imageBuild.ts';
export type { BatchScoringProps } from './constructs/props.ts';
export type { ExistingQueue } from './constructs/storage/requestQueue.ts';
export type { ResultStore, ResultStores } from './constructs/storage/resultStores.ts';
