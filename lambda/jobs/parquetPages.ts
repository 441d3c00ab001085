import zlib, { brotliDecompressSync, gunzipSync } from 'node:zlib';
import {
  type ColumnMetaData,
  type DecodedArray,
  type PageHeader,
  type ParquetType,
  type SchemaTree,
  snappyUncompress,
} from 'hyparquet';
import { assembleLists, assembleNested } from 'hyparquet/src/assemble.js';
import { parquetHeader } from 'hyparquet/src/column.js';
import { getMaxDefinitionLevel, getMaxRepetitionLevel, isFlatColumn } from 'hyparquet/src/schema.js';
import { convertValues, parsersOf } from './parquetValues.ts';
import { zstdOfNode } from './textRows.ts';

/*
 * Reads the pages of a column chunk. hyparquet reads the footer, the headers and the nesting. This file checks what
 * hyparquet does not: the number of values in a page, the length of a run, the inflated size of a page, and differences
 * of more bits than a value.
 *
 * The file is long because each encoding needs the same bounds checks, and they stay beside each other here.
 */

/** Leaf of the schema in one row group. */
export interface Chunk {
  readonly about: ColumnMetaData;
  /** Schema elements from the root to the leaf. */
  readonly path: readonly SchemaTree[];
  /** Bytes from the first header to the end of the last page. */
  readonly length: number;
  /** Reads bytes `start` to `end` (exclusive) of them. */
  readonly read: (start: number, end: number) => Promise<Uint8Array>;
}

interface Rows {
  readonly from: number;
  readonly to: number;
}

/** Takes bytes from a budget. @throws Error if fewer are left */
export type Spend = (bytes: number) => void;

/** Reader of a column in a row group. It holds one page of each leaf. Reading rows in order decodes each page once. */
export interface ColumnReader {
  /**
   * Returns the values of some rows, with null for a missing one.
   *
   * @param spend takes from the memory of the values: see {@link maxValues}
   * @throws Error if the pages contradict their headers or the footer
   */
  read(rows: Rows, spend: Spend): Promise<DecodedArray>;
}

/**
 * Opens a column of a row group.
 *
 * @param chunks leaves of the column: one, unless it is nested
 * @param inflation budget of inflated bytes that all columns of the row group share
 */
export function openColumn(chunks: readonly Chunk[], inflation: Spend): ColumnReader {
  const [first] = chunks;
  const top = first?.path[1];
  if (first === undefined || top === undefined) throw new Error('no such column');
  const leaves = chunks.map((chunk) => new PageCursor(chunk, leafOf(chunk.path), inflation));
  const [only] = leaves as [PageCursor];
  if (isFlatColumn([...first.path])) return { read: (rows, spend) => readFlat(only, rows, spend) };
  return {
    async read(rows, spend) {
      const values = new Map<string, DecodedArray>();
      for (const leaf of leaves)
        values.set(leaf.chunk.about.path_in_schema.join('.'), await readNested(leaf, rows, spend));
      assembleNested(values, top, parsersOf(top.element));
      return values.get(top.element.name) ?? [];
    },
  };
}

interface Leaf {
  readonly path: readonly SchemaTree[];
  readonly type: ParquetType;
  /** Size of a FIXED_LEN_BYTE_ARRAY value. */
  readonly length: number;
  readonly definition: number;
  readonly repetition: number;
}

function leafOf(path: readonly SchemaTree[]): Leaf {
  const { type, type_length: length = 0 } = path.at(-1)?.element ?? {};
  if (type === undefined) throw new Error('a column without a type');
  const [definition, repetition] = [getMaxDefinitionLevel([...path]), getMaxRepetitionLevel([...path])];
  return { path, type, length, definition, repetition };
}

async function readFlat(pages: PageCursor, { from, to }: Rows, spend: Spend): Promise<DecodedArray> {
  const found: DecodedArray[] = [];
  for (let page = await pages.at(from, spend); page !== undefined; page = await pages.next()) {
    const [first, end] = [Math.max(0, from - page.row), Math.min(page.values, to - page.row)];
    if (first < end) found.push(flatValues(page, pages.leaf, first, end));
    if (page.row + page.values >= to) break;
  }
  return concatenate(found);
}

