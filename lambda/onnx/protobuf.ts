import { fstatSync, readSync } from 'node:fs';

/*
 * Reads protobuf messages in a file like ONNX Runtime's parser, so that both see the same model. It reads only headers
 * and the requested fields, not the weights between them. It also copies messages with other contents in some fields.
 *
 * @see https://protobuf.dev/programming-guides/encoding/
 */

/** Returns up to `length` bytes from `position`. */
export type Read = (position: number, length: number) => Buffer;

/** Bytes of a file, `end` exclusive. */
interface Range {
  readonly start: number;
  readonly end: number;
}

/** Field of a message, and the range of its contents. The contents of a number are its bytes. */
export interface Field extends Range {
  readonly number: number;
  readonly wireType: number;
}

const VARINT = 0;
const FIXED64 = 1;
export const LENGTH_DELIMITED = 2;
const GROUP_START = 3;
const GROUP_END = 4;
const FIXED32 = 5;

const MAX_VARINT_BYTES = 10;
/** Maximum length of a tag or length in ONNX Runtime's parser. */
const MAX_SHORT_VARINT_BYTES = 5;
const MAX_HEADER_BYTES = MAX_SHORT_VARINT_BYTES + MAX_VARINT_BYTES;

/** Size of a read window. Headers are close together, except between weights. */
export const WINDOW_BYTES = 2 * 1024;

/** Number of windows to keep: nodes are read again, in the order of the graph. */
const MAX_WINDOWS = 256;

/** Creates a reader that returns no bytes beyond the end of the file, even if a damaged file refers to them. */
export function createReader(file: number): Read {
  const { size } = fstatSync(file);
  const readNow = (position: number, length: number): Buffer => {
    const buffer = Buffer.allocUnsafe(length);
    return buffer.subarray(0, readSync(file, buffer, 0, length, position));
  };
  const windows = new Map<number, Buffer>();
  // Windows overlap, so that a header that begins in one also ends in it.
  const windowFrom = (start: number): Buffer => {
    const window = windows.get(start) ?? readNow(start, 2 * WINDOW_BYTES);
    if (windows.size >= MAX_WINDOWS) windows.clear();
    windows.set(start, window);
    return window;
  };
  return (position, wanted) => {
    const length = Math.max(0, Math.min(wanted, size - position));
    if (length > WINDOW_BYTES) return readNow(position, length);
    const start = position - (position % WINDOW_BYTES);
    return windowFrom(start).subarray(position - start, position - start + length);
  };
}

/**
 * Yields the fields of a message, up to the first one that is invalid. It skips groups, which ONNX does not use. In a
 * damaged file contents may end beyond `end`.
 */
export function* fieldsOf(read: Read, { start, end }: Range): Generator<Field> {
  let depth = 0;
  for (let position = start; position < end; ) {
    const field = readField(read, position, end);
    if (field === undefined) return;
    position = field.end;
    if (field.wireType === GROUP_START) depth += 1;
    else if (field.wireType === GROUP_END) depth -= 1;
    else if (depth === 0) yield field;
  }
}

function readField(read: Read, position: number, end: number): Field | undefined {
  const header = read(position, Math.min(MAX_HEADER_BYTES, end - position));
  const tag = varintIn(header, 0, MAX_SHORT_VARINT_BYTES);
  if (tag === undefined || tag.low >>> 3 === 0) return undefined;
  const start = position + tag.end;
  const field = { number: tag.low >>> 3, wireType: tag.low & 7, start, end: start };
  switch (field.wireType) {
    case GROUP_START:
    case GROUP_END:
      return field;
    case FIXED64:
      return { ...field, end: start + 8 };
    case FIXED32:
      return { ...field, end: start + 4 };
    case VARINT: {
      const value = varintIn(header, tag.end, MAX_VARINT_BYTES);
      return value && { ...field, end: position + value.end };
    }
    case LENGTH_DELIMITED: {
      const length = varintIn(header, tag.end, MAX_SHORT_VARINT_BYTES);
      if (length === undefined) return undefined;
      return { ...field, start: position + length.end, end: position + length.end + length.value };
    }
  }
  return undefined;
}

interface Varint {
  /** Value as an `int64`, rounded to a double. */
  readonly value: number;
  /** Value as an `int32`: the lower half. */
  readonly low: number;
  readonly end: number;
}

/** Number of varint bytes that a double holds exactly. */
const EXACT_BYTES = 7;

function varintIn(bytes: Buffer, start: number, maxBytes: number): Varint | undefined {
  const stop = Math.min(bytes.length, start + maxBytes);
  let end = start;
  while (end < stop && (bytes[end] as number) >= 0x80) end++;
  if (end >= stop) return undefined;
  end += 1;
  let value = 0;
  let low = 0;
  for (let index = end - start - 1; index >= 0; index--) {
    const bits = (bytes[start + index] as number) & 0x7f;
    value = value * 0x80 + bits;
    if (index < MAX_SHORT_VARINT_BYTES) low |= bits << (7 * index);
  }
  return { value: end - start <= EXACT_BYTES ? value : int64Of(bytes.subarray(start, end)), low, end };
}

function int64Of(bytes: Buffer): number {
  const bits = bytes.reduceRight((sum, byte) => (sum << 7n) | BigInt(byte & 0x7f), 0n);
  return Number(BigInt.asIntN(64, bits));
}

const MAX_KEPT_BYTES = 1024 * 1024;

/** Message in one or several ranges of a file, which the parser merges. The last of repeated singular fields counts. */
export class Message {
  readonly #read: Read;
  readonly ranges: readonly Range[];
  #kept: ReadonlyMap<number, readonly Field[]> | undefined;

