import type { DecodedArray, ParquetType, SchemaTree } from 'hyparquet';
import { FREE_BYTES, type Spend, TEXT_BYTES } from './parquetBudget.ts';
import {
  bitsAt,
  Hybrid,
  type Numbers,
  readBlock,
  readVarint,
  readZigzag,
  type Source,
  sliceOf,
} from './parquetBytes.ts';
import { convertValues } from './parquetValues.ts';

export interface Leaf {
  readonly path: readonly SchemaTree[];
  readonly type: ParquetType;
  /** Size of a FIXED_LEN_BYTE_ARRAY value. */
  readonly length: number;
  readonly definition: number;
  readonly repetition: number;
  /** Memory of a value by its repetition level. */
  readonly bytesOf: readonly number[];
  /** Memory of a row that costs nothing. */
  readonly freeBytes: number;
}

/** Values of a dictionary page. */
export interface Dictionary {
  readonly values: DecodedArray;
  /** Stored sizes of texts and bytes. Undefined for numbers. */
  readonly sizes: Uint32Array | undefined;
}

/** Values of a page. Reading them in order decodes each once. */
export interface Values {
  /** Returns the values `skip` to `skip + take` (exclusive). */
  read(skip: number, take: number): DecodedArray;
}

interface ValueOptions {
  readonly leaf: Leaf;
  readonly dictionary: Dictionary | undefined;
  /** Number of values in the page, with nulls. */
  readonly most: number;
  readonly spend: Spend;
}

/** Opens the values of a page, converted. */
export function openValues(encoding: string, source: Source, options: ValueOptions): Values {
  const { leaf, dictionary, spend } = options;
  if (encoding === 'PLAIN_DICTIONARY' || encoding === 'RLE_DICTIONARY') {
    if (dictionary === undefined) throw new Error('a page without its dictionary');
    let indices: Hybrid | undefined;
    return {
      read(skip, take) {
        indices ??= indicesIn(source);
        return lookUp(dictionary, indices.read(skip, take), leaf, spend);
      },
    };
  }
  let raw: Values | undefined;
  return {
    read(skip, take) {
      raw ??= openRaw(encoding, source, options);
      const values = raw.read(skip, take);
      if (leaf.type === 'BYTE_ARRAY') for (const { length } of values as Uint8Array[]) spendCopies(length, spend);
      return convertValues(values, leaf.path, spend);
    },
  };
}

function indicesIn({ bytes, at }: Source): Hybrid {
  const [width = 0] = sliceOf(bytes, at, 1);
  if (width > 32) throw new Error(`indices of ${width} bits`);
  return new Hybrid({ bytes, at: at + 1 }, width);
}

function lookUp({ values, sizes }: Dictionary, indices: Numbers, { repetition }: Leaf, spend: Spend): DecodedArray {
  const freeBytes = repetition === 0 ? FREE_BYTES : TEXT_BYTES;
  const found: unknown[] = new Array(indices.length);
  for (let at = 0; at < indices.length; at++) {
    const index = indices[at] as number;
    if (index >= values.length) throw new Error(`value ${index} of a dictionary of ${values.length}`);
    if (sizes !== undefined) spendRepeated(sizes[index] as number, freeBytes, spend);
    found[at] = values[index];
  }
  return found;
}

/** Spends a text that is stored once for several rows: each row writes it. */
function spendRepeated(bytes: number, freeBytes: number, spend: Spend): void {
  if (bytes > freeBytes) spend(bytes - freeBytes);
  spendCopies(bytes, spend);
}

/** Spends the copies of a long text, which its request, its answer and their escapes make. */
function spendCopies(bytes: number, spend: Spend): void {
  if (bytes > LONG_BYTES) spend(COPIES * (bytes - LONG_BYTES));
}

const LONG_BYTES = 1024 * 1024;
const COPIES = 8;

function openRaw(encoding: string, source: Source, { leaf, most, spend }: ValueOptions): Values {
  switch (encoding) {
    case 'PLAIN':
      return plainValues(source, leaf);
    case 'RLE': {
      const bits = new Hybrid(readBlock(source), 1);
      return { read: (skip, take) => Array.from(bits.read(skip, take), (bit) => bit === 1) };
    }
    case 'BYTE_STREAM_SPLIT':
      return splitValues(source, leaf);
    case 'DELTA_BINARY_PACKED':
      return new Differences(source, most, leaf.type !== 'INT32');
    case 'DELTA_LENGTH_BYTE_ARRAY':
      return textsAfterLengths(source, most, spend);
    case 'DELTA_BYTE_ARRAY':
      return textsWithPrefixes(source, most, spend);
    default:
      throw new Error(`the encoding ${encoding}`);
  }
}

