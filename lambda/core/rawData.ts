import { allocate, DATATYPES, type Datatype, type TensorData, type TypedArray } from './datatype.ts';
import { isCarried } from './decodeData.ts';
import { type Failure, failure, preview } from './failure.ts';
import { elementCount } from './tensor.ts';

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
  return 'base64' in data;
}

/**
 * Checks one entry of `raw_input_contents`. Elements of a fixed size stay encoded, so that they can be decoded
 * straight into the stacked tensor; BOOL and BYTES are decoded, because their values must be checked.
 */
export function decodeRaw(
  text: unknown,
  datatype: Datatype,
  shape: readonly number[],
  path: string,
): TensorData | Base64Data | Failure {
  if (typeof text !== 'string')
    return failure('INVALID_DATA', `${path}: expected a base64 string, got ${preview(text)}; encode the bytes`);
  const bytes = base64Bytes(text);
  if (bytes === undefined) {
    return failure(
      'INVALID_DATA',
      `${path}: expected base64, got ${text.length} characters that are not; encode it again`,
    );
  }
  const info = DATATYPES[datatype];
  if (info.kind === 'string') return decodeStrings(Buffer.from(text, 'base64'), shape, path);

  const expected = elementCount(shape) * info.array.BYTES_PER_ELEMENT;
  if (bytes !== expected) {
    return failure(
      'INVALID_SHAPE',
      `${path}: expected ${expected} bytes for shape [${shape.join(', ')}] of ${datatype}, got ${bytes}; ` +
        'make shape and contents agree',
    );
  }
  return info.kind === 'boolean' ? decodeBooleans(text, bytes, path) : { base64: text };
}

/** Both alphabets, with or without padding, as proto3 JSON allows. */
const BASE64 = /^[\w+/-]*={0,2}$/;

/** How many bytes a base64 text holds, or undefined when it is not base64. */
function base64Bytes(text: string): number | undefined {
  const characters = unpaddedLength(text);
  const padded = characters < text.length;
  const wellFormed = characters % 4 !== 1 && (!padded || text.length % 4 === 0) && BASE64.test(text);
  return wellFormed ? Math.floor((characters * 3) / 4) : undefined;
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

function decodeStrings(contents: Buffer, shape: readonly number[], path: string): TensorData | Failure {
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
  if (room.length === Math.floor((unpaddedLength(source.base64) * 3) / 4)) {
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
