import type { Datatype, TensorData } from '../tensor/datatype.ts';

/** The parsed JSON request that a transform decodes. Which keys it holds is between the producer and the transform. */
export type TransformBody = Readonly<Record<string, unknown>>;

/** One model input as a transform gives it: an entry of `inputs` in the Open Inference Protocol. */
export interface TransformInput {
  readonly name: string;
  readonly datatype: Datatype;
  /** `[rows, …]`, or with the rows on the batch axis that config.json gives the input */
  readonly shape: readonly number[];
  /** Row-major, flat or nested as in a request; or the typed array of the datatype. */
  readonly data: TensorData | readonly unknown[];
}

/** The outputs of one request by name, each `[rows, …]`, or with the rows on its own batch axis, row-major. */
export type TransformOutputs = Readonly<
  Record<string, { readonly datatype: Datatype; readonly shape: readonly number[]; readonly data: TensorData }>
>;

/**
 * A model's own code before and after it: `models/<name>/transform.ts` (or `.js`, `.mjs`) exports one or both.
 * What either throws fails that request alone, with the code TRANSFORM_FAILED and the error's message.
 */
export interface Transform {
  decode?(body: TransformBody): readonly TransformInput[] | Promise<readonly TransformInput[]>;
  /** Its value becomes `result` in the answer, in place of `outputs`. JSON must be able to hold it. */
  encode?(outputs: TransformOutputs): unknown;
}