export function plainValues({ bytes, at }: Source, leaf: Leaf): Values {
  if (leaf.type === 'BYTE_ARRAY') {
    return new Texts(() => {
      const source = { bytes, at };
      return () => readBlock(source).bytes;
    });
  }
  if (leaf.type === 'BOOLEAN') {
    return {
      read(skip, take) {
        sliceOf(bytes, at, Math.ceil((skip + take) / 8));
        return Array.from({ length: take }, (_, value) => bitsAt(bytes, 8 * at + skip + value, 1) === 1);
      },
    };
  }
  const width = widthOf(leaf);
  return { read: (skip, take) => readTyped(leaf, sliceOf(bytes, at + skip * width, take * width), width) };
}

/** Texts that are found one after the other. Going back starts over. */
class Texts implements Values {
  readonly #open: () => () => Uint8Array;
  #next: () => Uint8Array;
  #at = 0;

  /** @param open returns a function that returns the next text */
  constructor(open: () => () => Uint8Array) {
    this.#open = open;
    this.#next = open();
  }

  read(skip: number, take: number): Uint8Array[] {
    if (skip < this.#at) [this.#next, this.#at] = [this.#open(), 0];
    for (; this.#at < skip; this.#at++) this.#next();
    this.#at += take;
    return Array.from({ length: take }, () => this.#next());
  }
}

function widthOf({ type, length }: Leaf): number {
  if (type === 'INT32' || type === 'FLOAT') return 4;
  if (type === 'INT64' || type === 'DOUBLE') return 8;
  const width = type === 'INT96' ? 12 : length;
  if (width > 0) return width;
  throw new Error(`values of ${length} bytes`);
}

function readTyped({ type }: Leaf, bytes: Uint8Array, width: number): DecodedArray {
  // The copy aligns the values: a page may begin at any byte.
  if (type === 'INT32') return new Int32Array(bytes.slice().buffer);
  if (type === 'INT64') return new BigInt64Array(bytes.slice().buffer);
  if (type === 'FLOAT') return new Float32Array(bytes.slice().buffer);
  if (type === 'DOUBLE') return new Float64Array(bytes.slice().buffer);
  const values = Array.from({ length: bytes.length / width }, (_, at) => bytes.subarray(at * width, (at + 1) * width));
  if (type !== 'INT96') return values;
  return values.map(({ buffer, byteOffset }) => {
    const view = new DataView(buffer, byteOffset, width);
    return (BigInt(view.getInt32(8, true)) << 64n) | view.getBigUint64(0, true);
  });
}

/** Reads BYTE_STREAM_SPLIT: the first bytes of all values, then the second ones, and so on. */
function splitValues({ bytes, at }: Source, leaf: Leaf): Values {
  const width = widthOf(leaf);
  const all = Math.floor((bytes.length - at) / width);
  return {
    read(skip, take) {
      if (skip + take > all) throw new Error(`${all} values where ${skip + take} are read`);
      const own = new Uint8Array(take * width);
      for (let byte = 0; byte < width; byte++) {
        const from = at + byte * all + skip;
        for (let value = 0; value < take; value++) own[value * width + byte] = bytes[from + value] as number;
      }
      return readTyped(leaf, own, width);
    },
  };
}

/**
 * Integers as differences: DELTA_BINARY_PACKED. They wrap around, so 32-bit values need only the low halves of the
 * differences. Going back starts over.
 *
 * @see https://parquet.apache.org/docs/file-format/data-pages/encodings/#delta-encoding-delta_binary_packed--5
 */
class Differences implements Values {
  readonly count: number;
  readonly #isWide: boolean;
  readonly #first: readonly [low: number, high: number];
  /** Place of the first block. */
  readonly #start: number;
  readonly #miniblocks: number;
  readonly #perMiniblock: number;
  readonly #source: Source;
  /** Last value that is decoded, and its halves. */
  #at = -1;
  #low = 0;
  #high = 0;
  /** Least difference of the block, and the widths of its miniblocks that are not begun. */
  #least: readonly [low: number, high: number] = [0, 0];
  #widths: Uint8Array = new Uint8Array();
  /** Current miniblock: differences that are left, their width, and the bit where they begin. */
  #left = 0;
  #width = 0;
  #bit = 0;

  /** @param most number of values that there may be */
  constructor(source: Source, most: number, isWide: boolean) {
    this.#source = source;
    this.#isWide = isWide;
    const [blockSize, miniblocks, count] = [readVarint(source), readVarint(source), readVarint(source)];
    if (count > most) throw new Error(`${count} differences for ${most} values`);
    this.count = count;
    this.#miniblocks = miniblocks;
    this.#perMiniblock = blockSize / miniblocks;
    if (miniblocks > 4096 || !(this.#perMiniblock > 0) || this.#perMiniblock % 8 !== 0) {
      throw new Error(`blocks of ${blockSize} differences in ${miniblocks}`);
    }
    this.#first = readZigzag(source);
    this.#start = source.at;
  }

  read(skip: number, take: number): Int32Array | BigInt64Array {
    if (skip + take > this.count) throw new Error(`${this.count} differences where ${skip + take} are read`);
    if (skip <= this.#at) {
      [this.#at, this.#left, this.#source.at] = [-1, 0, this.#start];
      this.#widths = new Uint8Array();
    }
    const halves = new Int32Array(take * (this.#isWide ? 2 : 1));
    while (this.#at + 1 < skip + take) this.#decode(skip + take, halves, skip);
    return this.#isWide ? new BigInt64Array(halves.buffer) : halves;
  }

  /** Decodes the next values up to `end`, at most one miniblock. Writes those from `first` on. */
  #decode(end: number, halves: Int32Array, first: number): void {
    const isWide = this.#isWide;
    const put = (at: number, low: number, high: number): void => {
      if (at < first) return;
      if (!isWide) halves[at - first] = low;
      else {
        halves[2 * (at - first)] = low;
        halves[2 * (at - first) + 1] = high;
      }
    };
    if (this.#at < 0) {
      [this.#low, this.#high] = this.#first;
      this.#at = 0;
      put(0, this.#low, this.#high);
      return;
    }
    if (this.#left === 0) this.#beginMiniblock();
    const { bytes } = this.#source;
    const [leastLow, leastHigh] = this.#least;
    const width = this.#width;
    const [lowWidth, highWidth] = [Math.min(width, 32), Math.max(0, width - 32)];
    const values = Math.min(this.#left, end - 1 - this.#at);
    let [low, high, bit] = [this.#low, this.#high, this.#bit];
    sliceOf(bytes, Math.floor(bit / 8), Math.ceil(((bit % 8) + values * width) / 8));
    for (let at = this.#at + 1; at <= this.#at + values; at++, bit += width) {
      const restLow = lowWidth === 0 ? 0 : bitsAt(bytes, bit, lowWidth);
      const restHigh = highWidth === 0 ? 0 : bitsAt(bytes, bit + 32, highWidth);
      const sum = (low >>> 0) + (leastLow >>> 0) + (restLow >>> 0);
      low = sum | 0;
      high = (high + leastHigh + restHigh + Math.floor(sum / 2 ** 32)) | 0;
      put(at, low, high);
    }
    [this.#low, this.#high, this.#bit] = [low, high, bit];
    this.#at += values;
    this.#left -= values;
  }

  #beginMiniblock(): void {
    const source = this.#source;
    if (this.#widths.length === 0) {
      this.#least = readZigzag(source);
      this.#widths = sliceOf(source.bytes, source.at, this.#miniblocks);
      source.at += this.#miniblocks;
    }
    this.#width = this.#widths[0] as number;
    if (this.#width > 64) throw new Error(`differences of ${this.#width} bits`);
    this.#widths = this.#widths.subarray(1);
    this.#left = this.#perMiniblock;
    this.#bit = 8 * source.at;
    source.at += (this.#perMiniblock * this.#width) / 8;
  }
}

/** Reads the lengths of texts. `source` is behind them then. */
function lengthsIn(source: Source, most: number, spend: Spend): Int32Array {
  const differences = new Differences(source, most, false);
  spend(Int32Array.BYTES_PER_ELEMENT * differences.count);
  return differences.read(0, differences.count) as Int32Array;
}

function textsAfterLengths(source: Source, most: number, spend: Spend): Values {
  const lengths = lengthsIn(source, most, spend);
  const { bytes, at: start } = source;
  return new Texts(() => {
    let [text, at] = [0, start];
    return () => {
      const found = sliceOf(bytes, at, lengths[text++]);
      at += found.length;
      return found;
    };
  });
}

/** Reads DELTA_BYTE_ARRAY: each text shares a prefix with the one before. */
function textsWithPrefixes(source: Source, most: number, spend: Spend): Values {
  const [prefixes, lengths] = [lengthsIn(source, most, spend), lengthsIn(source, most, spend)];
  const { bytes, at: start } = source;
  return new Texts(() => {
    let [text, at, last] = [0, start, new Uint8Array()];
    return () => {
      const [prefix, length] = [prefixes[text], lengths[text++]];
      if (length === 0 && prefix === last.length) {
        spendRepeated(last.length, FREE_BYTES, spend);
        return last;
      }
      const [begin, end] = [sliceOf(last, 0, prefix), sliceOf(bytes, at, length)];
      spend(begin.length);
      last = new Uint8Array(begin.length + end.length);
      last.set(begin);
      last.set(end, begin.length);
      at += end.length;
      return last;
    };
  });
}
