/*
 * Numbers, blocks and structs as the bytes of a Parquet file have them. Each count is compared with the bytes that are there.
 */

export interface Source {
  readonly bytes: Uint8Array;
  at: number;
}

export function sliceOf(bytes: Uint8Array, at: number, length: unknown): Uint8Array {
  const end = at + Number(length);
  if (Number.isSafeInteger(length) && (length as number) >= 0 && end <= bytes.length) return bytes.subarray(at, end);
  throw new Error(`${length} bytes where ${bytes.length - at} are left`);
}

/** Reads a block that begins with its length in four bytes. */
export function readBlock(source: Source): Source {
  const length = readU32(source);
  const bytes = sliceOf(source.bytes, source.at, length);
  source.at += length;
  return { bytes, at: 0 };
}

function readU32(source: Source): number {
  const { bytes, at } = source;
  if (at + 4 > bytes.length) throw new Error('a page that ends too early');
  source.at += 4;
  return bitsAt(bytes, 8 * at, 32) >>> 0;
}

export type Numbers = Uint8Array | Uint32Array;

/**
 * Numbers of the RLE and bit-packing hybrid. They are decoded where they are read, because a run of millions has a few
 * bytes. Reading in order passes each run once.
 *
 * @see https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE
 */
export class Hybrid {
  readonly #bytes: Uint8Array;
  readonly #start: number;
  readonly #width: number;
  /** Current run: its first number, and their count. */
  #first = 0;
  #count = 0;
  /** Number that it repeats. Undefined if the run is packed. */
  #repeated: number | undefined;
  /** Places of its bytes, and of the next run. */
  #data: number;
  #next: number;

  constructor({ bytes, at }: Source, width: number) {
    this.#bytes = bytes;
    this.#start = at;
    this.#width = width;
    this.#data = at;
    this.#next = at;
  }

