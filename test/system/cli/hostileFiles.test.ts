import { readFileSync, writeFileSync } from 'node:fs';
import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, describe, expect, it } from '@jest/globals';
import type { FileMetaData } from 'hyparquet';
import { runScript } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { identityModel } from '../../helpers/onnxModels.ts';
import {
  dataPage,
  dictionaryPage,
  type FileColumn,
  parquetFile,
  plain,
  plainTexts,
  run,
  varint,
  withFooter,
} from '../../helpers/parquetFile.ts';

const MIB = 1024 * 1024;
const MAX_FILE_BYTES = 10_000;
/** More than a sound file of three rows takes, on a core that this process has for itself. */
const MAX = { cpuMs: 1_000, mib: 200 };
const BILLIONS = 10_000_000_000;

/** What a process says of itself when it ends: what it took, and the CPU time of a known piece of work, which tells how slow the core is. */
const ACCOUNT = `data:text/javascript,
  import { isMainThread } from 'node:worker_threads';
  if (isMainThread) process.on('exit', () => {
    const usage = process.resourceUsage();
    let x = 0;
    for (let i = 0; i < 3e7; i++) x = (31 * x + i) | 0;
    const workMs = (process.resourceUsage().userCPUTime - usage.userCPUTime) / 1000 + 0 * x;
    process.stderr.write(JSON.stringify({ ...usage, workMs }));
  });`;

const column = (name: string, file: Partial<FileColumn>): FileColumn => ({ name, pages: [], ...file });
const sound = dataPage(3, plain(new Float32Array([1, 2, 3])));
const SOUND = parquetFile(3, [column('x', { pages: [sound] })]);

/** A footer that says something else of a sound file. */
const lie = (change: (footer: FileMetaData) => void): Buffer => withFooter(SOUND, change);
const chunkIn = ({ row_groups: [group] }: FileMetaData) => Object(group?.columns[0]?.meta_data);
const rowsOf = (footer: FileMetaData, rows: number): void => {
  footer.num_rows = BigInt(rows);
  Object(footer.row_groups[0]).num_rows = BigInt(rows);
  chunkIn(footer).num_values = BigInt(rows);
};
/** Pages in place of the sound one. */
const pages = (rows: number, ...given: readonly Uint8Array[]) => parquetFile(rows, [column('x', { pages: given })]);
const nullable = (rows: number, ...given: readonly Uint8Array[]) =>
  parquetFile(rows, [column('x', { repetition_type: 'OPTIONAL', pages: given })]);
/** A page that is zeros for so many bytes. */
const packed = (codec: FileColumn['codec'], body: Uint8Array, inflated: number) =>
  parquetFile(3, [column('x', { codec, pages: [dataPage(3, body, { inflated })] })]);
const texts = (rows: number, ...given: readonly Uint8Array[]) =>
  parquetFile(rows, [column('x', { type: 'BYTE_ARRAY', codec: 'ZSTD', pages: given })]);
const zeros = Buffer.alloc(128 * MIB);
/** A dictionary of so many zeros, of which three rows take one. What is behind its pages lets it inflate to more. */
const dictionary = (about: Partial<FileColumn>, values: number): Buffer => {
  const [body, indices] = [zeros.subarray(0, 16 * MIB), Buffer.concat([Buffer.from([1]), run(3, 0)])];
  const pages = [
    dictionaryPage(values, zstdCompressSync(body), { inflated: body.length }),
    dataPage(3, zstdCompressSync(indices), { encoding: 8, inflated: indices.length }),
  ];
  return parquetFile(3, [column('x', { codec: 'ZSTD', pages: [...pages, Buffer.alloc(9_000)], ...about })]);
};
const thrift = (...bytes: readonly Uint8Array[]): Buffer => {
  const footer = Buffer.concat(bytes);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(footer.length);
  return Buffer.concat([Buffer.from('PAR1'), footer, length, Buffer.from('PAR1')]);
};
const nested = (levels: number) =>
  withFooter(SOUND, ({ schema }) => {
    schema.splice(1, 1, ...Array.from({ length: levels }, () => ({ name: 'x', num_children: 1 })), Object(schema[1]));
  });
