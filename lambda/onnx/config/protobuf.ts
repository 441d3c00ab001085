/** Wire types. @see https://protobuf.dev/programming-guides/encoding/ */
const VARINT = 0;
const FIXED64 = 1;
export const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

/** The most bytes of a tag and the length or number after it. */
export const MOST_HEADER_BYTES = 20;

/** One field of a message: its number, and where its contents lie. A number is its own contents. */
export interface Field {
  readonly number: number;
  readonly wireType: number;
  /** Where the contents begin; of a number, the number itself. */
  readonly start: number;
  readonly end: number;
  /** A varint's value, as far as a double holds it; 0 for other fields. */
  readonly value: number;
}

/** The field that begins at `position`; undefined where there is none. Its contents may end beyond the bytes. */
export function readField(bytes: Buffer, position: number, end = bytes.length): Field | undefined {
  const tag = readVarint(bytes, position, end);
  if (tag === undefined || tag.value >> 3 === 0) return undefined;
  const number = tag.value >> 3;
  const wireType = tag.value & 7;
  const after = position + tag.bytes;
  if (wireType === FIXED64) return { number, wireType, start: after, end: after + 8, value: 0 };
  if (wireType === FIXED32) return { number, wireType, start: after, end: after + 4, value: 0 };
  const varint = readVarint(bytes, after, end);
  if (varint === undefined) return undefined;
  if (wireType === VARINT) return { number, wireType, start: after, end: after + varint.bytes, value: varint.value };
  if (wireType !== LENGTH_DELIMITED) return undefined;
  const start = after + varint.bytes;
  return { number, wireType, start, end: start + varint.value, value: 0 };
}

/** The fields from `start` to `end`, as far as they lie within the bytes. */
export function* fieldsIn(bytes: Buffer, start = 0, end = bytes.length): Generator<Field> {
  const last = Math.min(end, bytes.length);
  for (let position = start; position < last; ) {
    const field = readField(bytes, position, last);
    if (field === undefined) return;
    yield field;
    position = field.end;
  }
}

function readVarint(
  bytes: Buffer,
  start: number,
  end: number,
): { readonly value: number; readonly bytes: number } | undefined {
  let value = 0;
  for (let index = start; index < end && index < start + 10; index++) {
    const byte = bytes[index] as number;
    value += (byte & 0x7f) * 2 ** (7 * (index - start));
    if (byte < 0x80) return { value, bytes: index - start + 1 };
  }
  return undefined;
}