  constructor(read: Read, ...ranges: readonly Range[]) {
    this.#read = read;
    this.ranges = ranges;
  }

  /** Yields the fields. Contents end with the message. */
  *fields(): Generator<Field> {
    for (const range of this.ranges) {
      for (const field of fieldsOf(this.#read, range)) {
        yield field.end <= range.end ? field : { ...field, end: range.end };
      }
    }
  }

  *#fieldsWith(number: number, ...wireTypes: readonly number[]): Generator<Field> {
    for (const field of this.#fieldsNumbered(number)) {
      if (field.number === number && wireTypes.includes(field.wireType)) yield field;
    }
  }

  /** Returns the fields of a number. A small message keeps them; a large one, with up to millions, is read again. */
  #fieldsNumbered(number: number): Iterable<Field> {
    if (this.#kept === undefined && this.#bytes() > MAX_KEPT_BYTES) return this.fields();
    this.#kept ??= Map.groupBy(this.fields(), (field) => field.number);
    return this.#kept.get(number) ?? [];
  }

  #bytes(): number {
    return this.ranges.reduce((sum, { start, end }) => sum + end - start, 0);
  }

  messages(number: number): Message[] {
    return [...this.#fieldsWith(number, LENGTH_DELIMITED)].map((field) => new Message(this.#read, field));
  }

  /** Returns the message of a singular field, or an empty one. */
  message(number: number): Message {
    return new Message(this.#read, ...this.#fieldsWith(number, LENGTH_DELIMITED));
  }

  *texts(number: number): Generator<string> {
    for (const field of this.#fieldsWith(number, LENGTH_DELIMITED)) yield this.#textOf(field);
  }

  /** Returns the text of a singular field, or an empty one. */
  text(number: number): string {
    return [...this.texts(number)].at(-1) ?? '';
  }

  /** Returns the text of a field that writers put first, without reading the fields after it, which may be millions. */
  leadingText(number: number): string {
    const [first] = this.fields();
    const isText = first?.number === number && first.wireType === LENGTH_DELIMITED;
    return isText ? this.#textOf(first) : this.text(number);
  }

  /** Returns an `int64`, rounded to a double. */
  int64(number: number): number | undefined {
    return [...this.#varints(number, VARINT)].at(-1)?.value;
  }

  /** Returns all values of an `int32` or an enumeration. The parser keeps the last one that the enumeration has. */
  int32s(number: number): number[] {
    return [...this.#varints(number, VARINT)].map(({ low }) => low);
  }

  /** Yields the values of a repeated `int64`, rounded to doubles, packed or not. */
  *int64s(number: number): Generator<number> {
    for (const { value } of this.#varints(number, VARINT, LENGTH_DELIMITED)) yield value;
  }

  /** Yields the values of a repeated `float`, packed or not. */
  *floats(number: number): Generator<number> {
    for (const field of this.#fieldsWith(number, FIXED32, LENGTH_DELIMITED)) {
      const bytes = this.#bytesOf(field);
      for (let at = 0; at + 4 <= bytes.length; at += 4) yield bytes.readFloatLE(at);
    }
  }

  /** Yields the values of a repeated `double`, packed or not. */
  *doubles(number: number): Generator<number> {
    for (const field of this.#fieldsWith(number, FIXED64, LENGTH_DELIMITED)) {
      const bytes = this.#bytesOf(field);
      for (let at = 0; at + 8 <= bytes.length; at += 8) yield bytes.readDoubleLE(at);
    }
  }

  /** Returns the bytes of a singular field, or none. */
  bytes(number: number): Buffer {
    const field = [...this.#fieldsWith(number, LENGTH_DELIMITED)].at(-1);
    return field === undefined ? Buffer.alloc(0) : this.#bytesOf(field);
  }

  *#varints(number: number, ...wireTypes: readonly number[]): Generator<Varint> {
    for (const { start, end } of this.#fieldsWith(number, ...wireTypes)) {
      for (let position = start; position < end; ) {
        const varint = varintIn(this.#read(position, Math.min(MAX_VARINT_BYTES, end - position)), 0, MAX_VARINT_BYTES);
        if (varint === undefined) break;
        yield varint;
        position += varint.end;
      }
    }
  }

  #textOf({ start, end }: Range): string {
    return this.#read(start, end - start).toString('utf8');
  }

  #bytesOf({ start, end }: Range): Buffer {
    // Copied, because the reader reuses its memory.
    return Buffer.from(this.#read(start, end - start));
  }
}

/**
 * Copies a message from `from` to before `to`.
 *
 * @param replace returns the new contents of a field, or undefined to copy it
 */
export function rewrite(read: Read, from: number, to: number, replace: (field: Field) => Buffer | undefined): Buffer {
  const parts: Buffer[] = [];
  let copiedTo = from;
  let at = from;
  for (const field of fieldsOf(read, { start: from, end: to })) {
    const fieldStart = at;
    at = field.end;
    const content = replace(field);
    if (content === undefined) continue;
    parts.push(copyOf(read, copiedTo, fieldStart), lengthDelimited(field.number, content));
    copiedTo = field.end;
  }
  return Buffer.concat([...parts, copyOf(read, copiedTo, to)]);
}

export function isAt(field: Field, number: number): boolean {
  return field.number === number && field.wireType === LENGTH_DELIMITED;
}

/** Copied, because the reader reuses its memory. */
export function copyOf(read: Read, from: number, to: number): Buffer {
  return Buffer.from(read(from, to - from));
}

export function lengthDelimited(number: number, content: Buffer): Buffer {
  return Buffer.concat([varint((number << 3) | 2), varint(content.length), content]);
}

export function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
}