/** `2 * 64` differences of zero, said to be so many. */
const differences = (rows: number) =>
  Buffer.concat([varint(128), varint(4), varint(rows), varint(0), varint(0), Buffer.alloc(4)]);

/** Bytes that let a file of a few pages say that it has millions of values. */
const PADDING = Buffer.alloc(5_000);
/** A struct that says to have so many values in three rows. */
const struct = (values: number): Buffer =>
  withFooter(
    parquetFile(3, [
      column('x', { pages: [sound, PADDING] }),
      column('y', { pages: [sound], about: { num_values: BigInt(values), path_in_schema: ['s', 'y'] } }),
    ]),
    ({ schema }) => {
      schema.splice(2, 0, { name: 's', repetition_type: 'REQUIRED', num_children: 1 });
    },
  );

/** Not by its pages, which are read later. */
const BY_ITS_FOOTER =
  /in\.parquet: expected (Parquet, got bytes that are not \(.*\)|columns that inflate to at most \d+ bytes, got \d+); write the file again\n$/;
const FOOTERS: Readonly<Record<string, Buffer>> = {
  'ten billion rows': lie((footer) => rowsOf(footer, BILLIONS)),
  'ten billion rows in all, three in its row group': lie((footer) => {
    footer.num_rows = BigInt(BILLIONS);
  }),
  'two million rows in a group': lie((footer) => rowsOf(footer, 2_000_000)),
  'rows by the thousand without a value each': lie((footer) => {
    rowsOf(footer, 200_000);
    chunkIn(footer).num_values = 3n;
  }),
  'a column that inflates to a petabyte': lie((footer) => {
    chunkIn(footer).total_uncompressed_size = 2n ** 50n;
  }),
  'a column that ends behind the file': lie((footer) => {
    chunkIn(footer).total_compressed_size = 2n ** 40n;
  }),
  'a column that begins behind the file': lie((footer) => {
    chunkIn(footer).data_page_offset = 2n ** 40n;
  }),
  'row groups that lie in one place': lie((footer) => {
    const { row_groups: groups } = footer;
    while (groups.length < 100) groups.push(Object(groups[0]));
    footer.num_rows = 300n;
  }),
  'more values than rows': lie((footer) => {
    chunkIn(footer).num_values = 4n;
  }),
  'a column of another type than its schema': lie((footer) => {
    chunkIn(footer).type = 'DOUBLE';
  }),
  'a column of another name than its schema': lie((footer) => {
    chunkIn(footer).path_in_schema = ['y'];
  }),
  'two columns of one name': parquetFile(3, [column('x', { pages: [sound] }), column('x', { pages: [sound] })]),
  'a column that its row group lacks': withFooter(
    parquetFile(3, [column('x', { pages: [sound] }), column('y', { pages: [sound] })]),
    ({ row_groups: [group] }) => {
      group?.columns.pop();
    },
  ),
  'texts that are numbers': parquetFile(3, [
    column('x', { type: 'INT32', converted_type: 'UTF8', pages: [dataPage(3, plain(new Int32Array(3)))] }),
  ]),
  'halves of one byte': parquetFile(3, [
    column('x', {
      ...{ type: 'FIXED_LEN_BYTE_ARRAY', type_length: 1, logical_type: { type: 'FLOAT16' } },
      pages: [dataPage(3, Buffer.alloc(3))],
    }),
  ]),
  'millions of values of a struct in three rows': struct(8_000_000),
  'columns in another file': lie((footer) => {
    Object(footer.row_groups[0]?.columns[0]).file_path = '/etc/passwd';
  }),
  'two billion columns': thrift(
    Buffer.from(
      SOUND.toString('latin1')
        .slice(4 + sound.length, -8)
        .replace('root\x15\x02', 'root\x15\xfe\xff\xff\xff\x0f'),
      'latin1',
    ),
  ),
  'many structs within each other': nested(1_500),
  'a list of two billion': thrift(Buffer.from([0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07])),
  'lists within lists': thrift(Buffer.from([0x29]), Buffer.alloc(9_000, 0x19)),
  'a number of nine thousand bytes': thrift(Buffer.from([0x16]), Buffer.alloc(9_000, 0x80), Buffer.from([0])),
};

