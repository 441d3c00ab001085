export type { Datatype, TensorData, TypedArray } from '../lambda/core/tensor.ts';
export { ScoringError } from './clientErrors.ts';
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
