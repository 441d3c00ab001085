import {
  type AsyncBuffer,
  type ColumnMetaData,
  type FileMetaData,
  parquetMetadataAsync,
  parquetSchema,
  type SchemaElement,
  type SchemaTree,
} from 'hyparquet';
import { getMaxRepetitionLevel } from 'hyparquet/src/schema.js';
import * as z from 'zod';
import { messageOf } from '../core/failure.ts';
import { IN_OUR_WORDS, problemsIn } from '../core/wrongValue.ts';
import { type ByteRange, JobError, type JobInput, type JobStorage } from './jobFiles.ts';
import { checkThrift } from './parquetBytes.ts';

/** Source of a file's bytes: the bucket of jobs, or this machine. */
export type RangeStorage = Pick<JobStorage, 'readRange'>;

/** Maximum size of a footer. Parsing takes about thirty times as much memory. */
const MAX_FOOTER_BYTES = 32 * 1024 * 1024;
/** Maximum number of rows for each byte of a file. A column of one value written by PyArrow reaches a third of it. */
const ROWS_A_BYTE = 1000;
/** Size of the footer's length and `PAR1`. */
const END_BYTES = 8;

/**
 * Reads the footer of a Parquet file: its columns and row groups.
 *
 * @throws JobError if the object has no footer, or one that contradicts the object's size
 */
export async function readFooter(storage: RangeStorage, input: JobInput): Promise<FileMetaData> {
  const end = await readEnd(storage, input);
  try {
    checkThrift(new Uint8Array(end), end.byteLength - END_BYTES - footerBytesIn(end));
    const footer = await parquetMetadataAsync(bufferOf(end), { geoparquet: false });
    // hyparquet returns numbers and lists as the file states them, unchecked.
    const { error } = FOOTER.safeParse(footer, IN_OUR_WORDS);
    if (error !== undefined) throw new Error(problemsIn(error.issues.slice(0, 1), footer).join());
    footer.schema = footer.schema.map(withOlderName);
    checkDepth(footer);
    checkRows(footer, input.bytes);
    checkColumns(footer);
    checkExtents(footer, input.bytes - end.byteLength);
    return footer;
  } catch (cause) {
    throw notParquet(input, messageOf(cause));
  }
}

async function readEnd(storage: RangeStorage, input: JobInput): Promise<ArrayBuffer> {
  const { bytes } = input;
  if (bytes === 0) throw notParquet(input, 'an empty file');
  if (bytes < END_BYTES + 4) throw notParquet(input, `${bytes} bytes, which are too few`);
  const first = await readBuffer(storage, input, { start: Math.max(0, bytes - FIRST_BYTES), end: bytes });
  if (Buffer.from(first).toString('latin1', first.byteLength - 4) !== 'PAR1') {
    throw notParquet(input, 'they do not end with PAR1');
  }
  const length = footerBytesIn(first) + END_BYTES;
  if (length > bytes) throw notParquet(input, `a footer of ${length} bytes`);
  if (length > MAX_FOOTER_BYTES) {
    throw new JobError(
      'INVALID_JOB',
      `${input.key}: expected a footer of at most ${MAX_FOOTER_BYTES} bytes, got ${length}; write fewer, larger row groups`,
    );
  }
  const start = bytes - length;
  return length <= first.byteLength
    ? first.slice(first.byteLength - length)
    : readBuffer(storage, input, { start, end: bytes });
}

/** Size of the first read. Most footers are shorter, so one read is enough. */
const FIRST_BYTES = 512 * 1024;

function footerBytesIn(end: ArrayBuffer): number {
  return new DataView(end).getUint32(end.byteLength - END_BYTES, true);
}

function bufferOf(bytes: ArrayBuffer): AsyncBuffer {
  return { byteLength: bytes.byteLength, slice: (start, end) => bytes.slice(start, end) };
}

function notParquet({ key }: JobInput, why: string): JobError {
  return new JobError('INVALID_JOB', `${key}: expected Parquet, got bytes that are not (${why}); write the file again`);
}

const amount = z.bigint().min(0n).max(BigInt(Number.MAX_SAFE_INTEGER));