/** Pages that have one text in each row. */
const same = (rows: number, value: string | Buffer): Buffer[] => {
  const [text, indices] = [plainTexts([value]), Buffer.concat([Buffer.from([1]), run(rows, 0)])];
  return [
    dictionaryPage(1, zstdCompressSync(text), { inflated: text.length }),
    dataPage(rows, zstdCompressSync(indices), { encoding: 8, inflated: indices.length }),
  ];
};
/** Blocks of eight differences: the first one is `step`, and the others are 0. */
const steps = (blocks: number, step: number): Buffer[] => {
  const first = Buffer.alloc(32);
  first.writeUInt32LE(Math.max(0, step));
  for (let at = 4; at < 32; at += 4) first.writeUInt32LE(Math.max(0, -step), at);
  const least = Math.min(0, step);
  const others = Array.from({ length: blocks - 1 }, () => Buffer.from([0, 0]));
  return [varint(-2 * least - (least < 0 ? 1 : 0)), Buffer.from([32]), first, ...others];
};
/** A text of a mebibyte in each row. */
const repeated = (rows: number): Buffer => texts(rows, ...same(rows, Buffer.alloc(MIB, 'a')));
/** Row groups of one row that have the same pages. */
const groups = (count: number, about: Partial<FileColumn>, pages: readonly Uint8Array[], inflated: number): Buffer => {
  const file = parquetFile(1, [column('x', { ...about, pages: Array.from({ length: count }, () => pages).flat() })]);
  const size = pages.reduce((sum, one) => sum + one.length, 0);
  return withFooter(file, (footer) => {
    const first = chunkIn(footer);
    footer.num_rows = BigInt(count);
    footer.row_groups = Array.from({ length: count }, (_, index) => {
      const sizes = { total_compressed_size: BigInt(size), total_uncompressed_size: BigInt(inflated) };
      const meta_data = { ...first, ...sizes, data_page_offset: BigInt(4 + index * size) };
      return { columns: [{ file_offset: 0n, meta_data }], total_byte_size: 0n, num_rows: 1n };
    });
  });
};
const brotli = (body: Uint8Array, rows: number): Buffer =>
  dataPage(rows, brotliCompressSync(body), { inflated: body.length });

