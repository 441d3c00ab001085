export type { Datatype, TensorData, TypedArray } from '../lambda/core/tensor.ts';
export { ScoringError } from './clientErrors.ts';
export {
  type ConsumeOptions,
  type ConsumeResult,
  consumeResults,
  type Delivery,
  type ResultEvent,
  type ResultResponse,
} from './consumeResults.ts';
export type {
  FailedResult,
  OutputsResult,
  OutputTensor,
  OutputTensors,
  PredictionsResult,
  S3Reader,
  SingleResult,
  TransformResult,
} from './readResult.ts';
