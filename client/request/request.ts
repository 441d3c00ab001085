import { encodeRaw } from '../../lambda/core/base64.ts';
import { encodeData } from '../../lambda/core/encode.ts';
import { preview } from '../../lambda/core/failure.ts';
import { escapeForSqs } from '../../lambda/core/json.ts';
import { RequestError } from '../base/errors.ts';
import { type InputTensor, type ValidInput, validateInput } from './inputTensor.ts';

export type { ArrayInput, InputTensor, NestedArray, Scalar, TypedInput } from './inputTensor.ts';

/** How SQS treats a request's message. */
export interface Routing {
  /** MessageGroupId: required on a FIFO queue; on a standard queue the tenant, for fair queues. */
  readonly group?: string | undefined;
  /** MessageDeduplicationId, on a FIFO queue only; the construct's queues look for it within the group. @default a UUID */
  readonly deduplicationId?: string | undefined;
}

/** A request to score tensors. */
export interface TensorRequest extends Routing {
  /** Returned with the result; at most 1,024 characters. */
  readonly id?: string | undefined;
  /** @default the deployment's default model */
  readonly model?: string | undefined;
  /** @default the model's highest version */
  readonly version?: string | undefined;
  /** By input name. All have the same first dim, the rows of the request. */
  readonly inputs: Readonly<Record<string, InputTensor>>;
  /** Names of the outputs to return, in this order. @default all */
  readonly outputs?: readonly string[] | undefined;
}

/** A body that is sent as it is: one for a model's transform, the short form, or a packed message. */
export interface RawRequest extends Routing {
  /** A string is sent unchanged, anything else as JSON. */
  readonly body: string | object;
}

export type ScoreRequest = TensorRequest | RawRequest;

/**
 * How tensors are written. `binary`: base64 of their bytes, which is faster, and outputs come back the same way.
 * `json`: numbers. Both are exact.
 */
export type Encoding = 'binary' | 'json';

/**
 * The body of the message that asks for `request`: an Open Inference Protocol v2 inference request.
 *
 * @see docs/message-format.md
 * @throws RequestError when the request cannot be encoded
 */
export function encodeRequest(request: ScoreRequest, encoding: Encoding): string {
  if ('body' in request) return encodeBody(request.body);
  const { id, model, version, inputs, outputs } = request;
  const valid = Object.entries(inputs ?? {}).map(([name, input]): NamedInput => [name, validateInput(name, input)]);
  if (valid.length === 0) throw new RequestError(`expected at least one input, got ${preview(inputs)}`);
  const head = {
    id,
    model_name: model,
    model_version: version,
    outputs: outputs?.map((name) => ({ name })),
  };
  const fields = [
    ...Object.entries(head).flatMap(([key, value]) =>
      value === undefined ? [] : [`"${key}":${JSON.stringify(value)}`],
    ),
    ...(encoding === 'binary' ? encodeBinary(valid) : encodeJson(valid)),
  ];
  return escapeForSqs(`{${fields.join(',')}}`);
}

type NamedInput = readonly [name: string, input: ValidInput];

function encodeBody(body: string | object): string {
  if (typeof body === 'string') return body;
  const text: string | undefined = JSON.stringify(body);
  if (text === undefined) throw new RequestError(`expected a body that JSON can hold, got ${preview(body)}`);
  return escapeForSqs(text);
}

function encodeJson(inputs: readonly NamedInput[]): string[] {
  const entries = inputs.map(
    ([name, input]) => `{${describe(name, input)},"data":[${encodeData(input.datatype, input.data)}]}`,
  );
  return [`"inputs":[${entries.join(',')}]`];
}

function encodeBinary(inputs: readonly NamedInput[]): string[] {
  const entries = inputs.map(([name, input]) => `{${describe(name, input)}}`);
  const contents = inputs.map(([, { data }]) => `"${encodeRaw(data)}"`);
  return [`"inputs":[${entries.join(',')}]`, `"raw_input_contents":[${contents.join(',')}]`];
}

function describe(name: string, { datatype, shape }: ValidInput): string {
  return `"name":${JSON.stringify(name)},"datatype":"${datatype}","shape":[${shape.join(',')}]`;
}