const PAGES: Readonly<Record<string, Buffer>> = {
  'two billion values': pages(3, dataPage(2 ** 31 - 1, plain(new Float32Array(3)))),
  'a dictionary of four million numbers': dictionary({}, 4 * MIB),
  'a dictionary of a hundred million booleans': dictionary({ type: 'BOOLEAN' }, 128 * MIB),
  'texts of a dictionary of four million': dictionary({ type: 'BYTE_ARRAY' }, 4 * MIB),
  'sixty dictionaries of two million bytes': parquetFile(3, [
    column('x', {
      codec: 'BROTLI',
      pages: Array.from({ length: 60 }, () =>
        dictionaryPage(1, brotliCompressSync(zeros.subarray(0, 2_000_000)), { inflated: 2_000_000 }),
      ),
    }),
  ]),
  'a run of a billion nulls': nullable(3, dataPage(3, Buffer.concat([Buffer.from([6, 0, 0, 0]), run(2 ** 30, 1)]))),
  'a run that is too short': nullable(3, dataPage(3, Buffer.concat([Buffer.from([2, 0, 0, 0]), run(1, 1)]))),
  'too few values': pages(3, dataPage(2, plain(new Float32Array(2)))),
  'a dictionary of two billion values': pages(
    3,
    dictionaryPage(2 ** 31 - 1, plain(new Float32Array(3))),
    dataPage(3, Buffer.concat([Buffer.from([1]), run(3, 0)]), { encoding: 8 }),
  ),
  'an index behind its dictionary': pages(
    3,
    dictionaryPage(1, plain(new Float32Array(1))),
    dataPage(3, Buffer.concat([Buffer.from([8]), run(3, 200)]), { encoding: 8 }),
  ),
  'differences for fewer values': parquetFile(3, [
    column('x', { type: 'INT32', pages: [dataPage(3, differences(2), { encoding: 5 })] }),
  ]),
  'differences in no blocks': parquetFile(3, [
    column('x', { type: 'INT32', pages: [dataPage(3, Buffer.from([0, 0, 3, 0, 0, 0]), { encoding: 5 })] }),
  ]),
  'more snappy than it says': packed(
    'SNAPPY',
    Buffer.concat([varint(12), Buffer.from([0, 7]), ...Array(2_000).fill(Buffer.from([0xfe, 1, 0]))]),
    12,
  ),
  'more gzip than it says': packed('GZIP', gzipSync(zeros.subarray(0, 8 * MIB)), 12),
  'more zstd than it says': packed('ZSTD', zstdCompressSync(zeros), 12),
  'more brotli than it says': packed('BROTLI', brotliCompressSync(zeros), 12),
  'as much zstd as it says, which is too much': packed('ZSTD', zstdCompressSync(zeros), zeros.length),
  'less than it says': packed('ZSTD', zstdCompressSync(zeros.subarray(0, 12)), 2 ** 31 - 1),
  'no page at all': pages(3, Buffer.alloc(5_000, 0x15)),
  'texts of a mebibyte that a dictionary repeats': repeated(50),
  'texts of a mebibyte that are the one before': texts(
    400,
    ((body) => dataPage(400, zstdCompressSync(body), { encoding: 7, inflated: body.length }))(
      Buffer.concat([
        // Prefixes: 0 for the first, and a mebibyte for each other one. Lengths: the other way round.
        ...[varint(8), varint(1), varint(400), varint(0), ...steps(50, MIB)],
        ...[varint(8), varint(1), varint(400), varint(2 * MIB), ...steps(50, -MIB)],
        Buffer.alloc(MIB),
      ]),
    ),
  ),
  'texts in row groups that each inflate': groups(
    40,
    { type: 'BYTE_ARRAY', codec: 'BROTLI' },
    [brotli(plainTexts([Buffer.alloc(4 * MIB, 'a')]), 1)],
    0,
  ),
  'texts in row groups that each have a dictionary': groups(
    40,
    { type: 'BYTE_ARRAY', codec: 'ZSTD' },
    [
      dictionaryPage(60_000, zstdCompressSync(zeros.subarray(0, 240_000)), { inflated: 240_000 }),
      dataPage(1, Buffer.concat([Buffer.from([1]), run(1, 0)]), { encoding: 8 }),
    ],
    0,
  ),
  'texts that repeat the one before': texts(
    400,
    ((body) => dataPage(400, zstdCompressSync(body), { encoding: 7, inflated: body.length }))(
      Buffer.concat([
        // The first has a mebibyte, and each other one begins like it, and has a byte more.
        ...[varint(128), varint(4), varint(400), varint(0), varint(2 * MIB)],
        ...[
          Buffer.from([0, 0, 0, 0]),
          varint(2),
          Buffer.from([0, 0, 0, 0]),
          varint(2),
          Buffer.from([0, 0, 0, 0]),
          varint(2),
          Buffer.from([0, 0, 0, 0]),
        ],
        Buffer.alloc(2 * MIB),
      ]),
    ),
  ),
};

/** What is true of it, however little it is. */
const TRUE: Readonly<Record<string, Buffer>> = {
  'a text of a mebibyte in each of seven rows': repeated(7),
  'ten pages of a mebibyte': texts(
    10,
    ...Array.from({ length: 10 }, () => {
      const body = plainTexts([Buffer.alloc(MIB - 4, 'a')]);
      return dataPage(1, zstdCompressSync(body), { inflated: body.length });
    }),
  ),
};

