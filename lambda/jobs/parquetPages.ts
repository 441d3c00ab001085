import zlib, { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { type ColumnMetaData, type DecodedArray, type PageHeader, type SchemaTree, snappyUncompress } from 'hyparquet';
import { assembleLists, assembleNested } from 'hyparquet/src/assemble.js';
import { parquetHeader } from 'hyparquet/src/column.js';
import { getMaxDefinitionLevel, getMaxRepetitionLevel, isFlatColumn } from 'hyparquet/src/schema.js';
import { bytesOfValue, bytesOfValues, ENTRY_BYTES, FREE_BYTES, type Spend } from './parquetBudget.ts';
import { checkThrift, countIn, Hybrid, type Numbers, readBlock, type Source, sliceOf } from './parquetBytes.ts';
import { type Dictionary, type Leaf, openValues, plainValues, type Values } from './parquetEncodings.ts';
import { convertValues, parsersOf } from './parquetValues.ts';
import { zstdOfNode } from './textRows.ts';

/*
 * Reads the pages of a column chunk. hyparquet reads the footer, the headers and the nesting.
 */

/** Leaf of the schema in one row group. */
export interface Chunk {
  readonly about: ColumnMetaData;
  /** Schema elements from the root to the leaf. */
  readonly path: readonly SchemaTree[];
  /** Rows of the row group. */
  readonly rows: number;
  /** Bytes from the first header to the end of the last page. */
  readonly length: number;
  /** Reads bytes `start` to `end` (exclusive) of them. */
  readonly read: (start: number, end: number) => Promise<Uint8Array>;
}

interface Rows {
  readonly from: number;
  readonly to: number;
}

/** Reader of a column in a row group. It holds one page of each leaf. Reading rows in order decodes each page once. */
export interface ColumnReader {
  /**
   * Returns the values of some rows, with null for a missing one.
   *
   * @throws Error if the pages contradict their headers or the footer
   */
  read(rows: Rows): Promise<DecodedArray>;
}

/**
 * Opens a column of a row group.
 *
 * @param chunks leaves of the column: one, unless it is nested
 * @param spend budget of the file: see {@link budgetOf}
 */
export function openColumn(chunks: readonly Chunk[], spend: Spend): ColumnReader {
  const [first] = chunks;
  const top = first?.path[1];
  if (first === undefined || top === undefined) throw new Error('no such column');
  const leaves = chunks.map((chunk) => new PageCursor(chunk, leafOf(chunk), spend));
  const [only] = leaves as [PageCursor];
  if (isFlatColumn([...first.path])) return { read: (rows) => readFlat(only, rows) };
  return {
    async read(rows) {
      const values = new Map<string, DecodedArray>();
      for (const leaf of leaves) values.set(leaf.chunk.about.path_in_schema.join('.'), await readNested(leaf, rows));
      assembleNested(values, top, parsersOf(top.element));
      return values.get(top.element.name) ?? [];
    },
  };
}

function leafOf({ path, rows, about }: Chunk): Leaf {
  const { type, type_length: length = 0 } = path.at(-1)?.element ?? {};
  if (type === undefined) throw new Error('a column without a type');
  const [definition, repetition] = [getMaxDefinitionLevel([...path]), getMaxRepetitionLevel([...path])];
  const bytesOf = Array.from({ length: repetition + 1 }, (_, level) => bytesOfValue(path, level));
  const freeBytes = Math.min(FREE_BYTES, (4 * bytesOfValues(path, rows, Number(about.num_values))) / rows);
  return { path, type, length, definition, repetition, bytesOf, freeBytes };
}

async function readFlat(pages: PageCursor, { from, to }: Rows): Promise<DecodedArray> {
  const found: DecodedArray[] = [];
  for (let page = await pages.at(from); page !== undefined; page = await pages.next()) {
    const [first, end] = [Math.max(0, from - page.row), Math.min(page.values, to - page.row)];
    if (first < end) found.push(flatValues(page, pages.leaf, first, end));
    if (page.row + page.values >= to) break;
  }
  return concatenate(found);
}

function flatValues(page: Page, leaf: Leaf, first: number, end: number): DecodedArray {
  const levels = page.body.levels.definition?.read(first, end - first);
  const values = valuesIn(page.body, leaf, first, end, levels);
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
function valuesIn(body: Body, leaf: Leaf, first: number, end: number, levels: Numbers | undefined): DecodedArray {
  const { definition } = body.levels;
  if (definition === undefined || levels === undefined) return body.values.read(first, end - first);
  const { counted } = body;
  const isAfter = counted.at <= first;
  const skip = (isAfter ? counted.values : 0) + definition.count(leaf.definition, isAfter ? counted.at : 0, first);
  const take = countIn(levels, leaf.definition);
  Object.assign(counted, { at: end, values: skip + take });
  return take === 0 ? [] : body.values.read(skip, take);
}

function concatenate(parts: readonly DecodedArray[]): DecodedArray {
  const [first = [], ...others] = parts;
  if (others.length === 0) return first;
  const none: unknown[] = [];
  return none.concat(...parts.map((part) => (Array.isArray(part) ? part : Array.from<unknown>(part))));
}

async function readNested(pages: PageCursor, rows: Rows): Promise<DecodedArray> {
  const { leaf } = pages;
  const found: unknown[] = [];
  for (let page = await pages.at(rows.from); page !== undefined; page = await pages.next()) {
    const { first, end, repetitions } = valuesOfRows(page, leaf, rows, pages.spend);
    if (first < end) {
      const definitions = page.body.levels.definition?.read(first, end - first);
      const values = valuesIn(page.body, leaf, first, end, definitions);
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

/**
 * Returns the span of the values of some rows in a page, and their repetition levels. A run of levels makes millions of
 * values of a few bytes, so a row spends what it has beyond its free memory.
 */
function valuesOfRows(page: Page, leaf: Leaf, { from, to }: Rows, spend: Spend) {
  const { repetition } = page.body.levels;
  if (repetition === undefined) {
    return { first: Math.max(0, from - page.row), end: Math.max(0, Math.min(page.values, to - page.row)) };
  }
  const { reached } = page.body;
  let { at, row } = reached.row <= from ? reached : { at: 0, row: page.row };
  let first = at;
  let bytes = 0;
  const repetitions: number[] = [];
  for (; at < page.values; at++) {
    const level = repetition.at(at);
    // A value with repetition level 0 begins a row.
    if (level === 0 && row >= to) break;
    if (level === 0) [row, bytes] = [row + 1, 0];
    if (row === 0) throw new Error('values before the first row');
    if (row <= from) first = at + 1;
    else {
      const more = leaf.bytesOf[level] ?? 0;
      bytes += more;
      if (bytes > leaf.freeBytes) spend(more);
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
  /** Inflated on first access. */
  readonly body: Body;
}

/** Cursor over the data pages of a chunk, in order, up to the number of values in the footer. It holds one page. */
class PageCursor {
  readonly chunk: Chunk;
  readonly leaf: Leaf;
  readonly spend: Spend;
  readonly #inflate: Inflate;
  #offset = 0;
  #values = 0;
  #page: Page | undefined;
  #dictionary: Dictionary | undefined;

  constructor(chunk: Chunk, leaf: Leaf, spend: Spend) {
    this.chunk = chunk;
    this.leaf = leaf;
    this.spend = spend;
    this.#inflate = inflaterOf(chunk.about, spend);
  }

  /** Returns the page of `row`, or one before it. It starts over if the held page is past the row. */
  async at(row: number): Promise<Page | undefined> {
    if (this.#page !== undefined && this.#page.row <= row) return this.#page;
    this.#page = undefined;
    [this.#offset, this.#values] = [0, 0];
    return await this.next();
  }

  async next(): Promise<Page | undefined> {
    const total = Number(this.chunk.about.num_values);
    const row = this.#page === undefined ? 0 : this.#page.row + rowsIn(this.#page, this.leaf, this.spend);
    while (this.#values < total) {
      const header = await this.#header();
      const stored = await this.#read(header.compressed_page_size);
      const data = header.data_page_header ?? header.data_page_header_v2;
      if (header.type === 'DICTIONARY_PAGE') this.#dictionary = this.#dictionaryOf(header, stored);
      if (header.type === 'DICTIONARY_PAGE' || data === undefined) continue;
      const values = countOf(data.num_values, total - this.#values);
      this.#values += values;
      this.#page = this.#pageOf(header, stored, row, values);
      return this.#page;
    }
    return undefined;
  }

  #pageOf(header: PageHeader, stored: Uint8Array, row: number, values: number): Page {
    const open = (bytes: Uint8Array): Body => {
      const { levels, ...source } = levelsOf(header, bytes, this.#inflate, this.leaf);
      const { encoding = '' } = header.data_page_header ?? header.data_page_header_v2 ?? {};
      const options = { leaf: this.leaf, dictionary: this.#dictionary, most: values, spend: this.spend };
      const read = openValues(encoding, source, options);
      return { levels, values: read, counted: { at: 0, values: 0 }, reached: { at: 0, row } };
    };
    let body: Body | undefined;
    let left: Uint8Array | undefined = stored;
    return {
      row,
      values,
      get body() {
        if (left !== undefined) body = open(left);
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
    this.spend(count * ENTRY_BYTES);
    const values = plainValues({ bytes: body, at: 0 }, this.leaf).read(0, count);
    const areBytes = this.leaf.type === 'BYTE_ARRAY' || this.leaf.type === 'FIXED_LEN_BYTE_ARRAY';
    const sizes = areBytes ? Uint32Array.from(values, ({ length }) => length) : undefined;
    return { values: convertValues(values, this.leaf.path, this.spend), sizes };
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

function rowsIn(page: Page, leaf: Leaf, spend: Spend): number {
  if (leaf.repetition === 0) return page.values;
  valuesOfRows(page, leaf, { from: Number.POSITIVE_INFINITY, to: Number.POSITIVE_INFINITY }, spend);
  return page.body.reached.row - page.row;
}

function countOf(count: unknown, max: number): number {
  if (Number.isSafeInteger(count) && (count as number) >= 0 && (count as number) <= max) return count as number;
  throw new Error(`a page of ${count} values where at most ${max} are left`);
}

/** @param size inflated size of the page according to its header */
type Inflate = (stored: Uint8Array, size: unknown) => Uint8Array;

const MIB = 1024 * 1024;
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

function inflaterOf({ codec }: ColumnMetaData, spend: Spend): Inflate {
  const decompress = CODEC_BY_NAME[codec];
  if (decompress === undefined) throw new Error(`${codec}`);
  return (stored, size) => {
    if (!Number.isSafeInteger(size) || (size as number) < 0 || (size as number) > MAX_PAGE_BYTES) {
      throw new Error(`a page of ${size} bytes, where at most ${MAX_PAGE_BYTES} are read`);
    }
    spend(size as number);
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

/** One level for each value. Undefined if the column has only one level. */
type Levels = Hybrid | undefined;

/** Inflated page. */
interface Body {
  readonly levels: { readonly repetition: Levels; readonly definition: Levels };
  /** Values that are no nulls. */
  readonly values: Values;
  /** Number of values that are no nulls before `at`. */
  readonly counted: { at: number; values: number };
  /** First value that is not read yet, and the number of rows in the row group that begin before it. */
  readonly reached: { at: number; row: number };
}

/** Inflates a page and opens its levels. @returns the levels, and the place of the first value */
function levelsOf(header: PageHeader, stored: Uint8Array, inflate: Inflate, leaf: Leaf): Pick<Body, 'levels'> & Source {
  const v2 = header.data_page_header_v2;
  const open = (max: number, bytes: () => Source): Levels =>
    max === 0 ? undefined : new Hybrid(bytes(), 32 - Math.clz32(max));
  if (v2 === undefined) {
    const body = { bytes: inflate(stored, header.uncompressed_page_size), at: 0 };
    const levels = (max: number) => open(max, () => readBlock(body));
    return { levels: { repetition: levels(leaf.repetition), definition: levels(leaf.definition) }, ...body };
  }
  const repetition = sliceOf(stored, 0, v2.repetition_levels_byte_length);
  const definition = sliceOf(stored, repetition.length, v2.definition_levels_byte_length);
  const levelBytes = repetition.length + definition.length;
  const rest = stored.subarray(levelBytes);
  const size = Number(header.uncompressed_page_size) - levelBytes;
  return {
    levels: {
      repetition: open(leaf.repetition, () => ({ bytes: repetition, at: 0 })),
      definition: open(leaf.definition, () => ({ bytes: definition, at: 0 })),
    },
    bytes: v2.is_compressed === false ? rest : inflate(rest, size),
    at: 0,
  };
}
