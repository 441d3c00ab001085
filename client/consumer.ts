export type { Datatype, TensorData, TypedArray } from '../lambda/core/tensor.ts';
export { ScoringError } from './base/errors.ts';
export {
  type ConsumeOptions,
  type ConsumeResult,
  consumeResults,
  type Delivery,
  type ResultEvent,
  type ResultResponse,
  type S3Reader,
} from './consume/consumeResults.ts';
export type {
  FailedResult,
  OutputsResult,
  OutputTensor,
  OutputTensors,
  PredictionsResult,
  SingleResult,
  TransformResult,
} from './result/result.ts';