const gz = (text: string): Buffer => gzipSync(text, { level: 9 });
const TOO_LONG = /line 1: expected at most 1[34]\d{5} bytes in a compressed file of \d+, got more; decompress the file/;
const TOO_LONG_ROW = /PAYLOAD_TOO_LARGE, first in line 2: line: expected at most \d+ bytes in a compressed file of/;
/** By name, what is in a file of another kind, and what is said of it. */
const OTHERS: readonly (readonly [what: string, name: string, file: Buffer, said: RegExp])[] = [
  ['nine million blank lines', 'in.jsonl.gz', gz('\n'.repeat(9_500_000)), /expected rows to score, got none/],
  ['nine million brackets', 'in.jsonl.gz', gz(`{"x":${'['.repeat(9_000_000)}`), TOO_LONG],
  ['a million brackets', 'in.jsonl.gz', gz(`{"x":${'['.repeat(1_000_000)}`), /scored, INVALID_REQUEST 1/],
  ['two hundred thousand objects', 'in.jsonl.gz', gz('{"x":'.repeat(200_000)), /scored, INVALID_REQUEST 1/],
  ['half a million elements', 'in.jsonl.gz', gz(`{"x":[${'1,'.repeat(500_000)}1]}`), /scored, INVALID_SHAPE 1/],
  ['five million elements', 'wholeLists.jsonl.gz', gz(`{"x":[${'1,'.repeat(4_900_000)}1]}`), TOO_LONG],
  ['three million texts', 'textLists.jsonl.gz', gz(`{"x":[${'"",'.repeat(3_200_000)}""]}`), TOO_LONG],
  ['a cell of five million elements', 'wholeLists.csv.gz', gz(`x\n"[${'1,'.repeat(4_900_000)}1]"`), TOO_LONG_ROW],
  ['a line of nine million digits', 'in.jsonl.gz', gz(`{"x":1}\n${'9'.repeat(9_000_000)}`), /1 scored, PAYLOAD_TOO_L/],
  ['ten million digits', 'whole.csv.gz', gz(`x\n${'9'.repeat(9_900_000)}`), TOO_LONG_ROW],
  ['nine million digits', 'whole.csv.gz', gz(`x\n${`${'9'.repeat(1_000_000)}\n`.repeat(9)}`), /scored, INVALID_DATA 9/],
  ['ten million columns', 'in.csv.gz', gz(`${','.repeat(9_900_000)}x\n1\n`), TOO_LONG],
  [
    'a million columns',
    'in.csv.gz',
    gz(`${','.repeat(1_060_000)}x\n1\n`),
    /first line of CSV, got 1048576 bytes or more/,
  ],
  ['brackets', 'in.jsonl', Buffer.from(`{"x":${'['.repeat(9_000)}`), /scored, INVALID_JSON 1/],
  ['thousands of columns', 'in.csv', Buffer.from(`${','.repeat(9_000)}x`), /columns: expected each name once/],
  ['quotes', 'in.csv', Buffer.from(`x\n${'"'.repeat(9_000)}1`), /scored, INVALID_REQUEST 1/],
  ['thousands of digits', 'in.csv', Buffer.from(`x\n${'9'.repeat(9_000)}`), /scored, INVALID_DATA 1/],
];

/** Shapes of inputs that declare more elements than a request has. */
const SHAPES: Readonly<Record<string, readonly (number | string)[]>> = {
  'a large image': [1, 3, 4000, 4000],
  'ten million elements': ['batch', 10_000_000],
  'a hundred million rows': [100_000_000],
  'a terabyte of elements': ['batch', 1_000_000, 1_000_000],
  'more elements than there are atoms': ['batch', ...Array.from({ length: 600 }, () => 2)],
};

