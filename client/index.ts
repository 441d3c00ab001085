export type { Datatype, TensorData, TypedArray } from '../lambda/core/tensor.ts';
export { type ClientCode, CollectTimeoutError, RequestError, ScoringError, SubmitError } from './base/errors.ts';
export { MOST_REQUESTS_PER_MESSAGE, type RequestsPerMessage } from './base/requestsPerMessage.ts';
export { Batchscore } from './batchscore.ts';
export type { JobOptions, Jobs, SubmittedJob, WaitOptions } from './jobs/jobs.ts';
export type { JobStatus } from './jobs/status.ts';
export type { BatchscoreOptions } from './options.ts';
export type { CollectOptions } from './receive/collect.ts';
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
} from './request/request.ts';
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
} from './result/result.ts';
export type { ScoreOptions } from './score.ts';
export type { SubmitOptions, SubmitProgress } from './send/submit.ts';
