import { type ColumnMetaData, type FileMetaData, parquetSchema, type SchemaElement } from 'hyparquet';
import type { Span } from '../../../core/job/cut.ts';

/** What a column holds, as far as requests go. */
export type ColumnKind = 'number' | 'text' | 'other';

/** Name and kind of each column at the top of the schema. */
export function columnsOf(footer: FileMetaData): ReadonlyMap<string, ColumnKind> {
  const { children } = parquetSchema(footer);
  return new Map(
    children.map(({ element, children }) => [element.name, children.length > 0 ? 'other' : kindOf(element)]),
  );
}

const NUMBERS: readonly (string | undefined)[] = ['BOOLEAN', 'INT32', 'INT64', 'FLOAT', 'DOUBLE'];
const WHOLE = /^U?INT_\d+$/;

function kindOf({ type, repetition_type, converted_type, logical_type }: SchemaElement): ColumnKind {
  if (repetition_type === 'REPEATED') return 'other';
  const logical = logical_type?.type;
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

/** Whether the moments of a column are UTC, and not of no zone; of one that has none it means nothing. */
export function isUtc({ schema }: FileMetaData, name: string): boolean {
  const { type, logical_type: logical } = schema.find((element) => element.name === name) ?? {};
  return type !== 'INT96' && !(logical?.type === 'TIMESTAMP' && !logical.isAdjustedToUTC);
}

/** What a row group says of the columns that are needed. */
export function chunksOf(footer: FileMetaData, group: number, names: ReadonlySet<string>): ColumnMetaData[] {
  const { columns = [] } = footer.row_groups[group] ?? {};
  return columns.flatMap(({ meta_data: about }) =>
    about !== undefined && names.has(about.path_in_schema[0] ?? '') ? [about] : [],
  );
}

/** Where a column of a row group lies. */
export function spanOf({ dictionary_page_offset, data_page_offset, total_compressed_size }: ColumnMetaData): Span {
  // Some writers say 0 where there is no dictionary.
  const start = Number(dictionary_page_offset || data_page_offset);
  return { start, end: start + Number(total_compressed_size) };
}
