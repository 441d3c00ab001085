export type { Datatype, Datatype, TensorData, TensorData, TypedArray, TypedArray } from '../lambda/core/tensor.ts';
export { ScoringError, ScoringError } from './clientErrors.ts';
export {
  type ConsumeOptions,
  type ConsumeResult,
  consumeResults,
  type Delivery,
  type ResultEvent,
  type ResultResponse,
  type S3Reader,
} from './consumeResults.ts';
export type {
  FailedResult,
  OutputsResult,
  OutputTensor,
  OutputTensors,
  PredictionsResult,
  SingleResult,
  TransformResult,
} from './readResult.ts';
