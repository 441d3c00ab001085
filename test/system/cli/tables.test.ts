import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { Datatype } from '../../../lambda/core/tensor.ts';
import { jsonLines, runScript } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { model, node } from '../../helpers/graph.ts';
import { identityModel } from '../../helpers/onnxModels.ts';
import { dataPage, type FileColumn, parquetFile, plain, plainTexts, varint } from '../../helpers/parquetFile.ts';

type Row = Readonly<Record<string, unknown>>;

const TABLES = new URL('tables/', import.meta.url);
/** What the writers of `tables/` were given. */
const TABLE: readonly Row[] = JSON.parse(readFileSync(new URL('table.json', TABLES), 'utf8'));
const WRITERS = [
  ...['pyarrow', 'pyarrow-groups', 'pyarrow-delta', 'pyarrow-split', 'pyarrow-integers'],
  ...['duckdb-v1', 'duckdb-v2', 'polars', 'polars-snappy'],
];
const INPUTS: Readonly<Record<string, Datatype>> = {
  u32: 'UINT32',
  u64: 'UINT64',
  i8: 'INT8',
  i64: 'INT64',
  f32: 'FP32',
  f64: 'FP64',
  flag: 'BOOL',
  text: 'BYTES',
};
const MISSING: Row = { text: '', flag: false };

/** Gives back each of its inputs. */
function everyModel(): Uint8Array {
  const values = (prefix: string) =>
    Object.entries(INPUTS).map(([name, datatype]) => `${prefix}${name} ${datatype}[batch]`);
  const nodes = Object.keys(INPUTS).map((name) => node('Identity', name, `of_${name}`));
  return model(values('').join('; '), values('of_').join('; '), nodes);
}

describe('a file of Parquet', () => {
  const inFolder = useFolder();

  it.each(WRITERS)('is read value by value as %s wrote it', async (writer) => {
    writeFileSync(inFolder('every.onnx'), everyModel());
    const path = new URL(`${writer}.parquet`, TABLES).pathname;
    const keep = Object.keys(TABLE[0] ?? {}).join(',');
    const args = ['score', inFolder('every.onnx'), path, '--keep', keep, '--missing', '0'];
    const { code, stdout } = await runScript('cli/batchscore.ts', args);
    const results = jsonLines(stdout);
    expect(results.map(({ kept }) => kept)).toEqual(TABLE);
    expect(results.map(({ outputs }) => outputs.map(({ data }: { data: unknown[] }) => data[0]))).toEqual(
      TABLE.map((row) => Object.keys(INPUTS).map((name) => row[name] ?? MISSING[name] ?? 0)),
    );
    expect(code).toBe(0);
  });
});

