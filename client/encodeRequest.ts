import { randomUUID } from 'node:crypto';
import * as z from 'zod';
import type { Packable } from '../lambda/aws/sqsMessages.ts';
import { isFailure, preview } from '../lambda/core/failure.ts';
import { escapeForSqs, isObject, parseIfJson } from '../lambda/core/json.ts';
import {
  DATATYPE_NAMES,
  DATATYPES,
  type Datatype,
  encodeRaw,
  isDatatype,
  type TensorData,
  type TypedArray,
} from '../lambda/core/tensor.ts';
import { decodeData, encodeData } from '../lambda/core/values.ts';
import { IN_OUR_WORDS, problemsIn } from '../lambda/core/wrongValue.ts';
import { RequestError } from './clientErrors.ts';

/** SQS attributes of a request's message. */
export interface Routing {
  /** MessageGroupId. Required on a FIFO queue. On a standard queue, the tenant for fair queues. */
  readonly group?: string | undefined;
  /**
   * MessageDeduplicationId, only on a FIFO queue. The construct's queues compare it within the group.
   * @default a UUID
   */
  readonly deduplicationId?: string | undefined;
  /** True to send it to the queue for urgent requests, `urgentQueueUrl`. @default false */
  readonly urgent?: boolean | undefined;
}

/** Request to score tensors. */
export interface TensorRequest extends Routing {
  /** ID that is returned with the result, at most 1,024 characters. */
  readonly id?: string | undefined;
  /** @default the deployment's default model */
  readonly model?: string | undefined;
  /** @default the model's highest version */
  readonly version?: string | undefined;
  /** Inputs by name. All have the same first dimension, the rows of the request. */
  readonly inputs: Readonly<Record<string, InputTensor>>;
  /** Names of the outputs to return, in this order. @default all */
  readonly outputs?: readonly string[] | undefined;
  readonly body?: undefined;
}

/** Request with a body that is sent unchanged: for a model's transform, in the short form, or a packed message. */
export interface RawRequest extends Routing {
  /** Body. A string is sent unchanged, and an object as JSON. It contains the ID, the model and the inputs. */
  readonly body: string | object;
  readonly id?: undefined;
  readonly model?: undefined;
  readonly version?: undefined;
  readonly inputs?: undefined;
  readonly outputs?: undefined;
}

export type ScoreRequest = TensorRequest | RawRequest;

/**
 * Encoding of tensors. `binary` is base64 of their bytes, which is faster, and outputs are returned in the same way.
 * `json` is numbers. Both are exact.
 */
export type Encoding = 'binary' | 'json';

/** Encoded request. It is alone in its message if its body cannot be part of a packed message. */
export interface RequestEntry extends Omit<Packable, 'bytes'> {
  readonly group: string | undefined;
  readonly deduplicationId: string | undefined;
}

interface EntryOptions {
  readonly requestsPerMessage: number;
  readonly encoding: Encoding;
  readonly fifo: boolean;
}

/** @throws RequestError if the request cannot be encoded, or cannot be sent to such a queue */
export function toEntry(request: ScoreRequest, options: EntryOptions): RequestEntry {
  const { requestsPerMessage, encoding, fifo } = options;
  const encoded = encodeRequest(request, encoding);
  assertRouting(request, fifo);
  const mayShare = requestsPerMessage > 1 && canShare(request, encoded);
  // Characters that SQS refuses are escaped, so that one request does not make SQS refuse a shared message.
  const body = mayShare ? escapeForSqs(encoded) : encoded;
  return {
    body,
    bodyBytes: Buffer.byteLength(body),
    alone: !mayShare,
    group: request.group,
    deduplicationId: fifo ? (request.deduplicationId ?? randomUUID()) : undefined,
  };
}

/**
 * Returns true if a request can share a message. A request with its own deduplication ID cannot. A raw body must be a
 * single JSON object, because others could make the array invalid.
 */