/** Columns of long lists in one of three rows. */
const longLists = (columns: number, values: number): Buffer => {
  const names = Array.from({ length: columns }, (_, index) => `c${index}`);
  const element = { name: 'element', type: 'FLOAT' as const, repetition_type: 'REQUIRED' as const };
  const levels = [Buffer.concat([run(3, 0), run(values - 3, 1)]), run(values, 1)].flatMap((one) => [
    Buffer.from([one.length, 0, 0, 0]),
    one,
  ]);
  const pages = [
    dictionaryPage(1, plain(new Float32Array(1))),
    dataPage(values, Buffer.concat([...levels, Buffer.from([1]), run(values, 0)]), { encoding: 8 }),
  ];
  const lists = names.map((name) => {
    return column(name, { pages, about: { num_values: BigInt(values), path_in_schema: [name, 'list', 'element'] } });
  });
  return withFooter(parquetFile(3, [column('x', { pages: [sound, PADDING] }), ...lists]), ({ schema }) => {
    const list = { name: 'list', repetition_type: 'REPEATED' as const, num_children: 1 };
    const top = { repetition_type: 'REQUIRED' as const, converted_type: 'LIST' as const, num_children: 1 };
    schema.splice(2, columns, ...names.flatMap((name) => [{ name, ...top }, list, element]));
  });
};
/** A column `k` of levels and values, kept beside three rows of `x`: lists within each other. */
const nestedColumn = (levels: number, leaf: Partial<FileColumn>, pages: readonly Uint8Array[], values: number) => {
  const names = Array.from({ length: levels }, (_, level) => [level === 0 ? 'k' : 'element', 'list']).flat();
  const file = parquetFile(1, [
    column('x', { pages: [dataPage(1, plain(new Float32Array(1))), PADDING] }),
    column('k', { ...leaf, pages, about: { num_values: BigInt(values), path_in_schema: [...names, 'element'] } }),
  ]);
  return withFooter(file, ({ schema }) => {
    const [element] = schema.splice(2, 1);
    schema.push(
      ...names.map((name) => ({
        ...{ name, num_children: 1 },
        ...(name === 'list'
          ? { repetition_type: 'REPEATED' as const }
          : ({ repetition_type: 'REQUIRED', converted_type: 'LIST' } as const)),
      })),
      { ...Object(element), name: 'element' },
    );
  });
};
/** Levels of one row of so many values. Each value but the first repeats at `level`. */
const levelsOf = (depth: number, level: number, values: number): Buffer[] =>
  [Buffer.concat([run(1, 0), run(values - 1, level)]), run(values, depth)].flatMap((one) => [
    Buffer.from([one.length, 0, 0, 0]),
    one,
  ]);
/** One row, in which each value is in `depth - 1` lists of its own. */
const deepList = (depth: number, values: number): Buffer =>
  nestedColumn(
    depth,
    {},
    [
      dictionaryPage(1, plain(new Float32Array(1))),
      dataPage(values, Buffer.concat([...levelsOf(depth, 1, values), Buffer.from([1]), run(values, 0)]), {
        encoding: 8,
      }),
    ],
    values,
  );