/** Fields of a footer that this file uses. hyparquet reads others. */
const FOOTER = z.looseObject({
  num_rows: amount,
  schema: z.array(z.looseObject({ name: z.string(), num_children: z.int().min(0).optional() })).min(1),
  row_groups: z.array(
    z.looseObject({
      num_rows: amount,
      columns: z.array(
        z.looseObject({
          file_path: z.undefined('expected columns in the file itself'),
          meta_data: z
            .looseObject({
              path_in_schema: z.array(z.string()).min(1),
              num_values: amount,
              total_compressed_size: amount,
              total_uncompressed_size: amount,
              data_page_offset: amount,
              dictionary_page_offset: amount.optional(),
            })
            .optional(),
        }),
      ),
    }),
  ),
});

const MAX_DEPTH = 32;

/** Rejects structs that are nested too deep: hyparquet walks them recursively. */
function checkDepth({ schema }: FileMetaData): void {
  const left: number[] = [];
  for (const [at, { num_children: children = 0 }] of schema.entries()) {
    if (at > 0 && left.length === 0) throw new Error('columns outside the schema');
    if (left.length > 0) left[left.length - 1] = (left.at(-1) as number) - 1;
    if (children > 0) left.push(children);
    while (left.at(-1) === 0) left.pop();
    if (left.length > MAX_DEPTH) throw new Error(`columns nested more than ${MAX_DEPTH} deep`);
  }
  if (left.length > 0) throw new Error('a schema that ends too early');
}

function checkRows({ num_rows, row_groups }: FileMetaData, bytes: number): void {
  const rows = row_groups.reduce((sum, group) => sum + Number(group.num_rows), 0);
  if (rows !== Number(num_rows)) throw new Error(`${num_rows} rows, and ${rows} in its row groups`);
  const chunks = row_groups.flatMap(({ columns }) => columns);
  const most = chunks.reduce((max, { meta_data }) => Math.max(max, Number(meta_data?.num_values ?? 0)), rows);
  if (most > ROWS_A_BYTE * bytes) throw new Error(`${most} rows or values in ${bytes} bytes`);
}

const TEXT = ['BYTE_ARRAY'];
const FIXED = ['FIXED_LEN_BYTE_ARRAY'];
/**
 * Types that values are stored as, by the type that they mean. hyparquet converts without a check.
 *
 * @see https://parquet.apache.org/docs/file-format/types/logicaltypes/
 */
const PHYSICAL: Readonly<Record<string, readonly string[] | undefined>> = {
  ...{ STRING: TEXT, UTF8: TEXT, ENUM: TEXT, JSON: TEXT, BSON: TEXT, FLOAT16: FIXED, UUID: FIXED, INTERVAL: FIXED },
  ...Object.fromEntries(
    ['8', '16', '32'].flatMap((bits) => [`INT_${bits}`, `UINT_${bits}`].map((name) => [name, ['INT32']])),
  ),
  ...{ INT_64: ['INT64'], UINT_64: ['INT64'], INTEGER: ['INT32', 'INT64'], DATE: ['INT32'], TIME: ['INT32', 'INT64'] },
  ...{ TIME_MILLIS: ['INT32'], TIME_MICROS: ['INT64'], TIMESTAMP: ['INT64'] },
  ...{ TIMESTAMP_MILLIS: ['INT64'], TIMESTAMP_MICROS: ['INT64'], DECIMAL: ['INT32', 'INT64', ...TEXT, ...FIXED] },
};
/** Sizes of values of fixed length by their logical type. */
const SIZES: Readonly<Record<string, number | undefined>> = { FLOAT16: 2, UUID: 16 };