function canShare(request: ScoreRequest, body: string): boolean {
  if (request.deduplicationId !== undefined) return false;
  return request.body === undefined || isObject(parseIfJson(body));
}

function assertRouting({ group, deduplicationId }: ScoreRequest, fifo: boolean): void {
  if (fifo && group === undefined) {
    throw new RequestError(
      'expected a group on each request, as the request queue is a FIFO queue, got none; set group',
    );
  }
  if (!fifo && deduplicationId !== undefined) {
    throw new RequestError(
      'expected no deduplicationId, as the request queue is a standard queue, got one; leave it out',
    );
  }
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html */
const SQS_NAME = z.string().regex(/^[!-~]{1,128}$/, {
  error: 'expected 1 to 128 letters, digits and punctuation marks of ASCII, without spaces',
});
const TEXT = z.string().optional();
/** Fields of both forms of a request. The encoding of inputs and bodies checks those. */
const REQUEST = z.strictObject({
  id: TEXT,
  model: TEXT,
  version: TEXT,
  inputs: z.unknown().optional(),
  outputs: z.array(z.string()).optional(),
  body: z.unknown().optional(),
  group: SQS_NAME.optional(),
  deduplicationId: SQS_NAME.optional(),
  urgent: z.boolean().optional(),
});

/** An unknown field would be lost in silence: a misspelt one of the model would have another model score. */
function assertFields(request: ScoreRequest): void {
  const { error } = REQUEST.safeParse(request, IN_OUR_WORDS);
  if (error !== undefined) throw new RequestError(problemsIn(error.issues, request).join('; '));
}

/**
 * Returns the message body for `request`: an Open Inference Protocol v2 inference request.
 *
 * @see docs/message-format.md
 * @throws RequestError if the request cannot be encoded
 */
export function encodeRequest(request: ScoreRequest, encoding: Encoding): string {
  assertFields(request);
  if (request.body !== undefined) return encodeBody(request);
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

const FIELDS = ['id', 'model', 'version', 'inputs', 'outputs'] as const;

function encodeBody({ body, ...others }: RawRequest): string {
  const beside = FIELDS.filter((field) => others[field] !== undefined);
  if (beside.length > 0) {
    throw new RequestError(`expected a body alone, got ${beside.join(', ')} beside it; say that in the body`);
  }
  if (body === '') throw new RequestError('expected a body, got an empty text');
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

/** Value inside a nested array. A bigint is a 64-bit integer. NaN and the infinities are allowed. */
export type Scalar = number | bigint | string | boolean;
export type NestedArray<T = Scalar> = readonly (T | NestedArray<T>)[];

/** Elements in a typed array, or flat strings, row-major. An output of a result has this form. */
export interface TypedInput {
  readonly data: TypedArray | readonly string[];
  /** `[rows, …]`: at least one row. Other axes may be empty. */
  readonly shape: readonly number[];
  /** @default that of the array's class: Float32Array is FP32, BigInt64Array is INT64, Uint8Array is UINT8, … */
  readonly datatype?: Datatype | undefined;
}

/** Elements in plain arrays, flat or nested like the shape. */
export interface ArrayInput {
  readonly data: NestedArray;
  readonly datatype: Datatype;
  /** `[rows, …]`: at least one row. Other axes may be empty. @default as `data` is nested */
  readonly shape?: readonly number[] | undefined;
}

/** Strings or booleans in plain arrays, which determine the datatype: BYTES or BOOL. */
export interface PlainInput {
  readonly data: NestedArray<string> | NestedArray<boolean>;
  readonly datatype?: 'BYTES' | 'BOOL' | undefined;
  /** `[rows, …]`: at least one row. Other axes may be empty. @default as `data` is nested */
  readonly shape?: readonly number[] | undefined;
}

/**
 * Input of a request: `{data: Float32Array.of(1, 2), shape: [1, 2]}`, `{data: [[1, 2]], datatype: 'FP32'}`,
 * `{data: ['a', 'b']}`, or `{data: Uint8Array.of(0, 1), shape: [2], datatype: 'BOOL'}`.
 */
export type InputTensor = TypedInput | ArrayInput | PlainInput;

/** Input whose `data` fits: its elements are of `datatype`, and their number is the product of `shape`. */
interface ValidInput {
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: TensorData;
}

/** @throws RequestError naming the input and the problem */
function validateInput(name: string, input: InputTensor): ValidInput {
  const path = `input '${name}'`;
  const data: unknown = isObject(input) ? input.data : undefined;
  if (!isTypedArray(data) && !isNested(data)) {
    throw new RequestError(
      `${path}: expected { data, shape } or { data, datatype }, with data an array or a typed array, got ` +
        `${data === undefined ? classOf(input) : preview(data)}`,
    );
  }
  const { shape = shapeOf(path, data) } = input;
  const isSound = Array.isArray(shape) && shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0);
  if (!isSound || !(shape[0] > 0)) {
    throw new RequestError(
      `${path}: expected a shape [rows, …] of whole numbers, rows at least 1, got ${JSON.stringify(shape)}`,
    );
  }
  const { datatype = datatypeOf(path, data) } = input;
  if (!isDatatype(datatype)) {
    throw new RequestError(`${path}: expected a datatype of ${DATATYPE_NAMES.join(', ')}, got ${preview(datatype)}`);
  }
  const elements = decodeData(isNested(data) ? toJson(data) : asPlain(data), datatype, shape, path);
  if (isFailure(elements)) throw new RequestError(elements.message);
  return { datatype, shape, data: elements };
}

function isTypedArray(data: unknown): data is TypedArray {
  return ArrayBuffer.isView(data) && !(data instanceof DataView);
}

function isNested(value: unknown): value is NestedArray {
  return Array.isArray(value);
}

/** Returns the name of a value's class by its tag, so that a Buffer is a Uint8Array. */
function classOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}

/** Datatypes by the class of their arrays. UINT8 and BOOL have the same. */
const DATATYPE_OF_CLASS = new Map(
  DATATYPE_NAMES.filter(isDatatype).flatMap((name): [string, Datatype][] => {
    const info = DATATYPES[name];
    return info.kind === 'string' || info.kind === 'boolean' ? [] : [[info.array.name, name]];
  }),
);

function datatypeOf(path: string, data: TypedArray | NestedArray): Datatype {
  if (isNested(data)) {
    const scalar = firstScalar(data);
    if (typeof scalar === 'string') return 'BYTES';
    if (typeof scalar === 'boolean') return 'BOOL';
    throw new RequestError(
      `${path}: expected a datatype for a plain array that starts with ${preview(scalar)}, got none; set datatype`,
    );
  }
  const datatype = DATATYPE_OF_CLASS.get(classOf(data));
  if (datatype !== undefined) return datatype;
  throw new RequestError(
    `${path}: expected a typed array that stands for a datatype, got ${classOf(data)}; convert it`,
  );
}

/** Returns the shape from the first element of each level. Decoding checks that the others are equal. */
function shapeOf(path: string, data: TypedArray | NestedArray): number[] {
  if (!isNested(data)) throw new RequestError(`${path}: expected a shape for a typed array, got none; set shape`);
  const [first] = data;
  return isNested(first) ? [data.length, ...shapeOf(path, first)] : [data.length];
}

function firstScalar(nested: NestedArray): Scalar | undefined {
  const [first] = nested;
  return isNested(first) ? firstScalar(first) : first;
}

/** Returns a typed array of the class itself, which a Buffer is not. */
function asPlain(data: TypedArray): TypedArray {
  return data instanceof Buffer ? new Uint8Array(data.buffer, data.byteOffset, data.length) : data;
}

/** Writes numbers that JSON does not support as strings, like the protocol does. */
function toJson(value: Scalar | NestedArray): unknown {
  if (isNested(value)) return value.map(toJson);
  return typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value)) ? String(value) : value;
}