/** One row, in which a list has one text so many times. @param begin run of the first repetition levels */
const listOf = (text: string, values: number, [count, level] = [1, 0]): Buffer => {
  const repetitions = Buffer.concat([run(count, level), run(values - count, 1)]);
  const levels = [repetitions, run(values, 1)].flatMap((one) => [Buffer.from([one.length, 0, 0, 0]), one]);
  const pages = [
    dictionaryPage(1, plainTexts([text])),
    dataPage(values, Buffer.concat([...levels, Buffer.from([1]), run(values, 0)]), { encoding: 8 }),
  ];
  return nestedColumn(1, { type: 'BYTE_ARRAY', converted_type: 'UTF8' }, pages, values);
};
const decimals = (values: number): Buffer => {
  const body = Buffer.concat([...levelsOf(1, 1, values), Buffer.alloc(4 * values)]);
  const page = dataPage(values, zstdCompressSync(body), { inflated: body.length });
  return nestedColumn(
    1,
    { type: 'INT32', converted_type: 'DECIMAL', scale: 1000, precision: 1000, codec: 'ZSTD' },
    [page],
    values,
  );
};
/** Begin of a polygon in WKB: its byte order, kind and number of rings. */
const POLYGON = Buffer.from([1, 3, 0, 0, 0, 0x40, 0x4b, 0x4c, 0]);
const TOO_MUCH = /expected column '[gjk]' .*\(more than \d+ bytes, the most for a file of this size\)/;
/** What is kept beside the result, by what it is. */
const KEPT: readonly (readonly [what: string, keep: string, file: Buffer, code: number, said: RegExp])[] = [
  [
    'a list of millions in one row',
    'c0',
    longLists(1, 5_000_000),
    1,
    /expected column 'c0' .*\(more than \d+ bytes, the most for a file of this size\)/,
  ],
  [
    'ten lists of 800,000 values each in one row',
    Array.from({ length: 10 }, (_, index) => `c${index}`).join(),
    longLists(10, 800_000),
    1,
    /expected column 'c\d' .*\(more than \d+ bytes, the most for a file of this size\)/,
  ],
  [
    'JSON of a mebibyte in each of five hundred rows',
    'j',
    parquetFile(500, [
      column('x', { pages: [dataPage(500, plain(new Float32Array(500)))] }),
      column('j', {
        type: 'BYTE_ARRAY',
        converted_type: 'JSON',
        codec: 'ZSTD',
        pages: same(500, `{"j":[${'0,'.repeat(MIB / 2)}0]}`),
      }),
    ]),
    1,
    /expected column 'j' in rows 0 to 499, got bytes that are not \(more than \d+ bytes, the most for a file of this size\)/,
  ],
  ['lists of fourteen levels', 'k', deepList(14, 300_000), 1, TOO_MUCH],
  [
    'a polygon of five million empty rings',
    'g',
    parquetFile(1, [
      column('x', { pages: [dataPage(1, plain(new Float32Array(1))), PADDING] }),
      column('g', {
        ...{ type: 'BYTE_ARRAY', logical_type: { type: 'GEOMETRY' }, codec: 'BROTLI' },
        pages: [brotli(plainTexts([Buffer.concat([POLYGON, Buffer.alloc(4 * 5_000_000)])]), 1)],
      }),
    ]),
    1,
    TOO_MUCH,
  ],
  [
    'a VARIANT, which may have parts of itself within itself',
    'v',
    withFooter(
      parquetFile(3, [
        column('x', { pages: [sound] }),
        column('value', {
          type: 'BYTE_ARRAY',
          pages: [dataPage(3, plainTexts(['', '', '']))],
          about: { path_in_schema: ['v', 'value'] },
        }),
      ]),
      ({ schema }) => {
        schema.splice(2, 0, {
          name: 'v',
          repetition_type: 'REQUIRED',
          num_children: 1,
          logical_type: { type: 'VARIANT' },
        });
      },
    ),
    1,
    /expected columns of other types, got VARIANT in 'v\.value'; cast it to a text\n$/,
  ],
  ['a list of a million decimals', 'k', decimals(1_000_000), 1, TOO_MUCH],
  ['a list that has one text 400,000 times', 'k', listOf('text '.repeat(300), 400_000), 1, TOO_MUCH],
  ['a list whose first value is of no row', 'k', listOf('text', 3, [1, 1]), 1, /\(values before the first row\)/],
  [
    'JSON of thirty million bytes, which is lists',
    'j',
    parquetFile(1, [
      column('x', { pages: [dataPage(1, plain(new Float32Array(1))), PADDING] }),
      column('j', {
        ...{ type: 'BYTE_ARRAY', converted_type: 'JSON', codec: 'BROTLI' },
        pages: [brotli(plainTexts([`[${'[],'.repeat(10_000_000)}0]`]), 1)],
      }),
    ]),
    1,
    TOO_MUCH,
  ],
];

