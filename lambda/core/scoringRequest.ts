import type { Base64Data } from './base64.ts';
import type { Failure } from './failure.ts';
import type { Model } from './model.ts';
import type { Datatype, TensorData } from './tensor.ts';

/** One input of one request, proved to be of the model's datatype and to hold as many elements as `shape` says. */
export interface RequestInput {
  readonly datatype: Datatype;
  /** `[rows, …]`, wherever the request had its batch axis. */
  readonly shape: readonly number[];
  readonly data: TensorData | Base64Data;
}

/** How the scores are written: as `outputs` with `data`, as `outputs` with `raw_output_contents`, or as `predictions`. */
export type ReplyForm = 'json' | 'binary' | 'predictions';

/** A request, decoded and proved valid: one typed tensor per model input, in the model's order, each of `rows` rows. */
export interface ScoringRequest {
  /** Which of the bodies of a call it came in, by index. */
  readonly record: number;
  /** Its place among the requests of that body. */
  readonly position: number;
  readonly id: string | undefined;
  readonly model: Model;
  readonly rows: number;
  /** Size of the model's ragged axis; 1 without one. */
  readonly length: number;
  readonly inputs: readonly RequestInput[];
  /** Which model outputs to answer with, by index and in the order asked for. */
  readonly outputs: readonly number[];
  readonly reply: ReplyForm;
}

/** A refused request, with what could be read of it. */
export interface RefusedRequest {
  readonly id: string | undefined;
  readonly failure: Failure;
}

export type DecodedRequest = ScoringRequest | RefusedRequest;

/** A decoded body: one request, or those of a packed message, which one array answers in the same order. */
export type DecodedBody = DecodedRequest | readonly DecodedRequest[];

export function isPacked(body: DecodedBody): body is readonly DecodedRequest[] {
  return Array.isArray(body);
}

export function isRefused(request: DecodedRequest): request is RefusedRequest {
  return 'failure' in request;
}
