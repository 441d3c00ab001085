import type { Datatype, TensorData } from './datatype.ts';
import type { Failure } from './failure.ts';
import type { Model } from './model.ts';

/** One input of one request, proved to hold exactly the product of `shape` elements of the model's datatype. */
export interface RequestInput {
  readonly datatype: Datatype;
  /** `[rows, …]` */
  readonly shape: readonly number[];
  readonly data: TensorData;
}

/** A request, decoded and proved valid: one typed tensor per model input, in the model's order, all of `rows` rows. */
export interface ScoringRequest {
  readonly id: string | undefined;
  readonly model: Model;
  readonly rows: number;
  readonly inputs: readonly RequestInput[];
  /** Which model outputs to answer with, by index and in the order asked for. */
  readonly outputs: readonly number[];
}

/** A refused request, with what could be read of it. */
export interface RefusedRequest {
  readonly id: string | undefined;
  readonly failure: Failure;
}

/** A record's body, decoded. A packed one holds many requests and is answered with an array in the same order. */
export interface DecodedBody {
  readonly packed: boolean;
  readonly requests: readonly (ScoringRequest | RefusedRequest)[];
}

export function isRefused(request: ScoringRequest | RefusedRequest): request is RefusedRequest {
  return 'failure' in request;
}
