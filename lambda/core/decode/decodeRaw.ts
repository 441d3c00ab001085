import { type Failure, failure, preview } from '../contract/failure.ts';
import { type Base64Data, decodedBytes, isBase64, isBase64Length, LENGTH_PREFIX_BYTES } from '../tensor/base64.ts';
import { base64InSlab, DATATYPES, type Datatype, type TensorData } from '../tensor/datatype.ts';
import { elementCount } from '../tensor/tensor.ts';
import { isCarried } from './fillData.ts';

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
