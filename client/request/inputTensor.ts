import { isFailure, preview } from '../../lambda/core/failure.ts';
import {
  DATATYPE_NAMES,
  DATATYPES,
  type Datatype,
  elementCount,
  isDatatype,
  type TensorData,
  type TypedArray,
} from '../../lambda/core/tensor.ts';
import { decodeData } from '../../lambda/core/values.ts';
import { RequestError } from '../base/errors.ts';

/** A value inside a nested array. A bigint is a 64-bit integer; NaN and the infinities are allowed. */
export type Scalar = number | bigint | string | boolean;
export type NestedArray = readonly (Scalar | NestedArray)[];

/** Elements in a typed array, or flat strings, row-major. An output of a result can be one. */
export interface TypedInput {
  readonly data: TypedArray | readonly string[];
  /** `[rows, …]`: at least one row; other axes may be empty. */
  readonly shape: readonly number[];
  /** @default that of the array's class: Float32Array is FP32, BigInt64Array is INT64, Uint8Array is UINT8, … */
  readonly datatype?: Datatype | undefined;
}

/** Elements in plain arrays, flat or nested as in the shape. */
export interface ArrayInput {
  readonly data: NestedArray;
  /** `[rows, …]`: at least one row; other axes may be empty. @default as `data` is nested */
  readonly shape?: readonly number[] | undefined;
  /** Required for numbers. @default BYTES for strings, BOOL for booleans */
  readonly datatype?: Datatype | undefined;
}

/**
 * One input of a request: `{data: Float32Array.of(1, 2), shape: [1, 2]}`, `{data: [[1, 2]], datatype: 'FP32'}`,
 * `{data: ['a', 'b']}`, or `{data: Uint8Array.of(0, 1), shape: [2], datatype: 'BOOL'}`.
 */
export type InputTensor = TypedInput | ArrayInput;

/** An input whose data holds exactly the product of `shape` elements of `datatype`. */
export interface ValidInput {
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: TensorData;
}

/** @throws RequestError saying what is wrong with the input */
export function validateInput(name: string, input: InputTensor): ValidInput {
  const path = `input '${name}'`;
  const { data, shape, datatype } = input;
  if (datatype !== undefined && !isDatatype(datatype)) {
    throw new RequestError(`${path}: expected a datatype of ${DATATYPE_NAMES.join(', ')}, got ${preview(datatype)}`);
  }
  if (isTypedArray(data)) return validateTyped(path, data, shape, datatype);
  if (Array.isArray(data)) return validateNested(path, data, shape, datatype);
  throw new RequestError(`${path}: expected data to be an array or a typed array, got ${preview(data)}`);
}

function isTypedArray(data: unknown): data is TypedArray {
  return ArrayBuffer.isView(data) && !(data instanceof DataView);
}

function validateTyped(
  path: string,
  data: TypedArray,
  shape: readonly number[] | undefined,
  datatype: Datatype | undefined,
): ValidInput {
  const fitting = datatypesOf(data);
  const [own] = fitting;
  if (own === undefined) {
    throw new RequestError(
      `${path}: expected a typed array that stands for a datatype, got ${classOf(data)}; convert it`,
    );
  }
  if (datatype !== undefined && !fitting.includes(datatype)) {
    throw new RequestError(
      `${path}: expected the typed array of ${datatype}, got ${classOf(data)}; convert it, or leave datatype out`,
    );
  }
  if (shape === undefined) throw new RequestError(`${path}: expected a shape for a typed array, got none; set shape`);
  assertShape(path, shape);
  if (data.length !== elementCount(shape)) throw wrongCount(path, shape, data.length);
  if (datatype === 'BOOL') assertBooleans(path, data);
  return { datatype: datatype ?? own, shape, data };
}

/** The datatypes that this array can hold; UINT8 before BOOL, which shares its class. */
function datatypesOf(data: TypedArray): Datatype[] {
  const found = DATATYPE_NAMES.filter(isDatatype).filter((name) => {
    const info = DATATYPES[name];
    return info.kind !== 'string' && info.array.name === classOf(data);
  });
  return found.toSorted((a, b) => Number(a === 'BOOL') - Number(b === 'BOOL'));
}

/** The class by its tag, which a Buffer (Uint8Array) has too. */
function classOf(data: TypedArray): string {
  return data[Symbol.toStringTag];
}

function assertBooleans(path: string, data: TypedArray): void {
  for (const [index, element] of data.entries()) {
    if (element !== 0 && element !== 1) {
      throw new RequestError(`${path}: expected 0 or 1 (BOOL), got ${element} at element ${index}`);
    }
  }
}

function assertShape(path: string, shape: readonly number[]): void {
  const isSound = Array.isArray(shape) && shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0);
  if (isSound && (shape[0] ?? 0) > 0) return;
  throw new RequestError(
    `${path}: expected a shape [rows, …] of whole numbers, rows at least 1, got ${JSON.stringify(shape)}`,
  );
}

function wrongCount(path: string, shape: readonly number[], got: number): RequestError {
  return new RequestError(
    `${path}: expected ${elementCount(shape)} elements for shape [${shape.join(', ')}], got ${got}; ` +
      'make shape and data agree',
  );
}

function validateNested(
  path: string,
  nested: NestedArray,
  given: readonly number[] | undefined,
  wanted: Datatype | undefined,
): ValidInput {
  const shape = given ?? shapeOf(nested);
  assertShape(path, shape);
  const datatype = wanted ?? datatypeOfScalar(path, firstScalar(nested));
  const data = decodeData(spell(nested), datatype, shape, path);
  if (isFailure(data)) throw new RequestError(data.message);
  return { datatype, shape, data };
}

/** Taken from the first element of each level; decoding checks that the others are alike. */
function shapeOf(nested: NestedArray): number[] {
  const [first] = nested;
  return isNested(first) ? [nested.length, ...shapeOf(first)] : [nested.length];
}

function firstScalar(nested: NestedArray): Scalar | undefined {
  const [first] = nested;
  return isNested(first) ? firstScalar(first) : first;
}

function isNested(value: Scalar | NestedArray | undefined): value is NestedArray {
  return Array.isArray(value);
}

function datatypeOfScalar(path: string, scalar: Scalar | undefined): Datatype {
  if (typeof scalar === 'string') return 'BYTES';
  if (typeof scalar === 'boolean') return 'BOOL';
  throw new RequestError(
    `${path}: expected a datatype for a plain array that starts with ${preview(scalar)}, got none; set datatype`,
  );
}

/** Writes numbers that JSON cannot hold as the protocol does: as strings. */
function spell(value: Scalar | NestedArray): unknown {
  if (isNested(value)) return value.map(spell);
  return typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value)) ? String(value) : value;
}