  /** Returns the numbers `skip` to `skip + take` (exclusive). */
  read(skip: number, take: number): Numbers {
    const numbers = this.#width <= 8 ? new Uint8Array(take) : new Uint32Array(take);
    if (this.#width === 0) return numbers;
    for (let done = 0; done < take; ) {
      this.#goTo(skip + done);
      const from = skip + done - this.#first;
      const some = Math.min(take - done, this.#count - from);
      this.#copy(from, some, numbers, done);
      done += some;
    }
    return numbers;
  }

  at(place: number): number {
    this.#goTo(place);
    if (this.#repeated !== undefined) return this.#repeated;
    const from = place - this.#first;
    this.#check(from + 1);
    return bitsAt(this.#bytes, 8 * this.#data + from * this.#width, this.#width);
  }

  /** Returns how often a number occurs from a place to another (exclusive), and leaves the current run as it is. */
  count(number: number, from: number, to: number): number {
    const others = new Hybrid({ bytes: this.#bytes, at: this.#start }, this.#width);
    let count = 0;
    for (let at = from; at < to; at += COUNTED_AT_ONCE) {
      count += countIn(others.read(at, Math.min(COUNTED_AT_ONCE, to - at)), number);
    }
    return count;
  }

  #goTo(place: number): void {
    if (place < this.#first) [this.#first, this.#count, this.#next] = [0, 0, this.#start];
    while (place >= this.#first + this.#count) this.#goOn();
  }

  #goOn(): void {
    this.#first += this.#count;
    const source = { bytes: this.#bytes, at: this.#next };
    const header = readVarint(source);
    const isPacked = (header & 1) === 1;
    this.#count = (header >>> 1) * (isPacked ? 8 : 1);
    this.#data = source.at;
    const size = isPacked ? (this.#count / 8) * this.#width : Math.ceil(this.#width / 8);
    this.#next = source.at + size;
    if (!isPacked) this.#check(1);
    this.#repeated = isPacked ? undefined : bitsAt(this.#bytes, 8 * source.at, this.#width);
  }

  /** Copies numbers of the current run. */
  #copy(from: number, take: number, to: Numbers, place: number): void {
    if (this.#repeated !== undefined) {
      to.fill(this.#repeated, place, place + take);
      return;
    }
    this.#check(from + take);
    const [bytes, width] = [this.#bytes, this.#width];
    for (let at = 0, bit = 8 * this.#data + from * width; at < take; at++, bit += width) {
      to[place + at] = bitsAt(bytes, bit, width);
    }
  }

  /** @throws Error if the current run has fewer numbers. It may claim to have more */
  #check(numbers: number): void {
    const end = this.#data + Math.ceil((numbers * this.#width) / 8);
    if (end > this.#bytes.length) throw new Error('a run that ends too early');
  }
}

const COUNTED_AT_ONCE = 65_536;

export function countIn(numbers: Numbers, number: number): number {
  let count = 0;
  for (let at = 0; at < numbers.length; at++) if (numbers[at] === number) count += 1;
  return count;
}

/** Reads `width` bits from a bit on, at most 32. Bits after the end are 0. */
export function bitsAt(bytes: Uint8Array, bit: number, width: number): number {
  const at = Math.floor(bit / 8);
  const shift = bit % 8;
  const low =
    byteAt(bytes, at) | (byteAt(bytes, at + 1) << 8) | (byteAt(bytes, at + 2) << 16) | (byteAt(bytes, at + 3) << 24);
  const all = shift === 0 ? low : (low >>> shift) | (byteAt(bytes, at + 4) << (32 - shift));
  return width === 32 ? all : all & ((1 << width) - 1);
}

function byteAt(bytes: Uint8Array, at: number): number {
  return at < bytes.length ? (bytes[at] as number) : 0;
}

/** Reads an unsigned LEB128. @returns its low 32 bits */
export function readVarint(source: Source): number {
  const end = endOfVarint(source.bytes, source.at);
  let value = 0;
  for (let shift = 0; source.at < end; source.at++, shift += 7) {
    if (shift < 32) value |= ((source.bytes[source.at] as number) & 0x7f) << shift;
  }
  return value >>> 0;
}

const MAX_VARINT_BYTES = 10;

function endOfVarint(bytes: { readonly length: number; readonly [at: number]: number }, at: number): number {
  for (let end = at; end < bytes.length && end < at + MAX_VARINT_BYTES; end++) {
    if ((bytes[end] as number) < 0x80) return end + 1;
  }
  throw new Error('a number that does not end');
}

/** Reads a zigzag number of 64 bits, as a low and a high half. */
export function readZigzag(source: Source): readonly [low: number, high: number] {
  const end = endOfVarint(source.bytes, source.at);
  let value = 0n;
  for (let shift = 0n; source.at < end; source.at++, shift += 7n) {
    value |= BigInt((source.bytes[source.at] as number) & 0x7f) << shift;
  }
  const signed = BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));
  return [Number(BigInt.asIntN(32, signed)), Number(BigInt.asIntN(32, signed >> 32n))];
}

/** Maximum depth of nested structs. Parquet itself has six levels. */
const MAX_LEVELS = 32;

/**
 * Checks a Thrift struct before hyparquet reads it, because hyparquet trusts the stated lengths of lists and numbers.
 *
 * @throws Error if the bytes are not a valid struct
 * @see https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 */
export function checkThrift(bytes: Uint8Array, start: number): void {
  endOfStruct(bytes, start, 0);
}

function endOfStruct(bytes: Uint8Array, start: number, levels: number): number {
  if (levels > MAX_LEVELS) throw new Error('structs within structs');
  for (let at = start; ; ) {
    const [head] = sliceOf(bytes, at, 1);
    at += 1;
    const type = (head as number) & 0x0f;
    if (type === 0) return at;
    if ((head as number) >> 4 === 0) at = endOfVarint(bytes, at);
    at = endOfElement(bytes, at, type, levels);
  }
}

function endOfElement(bytes: Uint8Array, at: number, type: number, levels: number): number {
  switch (type) {
    case 1:
    case 2:
      return at;
    case 3:
      return at + sliceOf(bytes, at, 1).length;
    case 4:
    case 5:
    case 6:
      return endOfVarint(bytes, at);
    case 7:
      return at + sliceOf(bytes, at, 8).length;
    case 8: {
      const source = { bytes, at };
      const length = readVarint(source);
      return source.at + sliceOf(bytes, source.at, length).length;
    }
    case 9: {
      const source = { bytes, at: at + 1 };
      const [head] = sliceOf(bytes, at, 1);
      const size = (head as number) >> 4 === 15 ? readVarint(source) : (head as number) >> 4;
      // Each element takes at least a byte.
      sliceOf(bytes, source.at, size);
      const elements = (head as number) & 0x0f;
      let end = source.at;
      for (let index = 0; index < size; index++) {
        end = elements < 3 ? end + 1 : endOfElement(bytes, end, elements, levels + 1);
      }
      return end;
    }
    case 12:
      return endOfStruct(bytes, at, levels + 1);
    default:
      throw new Error(`the type ${type} of Thrift`);
  }
}