/** Checks that each row group has the columns of the schema, in its order, with its types, and a value in each row. */
function checkColumns(footer: FileMetaData): void {
  const leaves = pathsIn(parquetSchema(footer));
  const keys = new Set<string>();
  for (const path of leaves) {
    const key = leafKey((path.at(-1) as SchemaTree).path);
    if (keys.has(key)) throw new Error(`two columns '${nameOf(path)}'`);
    keys.add(key);
    const { type = '', type_length: length, logical_type: logical, converted_type: converted } = elementOf(path);
    const size = SIZES[logical?.type ?? ''];
    for (const meant of [logical?.type, converted].filter((one) => one !== undefined)) {
      if (PHYSICAL[meant]?.includes(type) !== false && (size === undefined || size === length)) continue;
      throw new Error(
        `column '${nameOf(path)}' of ${meant} as ${type}${length === undefined ? '' : ` of ${length} bytes`}`,
      );
    }
  }
  for (const [group, { num_rows: rows, columns }] of footer.row_groups.entries()) {
    if (rows === 0n) continue;
    if (columns.length !== leaves.length) {
      throw new Error(`${columns.length} columns in row group ${group}, and ${leaves.length} in the schema`);
    }
    for (const [index, { meta_data: about }] of columns.entries()) {
      if (about !== undefined) checkChunk(about, leaves[index] as LeafPath, rows);
    }
  }
}

function checkChunk({ path_in_schema, type, num_values: values }: ColumnMetaData, path: LeafPath, rows: bigint): void {
  const [name, found] = [nameOf(path), path_in_schema.join('.')];
  if (leafKey(path_in_schema) !== leafKey((path.at(-1) as SchemaTree).path))
    throw new Error(`column '${found}' in the place of '${name}'`);
  if (type !== elementOf(path).type)
    throw new Error(`column '${name}' of ${type}, and ${elementOf(path).type} in the schema`);
  if (getMaxRepetitionLevel([...path]) === 0 && values !== rows) {
    throw new Error(`${values} values of column '${name}' in ${rows} rows`);
  }
}

/**
 * Checks that the columns of all row groups lie before the footer and do not overlap. Row groups without rows are not
 * read, and PyArrow states no place for them.
 */
function checkExtents({ row_groups }: FileMetaData, end: number): void {
  let sum = 0;
  const filled = row_groups.filter(({ num_rows }) => num_rows > 0n);
  for (const { meta_data } of filled.flatMap(({ columns }) => columns)) {
    if (meta_data === undefined || meta_data.total_compressed_size === 0n) continue;
    const span = spanOf(meta_data);
    if (span.start < 4 || span.end > end) {
      throw new Error(`column '${meta_data.path_in_schema[0]}' in bytes ${span.start} to ${span.end}, of ${end}`);
    }
    sum += span.end - span.start;
  }
  if (sum > end) throw new Error(`columns of ${sum} bytes in ${end}`);
}

/** Returns the bytes of a column in a row group. */
export function spanOf({ dictionary_page_offset, data_page_offset, total_compressed_size }: ColumnMetaData): ByteRange {
  // Some writers set 0 if there is no dictionary.
  const isFirst = dictionary_page_offset && dictionary_page_offset < data_page_offset;
  const start = Number(isFirst ? dictionary_page_offset : data_page_offset);
  return { start, end: start + Number(total_compressed_size) };
}

/** Returns the metadata of the needed columns in a row group. */
export function chunksOf(footer: FileMetaData, group: number, names: ReadonlySet<string>): ColumnMetaData[] {
  const { columns = [] } = footer.row_groups[group] ?? {};
  return columns.flatMap(({ meta_data: about }) =>
    about !== undefined && names.has(about.path_in_schema[0] ?? '') ? [about] : [],
  );
}

async function readBuffer(storage: RangeStorage, input: JobInput, span: ByteRange): Promise<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = await storage.readRange(input, span);
  if (byteOffset === 0 && byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) return buffer;
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
}

/** Type of a column's values, as far as requests distinguish them. `none` fits all inputs. */
type ColumnKind = 'number' | 'text' | 'none' | 'list' | 'other';

export interface ColumnType {
  readonly kind: ColumnKind;
  /** Kind of the values in its lists, at any depth. */
  readonly elements?: ColumnKind | undefined;
  /** Parquet's name of the type, for messages: `DATE`, `LIST`, `BYTE_ARRAY`. */
  readonly name: string;
}