describe('batchscore score', () => {
  const inFolder = useFolder();
  const score = async (datatype: Datatype, name: string, file: Uint8Array | string, ...args: readonly string[]) => {
    writeFileSync(inFolder('model.onnx'), identityModel(datatype, ['batch']));
    writeFileSync(inFolder(name), file);
    const { code, stdout, stderr } = await runScript('cli/batchscore.ts', [
      ...['score', inFolder('model.onnx'), inFolder(name), ...args],
    ]);
    const rows = stdout === '' ? [] : jsonLines(stdout);
    return { code, stderr, rows, answers: rows.map((row) => row.code ?? row.outputs[0].data[0]) };
  };
  /** The column `x`, and others that are kept. */
  const kept = async (rows: number, columns: readonly FileColumn[]) => {
    const x = { name: 'x', pages: [dataPage(rows, plain(new Float32Array(rows)))] };
    const names = columns.map(({ name }) => name).join(',');
    const { rows: results } = await score('FP32', 'in.parquet', parquetFile(rows, [x, ...columns]), '--keep', names);
    return columns.map(({ name }) => results.map((row) => row.kept[name]));
  };

  it('keeps decimals digit by digit, in each type that holds them and with any scale', async () => {
    const bytes = [Buffer.from('ff', 'hex'), Buffer.from('00ffffffffffffffffff', 'hex'), Buffer.alloc(0)];
    const decimal = { converted_type: 'DECIMAL', precision: 4 } as const;
    const columns: FileColumn[] = [
      { name: 'i32', type: 'INT32', ...decimal, scale: 2, pages: [dataPage(3, plain(new Int32Array([435, -5, 0])))] },
      {
        name: 'i64',
        type: 'INT64',
        ...decimal,
        scale: 0,
        pages: [dataPage(3, plain(new BigInt64Array([-(2n ** 63n), 2n ** 53n + 1n, -1n])))],
      },
      { name: 'texts', type: 'BYTE_ARRAY', ...decimal, scale: 21, pages: [dataPage(3, plainTexts(bytes))] },
      {
        name: 'fixed',
        type: 'FIXED_LEN_BYTE_ARRAY',
        type_length: 2,
        ...decimal,
        scale: 6,
        pages: [dataPage(3, Buffer.from('8000ffff0001', 'hex'))],
      },
      { name: 'wide', type: 'INT32', ...decimal, scale: -3, pages: [dataPage(3, plain(new Int32Array([7, -7, 0])))] },
      {
        name: 'logical',
        type: 'INT32',
        logical_type: { type: 'DECIMAL', scale: 1, precision: 9 },
        pages: [dataPage(3, plain(new Int32Array([10, -15, 5])))],
      },
    ];
    expect(await kept(3, columns)).toEqual([
      ['4.35', '-0.05', '0.00'],
      ['-9223372036854775808', '9007199254740993', '-1'],
      ['-0.000000000000000000001', '4.722366482869645213695', '0.000000000000000000000'],
      ['-0.032768', '-0.000001', '0.000001'],
      ['7000', '-7000', '0'],
      ['1.0', '-1.5', '0.5'],
    ]);
  });

  it('keeps lists and structs, whatever pages their rows begin in, and members that are null', async () => {
    const file = (name: string) => readFileSync(new URL(`../../unit/jobs/parquet/nested.${name}`, import.meta.url));
    const { rows } = await score('FP32', 'in.parquet', file('parquet'), '--keep', 'point,list');
    expect(rows.map((row) => row.kept)).toEqual(JSON.parse(file('json').toString()));
  });

  it('keeps times of day as a clock shows them, in each unit', async () => {
    const time = (unit: 'MILLIS' | 'MICROS' | 'NANOS') => ({ type: 'TIME', unit, isAdjustedToUTC: true }) as const;
    const wide = (values: readonly bigint[]) => [dataPage(4, plain(new BigInt64Array(values)))];
    const narrow = (values: readonly number[]) => [dataPage(4, plain(new Int32Array(values)))];
    const columns: FileColumn[] = [
      { name: 'ms', type: 'INT32', logical_type: time('MILLIS'), pages: narrow([48_129_000, 48_129_120, 0, -1]) },
      {
        name: 'us',
        type: 'INT64',
        logical_type: time('MICROS'),
        pages: wide([48_129_000_123n, 86_400_000_000n, 1n, 86_400_000_001n]),
      },
      {
        name: 'ns',
        type: 'INT64',
        logical_type: time('NANOS'),
        pages: wide([1n, 48_600_000_000_000n, 48_129_500_000_000n, 0n]),
      },
      { name: 'old ms', type: 'INT32', converted_type: 'TIME_MILLIS', pages: narrow([1, 10, 100, 1000]) },
      {
        name: 'old us',
        type: 'INT64',
        converted_type: 'TIME_MICROS',
        pages: wide([1n, 10n, 60_000_000n, 3_600_000_000n]),
      },
    ];
    expect(await kept(4, columns)).toEqual([
      ['13:22:09', '13:22:09.12', '00:00:00', -1],
      ['13:22:09.000123', '24:00:00', '00:00:00.000001', 86_400_000_001],
      ['00:00:00.000000001', '13:30:00', '13:22:09.5', '00:00:00'],
      ['00:00:00.001', '00:00:00.01', '00:00:00.1', '00:00:01'],
      ['00:00:00.000001', '00:00:00.00001', '00:01:00', '01:00:00'],
    ]);
  });

  it('refuses bytes that are not UTF-8 in an input of texts, row by row, and keeps them as base64', async () => {
    const texts = [Buffer.from('ok'), Buffer.from([0xc3]), Buffer.from('é'), Buffer.from([0xed, 0xa0, 0x80])];
    const utf8: FileColumn = {
      name: 'x',
      type: 'BYTE_ARRAY',
      converted_type: 'UTF8',
      pages: [dataPage(4, plainTexts(texts))],
    };
    const { code, rows, answers } = await score('BYTES', 'in.parquet', parquetFile(4, [utf8]), '--keep', 'x');
    expect(answers).toEqual(['ok', 'INVALID_DATA', 'é', 'INVALID_DATA']);
    expect(rows.map((row) => row.kept.x)).toEqual(['ok', 'ww==', 'é', '7aCA']);
    expect(rows[1].error).toBe("column 'x': expected a value of BYTES, got bytes that are not UTF-8; fix that row");
    expect(code).toBe(3);
  });

  it.each([
    ['FP32', 'of the type of nothing', { type: 'INT32', logical_type: { type: 'NULL' } }],
    ['BYTES', 'of the type of nothing', { type: 'INT32', logical_type: { type: 'NULL' } }],
    ['BYTES', 'of numbers, none of which is there', { type: 'DOUBLE', about: { statistics: { null_count: 3n } } }],
    [
      'INT64',
      'of dates, none of which is there',
      { type: 'INT32', converted_type: 'DATE', about: { statistics: { null_count: 3n } } },
    ],
  ] as const)('takes for missing values in an input of %s a column %s', async (datatype, _, column) => {
    const nulls = dataPage(3, Buffer.concat([Buffer.from([2, 0, 0, 0]), varint(6), Buffer.from([0])]));
    const file = parquetFile(3, [{ name: 'x', repetition_type: 'OPTIONAL', pages: [nulls], ...column }]);
    const { answers } = await score(datatype, 'in.parquet', file);
    expect(answers).toEqual(['INVALID_DATA', 'INVALID_DATA', 'INVALID_DATA']);
    const filled = await score(datatype, 'in.parquet', file, '--missing', '7', '--keep', 'x');
    expect(filled.answers).toEqual(Array(3).fill(datatype === 'BYTES' ? '' : 7));
    expect(filled.rows.map((row) => row.kept)).toEqual(Array(3).fill({ x: null }));
  });

  it.each([
    [
      'FP32',
      [3.4028235e38, -3.4028235e38, 3.4028235677973366e38, 1e39],
      [3.4028234663852886e38, -3.4028234663852886e38],
    ],
    ['FP16', [65_504, -65_519.9, 65_520, 1e5], [65_504, -65_504]],
    ['FP64', [1.7976931348623157e308, -1.7976931348623157e308], [1.7976931348623157e308, -1.7976931348623157e308]],
  ] as const)(
    'takes what rounds to a finite value of %s, and no more, in each format',
    async (datatype, values, taken) => {
      const expected = values.map((_, row) => taken[row] ?? 'INVALID_DATA');
      const request = (value: number) => ({ inputs: [{ name: 'x', datatype, shape: [1], data: [value] }] });
      const column: FileColumn = {
        name: 'x',
        type: 'DOUBLE',
        pages: [dataPage(values.length, plain(new Float64Array(values)))],
      };
      const lines = (read: (value: number) => unknown) => values.map((value) => JSON.stringify(read(value))).join('\n');
      const files = {
        'in.csv': `x\n${values.join('\n')}\n`,
        'in.parquet': parquetFile(values.length, [column]),
        'objects.jsonl': lines((x) => ({ x })),
        'arrays.jsonl': lines((x) => ({ x: [x] })),
        'texts.jsonl': lines((x) => ({ x: String(x) })),
        'requests.jsonl': lines(request),
      };
      for (const [name, file] of Object.entries(files)) {
        expect([name, (await score(datatype, name, file)).answers]).toEqual([name, expected]);
      }
    },
  );

  it('refuses a whole number of more digits than any float has', async () => {
    expect((await score('FP64', 'in.csv', `x\n${'9'.repeat(400)}\n1\ninf`)).answers).toEqual([
      'INVALID_DATA',
      1,
      'Infinity',
    ]);
  });

  it.each([
    ['empty.parquet', '', /empty\.parquet: expected rows to score, got an empty file; check what wrote it\n$/],
    ['empty.csv', '', /empty\.csv: expected rows to score, got an empty file; check what wrote it\n$/],
    ['empty.jsonl', '', /empty\.jsonl: expected rows to score, got an empty file; check what wrote it\n$/],
    [
      'none.parquet',
      parquetFile(0, [{ name: 'x', pages: [] }]),
      /none\.parquet: expected rows to score, got none; check/,
    ],
    ['none.csv', 'x\n', /none\.csv: expected rows to score, got none; check/],
    ['none.jsonl', '\n \n', /none\.jsonl: expected rows to score, got none; check/],
    [
      'short.parquet',
      'PAR1',
      /short\.parquet: expected Parquet, got bytes that are not \(4 bytes, which are too few\)/,
    ],
    [
      'other.parquet',
      'no Parquet at all',
      /other\.parquet: expected Parquet, got bytes that are not \(they do not end with/,
    ],
  ])('says in a sentence that %s has no rows, and exits with 1', async (name, file, message) => {
    const { code, stderr, rows } = await score('FP32', name, file);
    expect({ code, rows, stderr }).toEqual({ code: 1, rows: [], stderr: expect.stringMatching(message) });
  });
});