describe('a hostile file of less than 10 kB', () => {
  const inFolder = useFolder();
  const most = { cpuMs: 0, mib: 0 };
  let base: typeof most | undefined;
  let leastWorkMs = Number.POSITIVE_INFINITY;
  const command = async (args: readonly string[], name: string, file: Uint8Array | string) => {
    const type = /text/.test(name) ? 'BYTES' : /whole/.test(name) ? 'INT64' : 'FP32';
    writeFileSync(inFolder('model.onnx'), identityModel(type, /Lists/.test(name) ? ['batch', 'n'] : ['batch']));
    writeFileSync(inFolder(name), file);
    expect(file.length).toBeLessThan(MAX_FILE_BYTES);
    const env = { NODE_OPTIONS: `--import ${JSON.stringify(ACCOUNT.replaceAll('\n', ''))}` };
    const { code, stdout, stderr } = await runScript('cli/batchscore.ts', args, { env });
    const [, said = '', account = ''] = /^(.*?)(\{"userCPUTime".*)$/s.exec(stderr) ?? [];
    const { userCPUTime, systemCPUTime, maxRSS, workMs } = JSON.parse(account);
    leastWorkMs = Math.min(leastWorkMs, workMs);
    const cpuMs = ((userCPUTime + systemCPUTime) / 1000) * (leastWorkMs / workMs);
    return { code, stdout, said, taken: { cpuMs, mib: maxRSS / 1024 } };
  };
  const score = (name: string, file: Uint8Array | string) =>
    command(['score', inFolder('model.onnx'), inFolder(name), '--out', inFolder('out.jsonl')], name, file);
  const expectCheap = async ({ taken }: Awaited<ReturnType<typeof score>>): Promise<void> => {
    base ??= (await score('sound.parquet', SOUND)).taken;
    const more = { cpuMs: taken.cpuMs - base.cpuMs, mib: taken.mib - base.mib };
    most.cpuMs = Math.max(most.cpuMs, more.cpuMs);
    most.mib = Math.max(most.mib, more.mib);
    expect(more.cpuMs).toBeLessThan(MAX.cpuMs);
    expect(more.mib).toBeLessThan(MAX.mib);
  };
  afterAll(() =>
    console.log(`at most ${most.cpuMs.toFixed(0)} ms and ${most.mib.toFixed(0)} MiB more than a sound file`),
  );

  it.each(Object.entries(FOOTERS))('is refused before anything is scored: a footer with %s', async (_, file) => {
    const scored = await score('in.parquet', file);
    expect(scored).toMatchObject({ code: 1, said: expect.stringMatching(BY_ITS_FOOTER) });
    await expectCheap(scored);
  });

  it.each(Object.entries(PAGES))('is refused as it is read: a page with %s', async (what, file) => {
    const scored = await score(
      `${what.startsWith('texts') ? 'texts' : what.startsWith('differences') ? 'whole' : 'in'}.parquet`,
      file,
    );
    expect(scored).toMatchObject({
      code: 1,
      said: expect.stringMatching(
        /\.parquet: expected column 'x' in rows \d+ to \d+, got bytes that are not \(.*\); write the file again\n$/,
      ),
    });
    await expectCheap(scored);
  });

  it.each(OTHERS)('is answered: one of %s, %s', async (_, name, file, expected) => {
    const scored = await score(name, file);
    expect(scored.code).not.toBe(0);
    expect(scored.stdout + scored.said).toMatch(expected);
    await expectCheap(scored);
  });

  it.each(Object.entries(SHAPES))('is inspected without a request: a model of %s', async (_, shape) => {
    const model = identityModel('FP32', shape);
    const inspected = await command(['inspect', inFolder('big.onnx')], 'big.onnx', model);
    expect(inspected.code).toBe(0);
    expect(inspected.stdout.replaceAll(/\s+/g, ' ')).toContain('No request was run: a row has over 1310720 elements');
    await expectCheap(inspected);
  });

  it.each(KEPT)('is cheap where it is kept: %s', async (_, keep, file, code, said) => {
    const args = [
      'score',
      inFolder('model.onnx'),
      inFolder('in.parquet'),
      '--keep',
      keep,
      '--out',
      inFolder('out.jsonl'),
    ];
    const scored = await command(args, 'in.parquet', file);
    expect(scored).toMatchObject({ code, said: expect.stringMatching(said) });
    await expectCheap(scored);
  });

  it('is scored whatever it takes where it has an ordinary text in each of many rows', async () => {
    const [rows, text] = [10_000, 'long '.repeat(400)];
    expect(await score('texts.parquet', texts(rows, ...same(rows, text)))).toMatchObject({ code: 0, said: '' });
    const results = readFileSync(inFolder('out.jsonl'), 'utf8').trimEnd().split('\n');
    expect(results).toHaveLength(rows);
    expect(results.at(-1)).toContain(text);
  });

  it.each(Object.entries(TRUE))('is scored: %s', async (_, file) => {
    const scored = await score('texts.parquet', file);
    expect(scored).toMatchObject({ code: 0, said: '' });
    await expectCheap(scored);
  });
});
