export type { Datatype, TensorData, TypedArray } from '../lambda/core/datatype.ts';
export { Batchscore } from './batchscore.ts';
export type { CollectOptions } from './collect.ts';
export { type ClientCode, CollectTimeoutError, RequestError, ScoringError, SubmitError } from './errors.ts';
export type { BatchscoreOptions } from './options.ts';
export type {
  ArrayInput,
  Encoding,
  InputTensor,
  NestedArray,
  RawRequest,
  Routing,
  Scalar,
  ScoreRequest,
  TensorRequest,
  TypedInput,
} from './request.ts';
export type {
  FailedResult,
  OutputsResult,
  OutputTensor,
  OutputTensors,
  PackedResult,
  PredictionsResult,
  ScoringResult,
  SingleResult,
  TransformResult,
} from './result.ts';
export type { ScoreOptions } from './score.ts';
export type { SubmitOptions, SubmitProgress } from './submit.ts';
