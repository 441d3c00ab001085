import { type ColumnMetaData, type FileMetaData, parquetMetadata, type SchemaElement } from 'hyparquet';
import { ByteWriter } from 'hyparquet-writer';
import { writeMetadata } from 'hyparquet-writer/src/metadata.js';
import { serializeTCompactProtocol } from 'hyparquet-writer/src/thrift.js';

/** A column with one leaf, in one row group. */
export interface FileColumn extends Partial<SchemaElement> {
  readonly name: string;
  readonly pages: readonly Uint8Array[];
  /** What its pages are compressed with. @default UNCOMPRESSED */
  readonly codec?: ColumnMetaData['codec'];
  /** What the footer says of it besides. */
  readonly about?: Partial<ColumnMetaData>;
}

/**
 * A file of Parquet, page by page, with whatever they say: for what no writer of this world writes.
 *
 * @example parquetFile(3, [{ name: 'x', type: 'FLOAT', pages: [dataPage(3, plain(new Float32Array([1, 2, 3])))] }])
 */
export function parquetFile(rows: number, columns: readonly FileColumn[]): Buffer {
  const parts: Uint8Array[] = [Buffer.from('PAR1')];
  let at = 4;
  const chunks = columns.map(({ name, pages, type = 'FLOAT', codec = 'UNCOMPRESSED', about }) => {
    const start = at;
    parts.push(...pages);
    at += pages.reduce((sum, page) => sum + page.length, 0);
    const size = BigInt(at - start);
    const meta_data: ColumnMetaData = {
      ...{ type, codec, encodings: ['PLAIN'], path_in_schema: [name], num_values: BigInt(rows) },
      ...{ total_uncompressed_size: size, total_compressed_size: size, data_page_offset: BigInt(start), ...about },
    };
    return { file_offset: 0n, meta_data };
  });
  const elements = columns.map(({ pages: _, codec: __, about: ___, ...element }): SchemaElement => {
    return { type: 'FLOAT', repetition_type: 'REQUIRED', ...element };
  });
  const footer: FileMetaData = {
    version: 2,
    schema: [{ name: 'root', num_children: columns.length }, ...elements],
    num_rows: BigInt(rows),
    row_groups: [{ columns: chunks, total_byte_size: BigInt(at), num_rows: BigInt(rows) }],
    metadata_length: 0,
  };
  return Buffer.concat([...parts, footerBytes(footer), Buffer.from('PAR1')]);
}

/** The same file, with another footer. */
export function withFooter(file: Uint8Array, change: (footer: FileMetaData) => void): Buffer {
  const footer = parquetMetadata(Uint8Array.from(file), { geoparquet: false });
  const body = file.subarray(0, file.length - 8 - footer.metadata_length);
  change(footer);
  return Buffer.concat([body, footerBytes(footer), Buffer.from('PAR1')]);
}

/** The footer, and its length after it. */
function footerBytes(footer: FileMetaData): Uint8Array {
  const writer = new ByteWriter();
  writeMetadata(writer, footer);
  return writer.getBytes().slice();
}

interface PageOptions {
  /** As a number: 0 PLAIN, 3 RLE, 5 DELTA_BINARY_PACKED, 7 DELTA_BYTE_ARRAY, 8 RLE_DICTIONARY. @default 0 */
  readonly encoding?: number;
  /** Bytes that its header says it inflates to. @default those of the body */
  readonly inflated?: number;
}

export function dataPage(values: number, body: Uint8Array, { encoding = 0, inflated }: PageOptions = {}): Buffer {
  const about = { field_1: values, field_2: encoding, field_3: 3, field_4: 3 };
  return page({ field_1: 0, field_2: inflated ?? body.length, field_3: body.length, field_5: about }, body);
}

export function dictionaryPage(values: number, body: Uint8Array, { inflated }: PageOptions = {}): Buffer {
  const about = { field_1: values, field_2: 0 };
  return page({ field_1: 2, field_2: inflated ?? body.length, field_3: body.length, field_7: about }, body);
}

function page(header: Readonly<Record<`field_${number}`, unknown>>, body: Uint8Array): Buffer {
  const writer = new ByteWriter();
  serializeTCompactProtocol(writer, header);
  return Buffer.concat([writer.getBytes(), body]);
}

/** Values of one width as they lie in memory. */
export function plain({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
}

/** Texts, or bytes, each after its length. */
export function plainTexts(texts: readonly (string | Uint8Array)[]): Buffer {
  const parts = texts.flatMap((text) => {
    const bytes = Buffer.from(text);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    return [length, bytes];
  });
  return Buffer.concat(parts);
}

/** A run of one number in the hybrid encoding. */
export function run(count: number, value: number): Buffer {
  return Buffer.concat([varint(2 * count), Buffer.from([value])]);
}

export function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let left = value; ; left = Math.floor(left / 128)) {
    if (left < 128) return Buffer.from([...bytes, left]);
    bytes.push((left % 128) + 128);
  }
}