function flatValues(page: Page, leaf: Leaf, first: number, end: number): DecodedArray {
  const levels = page.body.levels.definition?.read(first, end - first);
  const values = valuesIn(page, leaf, first, end, levels);
  if (levels === undefined || values.length === end - first) return values;
  const filled: unknown[] = new Array(levels.length).fill(null);
  for (let at = 0, next = 0; at < levels.length; at++) {
    if (levels[at] === leaf.definition) filled[at] = values[next++];
  }
  return filled;
}

/**
 * Returns the same values without nulls.
 *
 * @param levels definition levels of these values
 */
function valuesIn(page: Page, leaf: Leaf, first: number, end: number, levels: Numbers | undefined): DecodedArray {
  const { definition } = page.body.levels;
  if (definition === undefined || levels === undefined) {
    return valuesOf(page, leaf, { all: () => page.values, skip: first, take: end - first });
  }
  const { counted } = page.body;
  const isAfter = counted.at <= first;
  const skip = (isAfter ? counted.values : 0) + definition.count(leaf.definition, isAfter ? counted.at : 0, first);
  const take = countIn(levels, leaf.definition);
  Object.assign(counted, { at: end, values: skip + take });
  const all = (): number => {
    counted.all ??= skip + take + definition.count(leaf.definition, end, page.values);
    return counted.all;
  };
  return valuesOf(page, leaf, { all, skip, take });
}

function concatenate(parts: readonly DecodedArray[]): DecodedArray {
  const [first = [], ...others] = parts;
  if (others.length === 0) return first;
  const none: unknown[] = [];
  return none.concat(...parts.map((part) => (Array.isArray(part) ? part : Array.from<unknown>(part))));
}

async function readNested(pages: PageCursor, rows: Rows, spend: Spend): Promise<DecodedArray> {
  const { leaf } = pages;
  const found: unknown[] = [];
  for (let page = await pages.at(rows.from, spend); page !== undefined; page = await pages.next()) {
    const { first, end, repetitions } = valuesOfRows(page, rows);
    if (first < end) {
      const definitions = page.body.levels.definition?.read(first, end - first);
      const values = valuesIn(page, leaf, first, end, definitions);
      // DuckDB writes a null array as several elements. The elements after the first are no values.
      const isThere = (_: unknown, at: number): boolean => (repetitions?.[at] ?? 0) === 0 || definitions?.[at] !== 0;
      const [defined, repeated] = [definitions, repetitions].map((levels) => Array.from(levels ?? []).filter(isThere));
      const some = assembleLists(found, defined, repeated ?? [], values, [...leaf.path]);
      if (some !== found) for (let at = 0; at < some.length; at++) found.push(some[at]);
    }
    if (end < page.values) break;
  }
  return found;
}

/** Cost of an element of a list. A run of levels makes millions of a few bytes, and a row has all of its own at once. */
const ELEMENT_BYTES = 8;

/** Returns the span of the values of some rows in a page, and their repetition levels. */
function valuesOfRows(page: Page, { from, to }: Rows) {
  const { repetition } = page.body.levels;
  if (repetition === undefined) {
    return { first: Math.max(0, from - page.row), end: Math.max(0, Math.min(page.values, to - page.row)) };
  }
  const { reached } = page.body;
  let { at, row } = reached.row <= from ? reached : { at: 0, row: page.row };
  let first = at;
  const repetitions: number[] = [];
  for (; at < page.values; at++) {
    const level = repetition.at(at);
    // A value with repetition level 0 begins a row.
    if (level === 0 && row >= to) break;
    if (level === 0) row += 1;
    if (row <= from) first = at + 1;
    else {
      page.spend(ELEMENT_BYTES);
      repetitions.push(level);
    }
  }
  Object.assign(reached, { at, row });
  return { first, end: at, repetitions };
}

