export type {
  BatchHook,
  Transform,
  TransformBody,
  TransformContext,
  TransformInput,
  TransformOutputs,
} from '../lambda/core/model.ts';
export type { Datatype, TensorData, TypedArray } from '../lambda/core/tensor.ts';
export { Batchscore } from './batchscore.ts';
export { type ClientCode, CollectTimeoutError, RequestError, ScoringError, SubmitError } from './clientErrors.ts';
export type { JobOptions, JobStatus, Jobs, ResultObject, SubmittedJob, WaitOptions } from './clientJobs.ts';
export type { BatchscoreOptions } from './clientOptions.ts';
export type { CollectOptions } from './collect.ts';
export type {
  ArrayInput,
  Encoding,
  InputTensor,
  NestedArray,
  PlainInput,
  RawRequest,
  Routing,
  Scalar,
  ScoreRequest,
  TensorRequest,
  TypedInput,
} from './encodeRequest.ts';
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
} from './readResult.ts';
export type { ScoreOptions } from './score.ts';
export type { MessageStatus } from './status.ts';
export type { SubmitOptions, SubmitProgress } from './submit.ts';
