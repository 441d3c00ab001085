import { type Failure, failure, preview } from '../contract/failure.ts';
import {
  allocate,
  base64InSlab,
  DATATYPES,
  type Datatype,
  type TensorData,
  type TypedArray,
} from '../tensor/datatype.ts';
import { elementCount } from '../tensor/tensor.ts';
import { isCarried } from './decodeData.ts';

/**
 * Binary tensor contents: base64 of little-endian, row-major elements, as in the proto3 JSON mapping of
 * `ModelInferRequest.raw_input_contents`. A BYTES element is its UTF-8 bytes after their 4-byte length.
 *
 * @see https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
 */
const LENGTH_PREFIX_BYTES = 4;

/** Proved to decode to exactly the elements that the shape asks for, and not decoded yet. */
export interface Base64Data {
  readonly base64: string;
}

export function isBase64Data(data: TensorData | Base64Data): data is Base64Data {
  return !Array.isArray(data) && !ArrayBuffer.isView(data);
}

/**
 * Checks one entry of `raw_input_contents`. Elements of a fixed size stay encoded, so that they can be decoded
 * straight into the stacked tensor; BOOL and BYTES are decoded, because their values must be checked.
 */
export function decodeRaw(
  text: unknown,
  datatype: Datatype,
  shape: readonly number[],
  pathOf: () => string,
): TensorData | Base64Data | Failure {
  if (typeof text !== 'string')
    return failure('INVALID_DATA', `${pathOf()}: expected a base64 string, got ${preview(text)}; encode the bytes`);
  const info = DATATYPES[datatype];
  if (info.kind === 'string') return isBase64(text) ? decodeStrings(text, shape, pathOf()) : notBase64(text, pathOf());

  const elements = elementCount(shape);
  const bytes = elements * info.array.BYTES_PER_ELEMENT;
  if (decodedBytes(text) !== bytes) {
    return isBase64(text)
      ? wrongBytes(decodedBytes(text), bytes, datatype, shape, pathOf())
      : notBase64(text, pathOf());
  }
  if (info.kind === 'boolean') {
    return isBase64(text) ? decodeBooleans(text, bytes, pathOf()) : notBase64(text, pathOf());
  }
  const small = isBase64Length(text) ? base64InSlab(datatype, elements, text) : undefined;
  if (small !== undefined) return small;
  return isBase64(text) ? { base64: text } : notBase64(text, pathOf());
}

function notBase64(text: string, path: string): Failure {
  return failure(
    'INVALID_DATA',
    `${path}: expected base64, got ${text.length} characters that are not; encode it again`,
  );
}

function wrongBytes(
  got: number,
  expected: number,
  datatype: Datatype,
  shape: readonly number[],
  path: string,
): Failure {
  return failure(
    'INVALID_SHAPE',
    `${path}: expected ${expected} bytes for shape [${shape.join(', ')}] of ${datatype}, got ${got}; ` +
      'make shape and contents agree',
  );
}

/** Both alphabets, with or without padding, as proto3 JSON allows. */
const BASE64 = /^[\w+/-]*={0,2}$/;

function isBase64(text: string): boolean {
  return isBase64Length(text) && BASE64.test(text);
}

/** Whether a text is as long as base64 is, its padding there whole or not at all. */
function isBase64Length(text: string): boolean {
  const characters = unpaddedLength(text);
  const padded = characters < text.length;
  return characters % 4 !== 1 && (!padded || text.length % 4 === 0);
}

/** How many bytes a text holds that is base64. */
function decodedBytes(text: string): number {
  return Math.floor((unpaddedLength(text) * 3) / 4);
}

function unpaddedLength(text: string): number {
  if (text.endsWith('==')) return text.length - 2;
  return text.endsWith('=') ? text.length - 1 : text.length;
}

function decodeBooleans(text: string, bytes: number, path: string): TensorData | Failure {
  const data = new Uint8Array(bytes);
  Buffer.from(data.buffer).write(text, 'base64');
  const wrongAt = data.findIndex((element) => element > 1);
  if (wrongAt < 0) return data;
  return failure('INVALID_DATA', `${path}: expected bytes 0 or 1 (BOOL), got ${data[wrongAt]} at element ${wrongAt}`);
}

function decodeStrings(text: string, shape: readonly number[], path: string): TensorData | Failure {
  const contents = Buffer.from(text, 'base64');
  const expected = elementCount(shape);
  const elements: string[] = [];
  let position = 0;
  while (position < contents.length && elements.length <= expected) {
    const start = position + LENGTH_PREFIX_BYTES;
    const end = start <= contents.length ? start + contents.readUInt32LE(position) : Number.POSITIVE_INFINITY;
    if (end > contents.length) {
      return failure(
        'INVALID_DATA',
        `${path}: expected each BYTES element after its 4-byte little-endian length, element ${elements.length} ends ` +
          `beyond the ${contents.length} bytes that came`,
      );
    }
    const element = decodeUtf8(contents.subarray(start, end));
    if (element === undefined || !isCarried(element)) {
      const wanted = 'expected UTF-8 without U+0000 in BYTES elements';
      return failure('INVALID_DATA', `${path}: ${wanted}, element ${elements.length} is not`);
    }
    elements.push(element);
    position = end;
  }
  if (elements.length === expected) return elements;
  return failure(
    'INVALID_SHAPE',
    `${path}: expected ${expected} elements for shape [${shape.join(', ')}], got ${describeCount(elements.length, expected)}; ` +
      'make shape and contents agree',
  );
}

/** Counting stops at the first element too many. */
function describeCount(count: number, expected: number): string {
  return count > expected ? 'more' : String(count);
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Decodes elements `from` to `to` of `source` into `target` from element `offset` on, without a copy in between
 * where they are all of them.
 */
export function decodeInto(target: TypedArray, offset: number, source: Base64Data, from: number, to: number): void {
  const size = target.BYTES_PER_ELEMENT;
  const room = Buffer.from(target.buffer, target.byteOffset + offset * size, (to - from) * size);
  if (room.length === decodedBytes(source.base64)) {
    room.write(source.base64, 'base64');
    return;
  }
  // Three bytes are four characters: decode the groups that hold the first to the last byte wanted.
  const firstGroup = Math.floor((from * size) / 3);
  const endGroup = Math.ceil((to * size) / 3);
  const piece = Buffer.from(source.base64.slice(firstGroup * 4, endGroup * 4), 'base64');
  piece.copy(room, 0, from * size - firstGroup * 3);
}

/** All elements of `source` as `datatype`, which is neither BOOL nor BYTES, or is BOOL known to be 0 and 1. */
export function decodeAll(source: Base64Data, datatype: Datatype, shape: readonly number[]): TensorData {
  const data = allocate(datatype, elementCount(shape));
  if (!Array.isArray(data)) decodeInto(data, 0, source, 0, data.length);
  return data;
}

/** Elements as one entry of `raw_input_contents` or `raw_output_contents`. */
export function encodeRaw(data: TensorData): string {
  if (!Array.isArray(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
  let bytes = 0;
  for (const element of data) bytes += LENGTH_PREFIX_BYTES + Buffer.byteLength(element);
  const contents = Buffer.allocUnsafe(bytes);
  let position = 0;
  for (const element of data) {
    const length = contents.write(element, position + LENGTH_PREFIX_BYTES);
    contents.writeUInt32LE(length, position);
    position += LENGTH_PREFIX_BYTES + length;
  }
  return contents.toString('base64');
}