interface Page {
  /** First row of the page in the row group. */
  readonly row: number;
  readonly values: number;
  readonly encoding: string;
  readonly spend: Spend;
  readonly dictionary: Dictionary | undefined;
  /** Inflated on first access. */
  readonly body: Body;
}

/** Cursor over the data pages of a chunk, in order, up to the number of values in the footer. It holds one page. */
class PageCursor {
  readonly chunk: Chunk;
  readonly leaf: Leaf;
  readonly #inflate: Inflate;
  #spend: Spend;
  #offset = 0;
  #values = 0;
  #page: Page | undefined;
  #dictionary: Dictionary | undefined;

  constructor(chunk: Chunk, leaf: Leaf, inflation: Spend) {
    this.chunk = chunk;
    this.leaf = leaf;
    this.#inflate = inflaterOf(chunk.about, inflation);
    this.#spend = budgetOf(0);
  }

  /** Returns the page of `row`, or one before it. It starts over if the held page is past the row. */
  async at(row: number, spend: Spend): Promise<Page | undefined> {
    this.#spend = spend;
    if (this.#page !== undefined && this.#page.row <= row) return this.#page;
    this.#page = undefined;
    [this.#offset, this.#values] = [0, 0];
    return await this.next();
  }

  async next(): Promise<Page | undefined> {
    const total = Number(this.chunk.about.num_values);
    const row = this.#page === undefined ? 0 : this.#page.row + rowsIn(this.#page, this.leaf);
    while (this.#values < total) {
      const header = await this.#header();
      const stored = await this.#read(header.compressed_page_size);
      const data = header.data_page_header ?? header.data_page_header_v2;
      if (header.type === 'DICTIONARY_PAGE') this.#dictionary = this.#dictionaryOf(header, stored);
      if (header.type === 'DICTIONARY_PAGE' || data === undefined) continue;
      const values = countOf(data.num_values, total - this.#values);
      this.#values += values;
      this.#page = this.#pageOf(header, stored, { row, values, encoding: data.encoding });
      return this.#page;
    }
    return undefined;
  }

  #pageOf(header: PageHeader, stored: Uint8Array, about: Pick<Page, 'row' | 'values' | 'encoding'>): Page {
    const { leaf } = this;
    const inflate = this.#inflate;
    let body: Body | undefined;
    let left: Uint8Array | undefined = stored;
    return {
      ...about,
      dictionary: this.#dictionary,
      spend: (bytes) => this.#spend(bytes),
      get body() {
        if (left !== undefined) body = bodyOf(header, about.row, left, inflate, leaf);
        // Frees the bytes that were read around the page.
        left = undefined;
        if (body === undefined) throw new Error('a page that could not be read before');
        return body;
      },
    };
  }

  #dictionaryOf(header: PageHeader, stored: Uint8Array): Dictionary {
    const count = countOf(header.dictionary_page_header?.num_values, Number.MAX_SAFE_INTEGER);
    const body = this.#inflate(stored, header.uncompressed_page_size);
    this.#spend(count * ENTRY_BYTES);
    const values = plainValues({ bytes: body, at: 0 }, this.leaf, 0, count);
    const areBytes = this.leaf.type === 'BYTE_ARRAY' || this.leaf.type === 'FIXED_LEN_BYTE_ARRAY';
    const sizes = areBytes ? Uint32Array.from(values, ({ length }) => length) : undefined;
    return { values: convertValues(values, this.leaf.path), sizes };
  }

  /** Reads the next header. Most headers are short, but statistics can make one long. */
  async #header(): Promise<PageHeader> {
    const { length, read } = this.chunk;
    for (let size = HEADER_BYTES; ; size *= 8) {
      const end = Math.min(length, this.#offset + size);
      const bytes = asPlain(await read(this.#offset, end));
      try {
        checkThrift(bytes, 0);
      } catch (error) {
        if (end === length) throw error;
        continue;
      }
      const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
      const header = parquetHeader(reader);
      this.#offset += reader.offset;
      return header;
    }
  }

  async #read(size: unknown): Promise<Uint8Array> {
    const start = this.#offset;
    const end = start + Number(size);
    if (!Number.isSafeInteger(size) || (size as number) < 0 || end > this.chunk.length) {
      throw new Error(`${size} bytes where ${this.chunk.length - start} are left`);
    }
    this.#offset = end;
    return asPlain(await this.chunk.read(start, end));
  }
}

const HEADER_BYTES = 8 * 1024;

function rowsIn(page: Page, { repetition }: Leaf): number {
  if (repetition === 0) return page.values;
  valuesOfRows(page, { from: Number.POSITIVE_INFINITY, to: Number.POSITIVE_INFINITY });
  return page.body.reached.row - page.row;
}

function countOf(count: unknown, max: number): number {
  if (Number.isSafeInteger(count) && (count as number) >= 0 && (count as number) <= max) return count as number;
  throw new Error(`a page of ${count} values where at most ${max} are left`);
}

function sliceOf(bytes: Uint8Array, at: number, length: unknown): Uint8Array {
  const end = at + Number(length);
  if (Number.isSafeInteger(length) && (length as number) >= 0 && end <= bytes.length) return bytes.subarray(at, end);
  throw new Error(`${length} bytes where ${bytes.length - at} are left`);
}

/** @param size inflated size of the page according to its header */
type Inflate = (stored: Uint8Array, size: unknown) => Uint8Array;

/** Assumed memory of a dictionary value. */
const ENTRY_BYTES = 128;

const MIB = 1024 * 1024;
/** Highest compression ratio of deflate. */
const DEFLATED = 1032;

/**
 * Returns the maximum inflated size of columns that are read together. It is generous: Brotli stores a mebibyte of one
 * value in a few bytes, and some writers put a whole row group into one page.
 *
 * @param stored bytes of these columns in the file
 */
export function maxInflation(stored: number): number {
  return 32 * MIB + 4 * DEFLATED * stored;
}

/** Returns the maximum memory of the values of rows that are read together, beside 16 KiB of each. @param stored as above */
export function maxValues(stored: number): number {
  return 8 * MIB + DEFLATED * stored;
}

/** Maximum size of a page. It is in memory as a whole. */
const MAX_PAGE_BYTES = 256 * MIB;

type Codec = (stored: Uint8Array, size: number) => Uint8Array;

/** Limits the output of zlib to `size` bytes. */
const upTo = (size: number) => ({
  maxOutputLength: Math.max(1, size),
  chunkSize: Math.max(64, Math.min(size, MIB)),
});

const CODEC_BY_NAME: Readonly<Record<string, Codec>> = {
  UNCOMPRESSED: (stored) => stored,
  SNAPPY(stored, size) {
    const page = new Uint8Array(size);
    snappyUncompress(stored, page);
    return page;
  },
  GZIP: (stored, size) => gunzipSync(stored, upTo(size)),
  ZSTD: (stored, size) => zstdOfNode(zlib.zstdDecompressSync)(stored, upTo(size)),
  BROTLI: (stored, size) => brotliDecompressSync(stored, upTo(size)),
};
export const CODECS: readonly string[] = Object.keys(CODEC_BY_NAME);

export function budgetOf(max: number): Spend {
  let left = max;
  return (bytes) => {
    left -= bytes;
    if (!(left >= 0)) throw new Error(`more than ${max} bytes of so few`);
  };
}

function inflaterOf({ codec }: ColumnMetaData, inflation: Spend): Inflate {
  const decompress = CODEC_BY_NAME[codec];
  if (decompress === undefined) throw new Error(`${codec}`);
  return (stored, size) => {
    if (!Number.isSafeInteger(size) || (size as number) < 0 || (size as number) > MAX_PAGE_BYTES) {
      throw new Error(`a page of ${size} bytes, where at most ${MAX_PAGE_BYTES} are read`);
    }
    inflation(size as number);
    // A page of only nulls may have no bytes, which no codec accepts.
    const page = size === 0 ? new Uint8Array() : decompress(stored, size as number);
    if (page.length !== size) throw new Error(`a page of ${page.length} bytes, not ${size}`);
    return asPlain(page);
  };
}

/** Converts a Buffer to a plain array: its slices are copies, and JSON writes it as numbers. */
function asPlain({ buffer, byteOffset, byteLength }: Uint8Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Values of a dictionary page. */
interface Dictionary {
  readonly values: DecodedArray;
  /** Stored sizes of texts and bytes. Undefined for numbers. */
  readonly sizes: Uint32Array | undefined;
}

/** One level for each value. Undefined if the column has only one level. */
type Levels = Hybrid | undefined;

/** Inflated page: its levels, and the position of its values. */
interface Body extends Readonly<Source> {
  readonly levels: { readonly repetition: Levels; readonly definition: Levels };
  /** Cache of the number of non-null values before `at`, and in the whole page. */
  readonly counted: { at: number; values: number; all?: number };
  /** First value that is not read yet, and the number of rows in the row group that begin before it. */
  readonly reached: { at: number; row: number };
  /** Places of the values in the dictionary, from the first access. */
  indices?: Hybrid;
}

interface Source {
  readonly bytes: Uint8Array;
  at: number;
}

function bodyOf(header: PageHeader, row: number, stored: Uint8Array, inflate: Inflate, leaf: Leaf): Body {
  const counts = { counted: { at: 0, values: 0 }, reached: { at: 0, row } };
  const v2 = header.data_page_header_v2;
  const levelsOf = (max: number, bytes: () => Source): Levels =>
    max === 0 ? undefined : new Hybrid(bytes(), 32 - Math.clz32(max));
  if (v2 === undefined) {
    const body = { bytes: inflate(stored, header.uncompressed_page_size), at: 0 };
    const levels = (max: number) => levelsOf(max, () => readBlock(body));
    return { levels: { repetition: levels(leaf.repetition), definition: levels(leaf.definition) }, ...counts, ...body };
  }
  const repetition = sliceOf(stored, 0, v2.repetition_levels_byte_length);
  const definition = sliceOf(stored, repetition.length, v2.definition_levels_byte_length);
  const levelBytes = repetition.length + definition.length;
  const rest = stored.subarray(levelBytes);
  const size = Number(header.uncompressed_page_size) - levelBytes;
  return {
    levels: {
      repetition: levelsOf(leaf.repetition, () => ({ bytes: repetition, at: 0 })),
      definition: levelsOf(leaf.definition, () => ({ bytes: definition, at: 0 })),
    },
    ...counts,
    bytes: v2.is_compressed === false ? rest : inflate(rest, size),
    at: 0,
  };
}

/** Reads a block that begins with its length in four bytes. */
function readBlock(source: Source): Source {
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

interface Wanted {
  /** Returns the number of values in the page, without nulls. */
  readonly all: () => number;
  readonly skip: number;
  readonly take: number;
}

/** Decodes and converts the values `skip` to `skip + take` (exclusive) of a page. */
function valuesOf(page: Page, leaf: Leaf, wanted: Wanted): DecodedArray {
  if (wanted.take === 0) return [];
  const { encoding, dictionary, body } = page;
  if (encoding === 'PLAIN_DICTIONARY' || encoding === 'RLE_DICTIONARY') {
    if (dictionary === undefined) throw new Error('a page without its dictionary');
    body.indices ??= indicesIn(body);
    return lookUp(dictionary, body.indices.read(wanted.skip, wanted.take), page.spend);
  }
  const { bytes, at } = body;
  return convertValues(rawValues(encoding, leaf, { bytes, at }, { ...wanted, spend: page.spend }), leaf.path);
}

function indicesIn({ bytes, at }: Source): Hybrid {
  const [width = 0] = sliceOf(bytes, at, 1);
  if (width > 32) throw new Error(`indices of ${width} bits`);
  return new Hybrid({ bytes, at: at + 1 }, width);
}

/** A repeated text costs the characters beyond this length. */
const SHORT_BYTES = 16 * 1024;

function lookUp({ values, sizes }: Dictionary, indices: Numbers, spend: Spend): DecodedArray {
  const found: unknown[] = new Array(indices.length);
  for (let at = 0; at < indices.length; at++) {
    const index = indices[at] as number;
    if (index >= values.length) throw new Error(`value ${index} of a dictionary of ${values.length}`);
    if (sizes !== undefined) spend(Math.max(0, (sizes[index] as number) - SHORT_BYTES));
    found[at] = values[index];
  }
  return found;
}

function rawValues(
  encoding: string,
  leaf: Leaf,
  body: Source,
  { all, skip, take, spend }: Wanted & { readonly spend: Spend },
): DecodedArray {
  switch (encoding) {
    case 'PLAIN':
      return plainValues(body, leaf, skip, take);
    case 'RLE':
      return Array.from(new Hybrid(readBlock(body), 1).read(skip, take), (bit) => bit === 1);
    case 'BYTE_STREAM_SPLIT':
      return splitValues(body, leaf, all(), skip, take);
    case 'DELTA_BINARY_PACKED':
      return readDifferences(body, all(), skip, take, leaf.type !== 'INT32');
    case 'DELTA_LENGTH_BYTE_ARRAY':
      return readTextsAfterLengths(body, all(), skip, take);
    case 'DELTA_BYTE_ARRAY':
      return readTextsWithPrefixes(body, { all: all(), skip, take, spend });
    default:
      throw new Error(`the encoding ${encoding}`);
  }
}

function plainValues(source: Source, leaf: Leaf, skip: number, take: number): DecodedArray {
  if (take === 0) return [];
  if (leaf.type === 'BYTE_ARRAY') {
    const texts: Uint8Array[] = [];
    for (let at = 0; at < skip + take; at++) {
      const { bytes } = readBlock(source);
      if (at >= skip) texts.push(bytes);
    }
    return texts;
  }
  if (leaf.type === 'BOOLEAN') {
    sliceOf(source.bytes, source.at, Math.ceil((skip + take) / 8));
    return Array.from({ length: take }, (_, at) => bitsAt(source.bytes, 8 * source.at + skip + at, 1) === 1);
  }
  const width = widthOf(leaf);
  return readTyped(leaf, sliceOf(source.bytes, source.at + skip * width, take * width), width);
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
function splitValues({ bytes, at }: Source, leaf: Leaf, all: number, skip: number, take: number): DecodedArray {
  const width = widthOf(leaf);
  sliceOf(bytes, at, all * width);
  const own = new Uint8Array(take * width);
  for (let byte = 0; byte < width; byte++) {
    const from = at + byte * all + skip;
    for (let value = 0; value < take; value++) own[value * width + byte] = bytes[from + value] as number;
  }
  return readTyped(leaf, own, width);
}

type Numbers = Uint8Array | Uint32Array;

/**
 * Numbers of the RLE and bit-packing hybrid. They are decoded where they are read, because a run of millions has a few
 * bytes. Reading in order passes each run once.
 *
 * @see https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE
 */
class Hybrid {
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

function countIn(numbers: Numbers, number: number): number {
  let count = 0;
  for (let at = 0; at < numbers.length; at++) if (numbers[at] === number) count += 1;
  return count;
}

/** Reads `width` bits from a bit on, at most 32. Bits after the end are 0. */
function bitsAt(bytes: Uint8Array, bit: number, width: number): number {
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
function readVarint(source: Source): number {
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
function readZigzag(source: Source): readonly [low: number, high: number] {
  const end = endOfVarint(source.bytes, source.at);
  let value = 0n;
  for (let shift = 0n; source.at < end; source.at++, shift += 7n) {
    value |= BigInt((source.bytes[source.at] as number) & 0x7f) << shift;
  }
  const signed = BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));
  return [Number(BigInt.asIntN(32, signed)), Number(BigInt.asIntN(32, signed >> 32n))];
}

/**
 * Reads DELTA_BINARY_PACKED integers. They wrap around, so 32-bit values need only the low halves of the differences.
 *
 * @param all number of values in the page: at the end, `source` is behind them
 * @see https://parquet.apache.org/docs/file-format/data-pages/encodings/#delta-encoding-delta_binary_packed--5
 */
function readDifferences(source: Source, all: number, skip: number, take: number, isWide: boolean): DecodedArray {
  const { bytes } = source;
  const [blockSize, miniblocks, count] = [readVarint(source), readVarint(source), readVarint(source)];
  const perMiniblock = blockSize / miniblocks;
  if (count < all) throw new Error(`${count} differences for ${all} values`);
  if (miniblocks > 4096 || !(perMiniblock > 0) || perMiniblock % 8 !== 0) {
    throw new Error(`blocks of ${blockSize} differences in ${miniblocks}`);
  }
  const halves = new Int32Array(take * (isWide ? 2 : 1));
  let [low, high] = readZigzag(source);
  const put = (at: number): void => {
    if (at < skip || at >= skip + take) return;
    if (!isWide) halves[at - skip] = low;
    else {
      halves[2 * (at - skip)] = low;
      halves[2 * (at - skip) + 1] = high;
    }
  };
  if (all > 0) put(0);
  for (let at = 1; at < all; ) {
    const [minLow, minHigh] = readZigzag(source);
    const widths = sliceOf(bytes, source.at, miniblocks);
    source.at += miniblocks;
    for (const width of widths) {
      if (at >= all) break;
      if (width > 64) throw new Error(`differences of ${width} bits`);
      const values = Math.min(perMiniblock, all - at);
      sliceOf(bytes, source.at, Math.ceil((values * width) / 8));
      const [lowWidth, highWidth] = [Math.min(width, 32), Math.max(0, width - 32)];
      for (let value = 0, bit = 8 * source.at; value < values; value++, bit += width) {
        const restLow = lowWidth === 0 ? 0 : bitsAt(bytes, bit, lowWidth);
        const restHigh = highWidth === 0 ? 0 : bitsAt(bytes, bit + 32, highWidth);
        const sum = (low >>> 0) + (minLow >>> 0) + (restLow >>> 0);
        low = sum | 0;
        high = (high + minHigh + restHigh + Math.floor(sum / 2 ** 32)) | 0;
        put(at++);
      }
      source.at += (perMiniblock * width) / 8;
    }
  }
  return isWide ? new BigInt64Array(halves.buffer) : halves;
}

function readTextsAfterLengths(source: Source, all: number, skip: number, take: number): Uint8Array[] {
  const lengths = readDifferences(source, all, 0, all, false);
  const texts: Uint8Array[] = [];
  for (let at = 0; at < skip + take; at++) {
    const length = Number(lengths[at]);
    const end = source.at + length;
    if (length < 0 || end > source.bytes.length) throw new Error(`a text of ${length} bytes`);
    if (at >= skip) texts.push(source.bytes.subarray(source.at, end));
    source.at = end;
  }
  return texts;
}

/** Reads DELTA_BYTE_ARRAY: each text shares a prefix with the one before. */
function readTextsWithPrefixes(
  source: Source,
  {
    all,
    skip,
    take,
    spend,
  }: { readonly all: number; readonly skip: number; readonly take: number; readonly spend: Spend },
): Uint8Array[] {
  const prefixes = readDifferences(source, all, 0, all, false);
  const lengths = readDifferences(source, all, 0, all, false);
  const texts: Uint8Array[] = [];
  let last = new Uint8Array();
  for (let at = 0; at < skip + take; at++) {
    const [prefix, length] = [Number(prefixes[at]), Number(lengths[at])];
    if (length > 0 || prefix !== last.length) {
      const [start, suffix] = [sliceOf(last, 0, prefix), sliceOf(source.bytes, source.at, length)];
      spend(prefix);
      last = new Uint8Array(prefix + length);
      last.set(start);
      last.set(suffix, prefix);
      source.at += length;
    }
    if (at >= skip) texts.push(last);
  }
  return texts;
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