/** Returns name and type of each top-level column. */
export function columnsOf(footer: FileMetaData): ReadonlyMap<string, ColumnType> {
  const { children } = parquetSchema(footer);
  const empty = emptyColumns(footer);
  return new Map(
    children.map((child) => {
      const { name, logical_type: logical, converted_type: converted, type } = child.element;
      const typeName = converted ?? logical?.type ?? type ?? 'STRUCT';
      const element = elementsOf(child);
      const ofValues = element === undefined ? 'other' : kindOf(element.element);
      const kind = empty.has(name) ? 'none' : element === child ? ofValues : 'list';
      return [name, { kind, elements: ofValues, name: typeName }];
    }),
  );
}

/** Returns the leaf of a column, or of its lists; undefined for a struct or a map. */
function elementsOf(column: SchemaTree): SchemaTree | undefined {
  const { children, element } = column;
  if (children.length === 0) return column;
  const isList = element.converted_type === 'LIST' || element.logical_type?.type === 'LIST';
  const [repeated] = children;
  const [inner] = repeated?.children ?? [];
  return isList && inner !== undefined && pathsIn(column).length === 1 ? elementsOf(inner) : undefined;
}

/** Schema elements from the root, or a column, to a leaf: a column as the file stores it. */
export type LeafPath = readonly SchemaTree[];

function pathsIn(root: SchemaTree): readonly LeafPath[] {
  const { children, element } = root;
  if (children.length === 0) return element.type === undefined ? [] : [[root]];
  return children.flatMap((child) => pathsIn(child).map((path) => [root, ...path]));
}

function elementOf(path: LeafPath): SchemaElement {
  return (path.at(-1) as SchemaTree).element;
}

function nameOf(path: LeafPath): string {
  return path.at(-1)?.path.join('.') ?? '';
}

/** Key of a leaf. A name may have dots. */
export function leafKey(path: readonly string[]): string {
  return path.join('\0');
}

/** Adds the older name of a list or map, the only one that hyparquet knows. */
function withOlderName(element: SchemaElement): SchemaElement {
  const { converted_type: converted, logical_type: logical } = element;
  const older =
    converted === undefined && (logical?.type === 'LIST' || logical?.type === 'MAP') ? logical.type : converted;
  return older === converted ? element : { ...element, converted_type: older };
}

/** Returns the leaves of some columns, by their keys. */
export function leavesOf(footer: FileMetaData, columns: ReadonlySet<string>): ReadonlyMap<string, LeafPath> {
  const paths = pathsIn(parquetSchema(footer)).filter(([, top]) => columns.has(top?.element.name ?? ''));
  return new Map(paths.map((path) => [leafKey((path.at(-1) as SchemaTree).path), path]));
}

/** Returns the columns that have no values according to their statistics. */
function emptyColumns({ row_groups }: FileMetaData): ReadonlySet<string> {
  const names = new Set<string>();
  const filled = new Set<string>();
  for (const { meta_data } of row_groups.flatMap(({ columns }) => columns)) {
    const name = meta_data?.path_in_schema[0] ?? '';
    names.add(name);
    const { statistics, num_values: values = 0n } = meta_data ?? {};
    if (values > 0n && statistics?.null_count !== values) filled.add(name);
  }
  return new Set([...names].filter((name) => !filled.has(name)));
}

const NUMBERS: readonly (string | undefined)[] = ['BOOLEAN', 'INT32', 'INT64', 'FLOAT', 'DOUBLE'];
const WHOLE = /^U?INT_\d+$/;

function kindOf({ type, repetition_type, converted_type, logical_type }: SchemaElement): ColumnKind {
  if (repetition_type === 'REPEATED') return 'other';
  const logical = logical_type?.type;
  if (logical === 'NULL') return 'none';
  if (logical === 'FLOAT16') return 'number';
  if (type === 'BYTE_ARRAY') {
    const isText = logical === undefined || logical === 'STRING' || logical === 'ENUM';
    const wasText = converted_type === undefined || converted_type === 'UTF8' || converted_type === 'ENUM';
    return isText && wasText ? 'text' : 'other';
  }
  const isPlain = logical === undefined || logical === 'INTEGER';
  const wasPlain = converted_type === undefined || WHOLE.test(converted_type);
  return NUMBERS.includes(type) && isPlain && wasPlain ? 'number' : 'other';
}
