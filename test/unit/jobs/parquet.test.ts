import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { parquetMetadataAsync } from 'hyparquet';
import { parquetWriteBuffer } from 'hyparquet-writer';
import type { Tensor } from '../../../lambda/core/tensor.ts';
import type { JobStorage } from '../../../lambda/jobs/jobFiles.ts';
import type { Spec } from '../../../lambda/jobs/jobTypes.ts';
import { type JobOptions, jobOf, manifestIn, planOf, runJob } from '../../helpers/jobs.ts';
import { dataPage, parquetFile, plain, plainTexts, withFooter } from '../../helpers/parquetFile.ts';
import { echoModel, inMemoryModel, lineModel, repositoryOf, spec } from '../../helpers/scoring.ts';

type Row = Record<string, unknown>;

const FOLDER = new URL('parquet/', import.meta.url);
const fileOf = (name: string): Buffer => readFileSync(new URL(`${name}.parquet`, FOLDER));
/** What PyArrow reads. */
const rowsIn = (name: string): Row[] => JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), 'utf8'));

/** Gives back what it is given. */
const ECHO = repositoryOf(
  inMemoryModel(
    {
      inputs: [
        spec('x', 'FP64', 'rows', 2, 2),
        spec('f32', 'FP32', 'rows'),
        spec('i64', 'INT64', 'rows'),
        spec('i32', 'INT32', 'rows'),
        spec('flag', 'BOOL', 'rows'),
        spec('text', 'BYTES', 'rows', 1),
      ],
      outputs: [
        spec('ox', 'FP64', 'rows', 2, 2),
        spec('of32', 'FP32', 'rows'),
        spec('oi64', 'INT64', 'rows'),
        spec('oi32', 'INT32', 'rows'),
        spec('oflag', 'BOOL', 'rows'),
        spec('otext', 'BYTES', 'rows', 1),
      ],
    },
    (inputs) => inputs.map((one) => ({ ...one, name: `o${one.name}`, data: one.data.slice() as typeof one.data })),
  ),
);
const INPUTS = { x: ['f64', 'i8', 'u16', 'u32'] };
const KEEP = ['id', 'f32', 'f64', 'i8', 'u16', 'i32', 'i64', 'u32', 'flag', 'text'];

/** @param options parts of a few pieces each, unless they say otherwise */
function jobOfParquet(content: Buffer, options: Partial<Omit<JobOptions, 'storage'>> = {}) {
  const defaults = { models: ECHO, spec: { inputs: INPUTS }, partBytes: 10_000, pieceBytes: 1_000 };
  return jobOf('in/a.parquet', content, { ...defaults, ...options });
}

function scored(content: Buffer, asked: Spec): Promise<Row[]> {
  return runJob(jobOfParquet(content, { spec: asked, partBytes: 3_000 }));
}

/** Floats of 32 bits are written with as few digits as tell them apart. */
const valuesOf = ({ outputs }: Row) =>
  (outputs as { datatype: string; data: unknown[] }[]).map(({ datatype, data }) =>
    datatype === 'FP32' ? data.map((value) => Math.fround(Number(value))) : data,
  );
const expectedOf = (row: Row) => [
  [row.f64, row.i8, row.u16, row.u32],
  [row.f32],
  [row.i64],
  [row.i32],
  [row.flag],
  [row.text],
];

describe('a job of Parquet', () => {
  it.each(['none', 'groups'])('reads what PyArrow reads: %s', async (name) => {
    const expected = rowsIn('none');
    const rows = await scored(fileOf(name), { inputs: INPUTS, keep: KEEP });
    expect(rows.map(valuesOf)).toEqual(expected.map(expectedOf));
    expect(rows.map(({ kept }) => kept)).toEqual(expected);
    expect(rows.map((row) => row.message_id)).toEqual(expected.map((_, row) => `${row}`));
  });

  it('takes small row groups together: as one piece, by one read of them and one of what the file says of them', async () => {
    const job = jobOfParquet(fileOf('groups'), { partBytes: 4_000_000, pieceBytes: 1_000_000 });
    expect(await planOf(job)).toMatchObject({ parts: 1, pieces: 1 });
    let reads = 0;
    const counting: JobStorage = {
      ...job.storage,
      readRange(...[input, span]) {
        reads += 1;
        return job.storage.readRange(input, span);
      },
    };
    expect(await runJob({ ...job, storage: counting })).toHaveLength(60);
    expect(reads).toBe(2);
  });

  it.each(['nulls', 'nulls-v2'])(
    'answers rows with a null in an input of the model with an error: %s',
    async (name) => {
      const expected = rowsIn('nulls');
      const rows = await scored(fileOf(name), { inputs: INPUTS, keep: KEEP });
      expect(rows.map(({ kept }) => kept)).toEqual(expected);
      for (const [index, row] of rows.entries()) {
        const isNull = expected[index]?.f32 === null;
        expect(row.code).toBe(isNull ? 'INVALID_DATA' : undefined);
        if (isNull) expect(row.error).toMatch(/^column 'f64': expected a value of FP64, got null; .* --missing nan$/);
        else expect(valuesOf(row)).toEqual(expectedOf(expected[index] as Row));
      }
      expect(rows.filter(({ code }) => code !== undefined).length).toBe(9);
    },
  );

  it.each([
    'DELTA_BINARY_PACKED',
    'DELTA_LENGTH_BYTE_ARRAY',
    'DELTA_BYTE_ARRAY',
    'BYTE_STREAM_SPLIT',
    'PLAIN',
  ] as const)('reads a page of %s piece after piece, and from a piece on', async (encoding) => {
    const isText = encoding.endsWith('ARRAY') || encoding === 'PLAIN';
    const data = Array.from({ length: 400 }, (_, row) => {
      if (row % 7 === 3) return null;
      return isText ? `text ${'of a row '.repeat(row % 5)}${(row * row) % 97}` : ((row * row) % 97) - row;
    });
    const type = isText ? 'STRING' : 'INT32';
    const x = { name: 'x', data: Int32Array.from(data.keys()), type: 'INT32' as const };
    const kept = { name: 'kept', data, type, encoding, nullable: true } as const;
    const file = Buffer.from(parquetWriteBuffer({ columnData: [x, kept], pageSize: 2 ** 20 }));
    const models = repositoryOf(echoModel('INT32', []));
    const job = { models, spec: { inputs: { in: ['x'] }, keep: ['kept'] }, partBytes: 3_000, pieceBytes: 1_000 };
    const rows = await runJob(jobOfParquet(file, job));
    expect(rows.map((row) => Object(row.kept).kept)).toEqual(data);
  });

  it('reads lists that only their newer name says to be lists, and a column with a dot beside a struct', async () => {
    const x = { name: 'x', type: 'INT32' as const, pages: [dataPage(2, plain(new Int32Array(2)))] };
    const levels = [Buffer.from([2, 0, 0, 0, 4, 0]), Buffer.from([2, 0, 0, 0, 4, 1])];
    const page = dataPage(2, Buffer.concat([...levels, plain(Int32Array.of(7, 8))]));
    const list = {
      name: 'k',
      type: 'INT32' as const,
      pages: [page],
      about: { path_in_schema: ['k', 'list', 'element'] },
    };
    const dotted = { ...x, name: 'a.b' };
    const inner = { ...x, name: 'b', about: { path_in_schema: ['a', 'b'] } };
    const file = withFooter(parquetFile(2, [x, list, dotted, inner]), ({ schema }) => {
      schema.splice(4, 0, { name: 'a', repetition_type: 'REQUIRED', num_children: 1 });
      schema.splice(
        ...([2, 1] as const),
        { name: 'k', repetition_type: 'REQUIRED', num_children: 1, logical_type: { type: 'LIST' } },
        { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
        { name: 'element', type: 'INT32', repetition_type: 'REQUIRED' },
      );
    });
    const models = repositoryOf(echoModel('INT32', []));
    const rows = await runJob(jobOfParquet(file, { models, spec: { inputs: { in: ['x'] }, keep: ['k', 'a.b', 'a'] } }));
    expect(rows.map(({ kept }) => kept)).toEqual([
      { k: [7], 'a.b': 0, a: { b: 0 } },
      { k: [8], 'a.b': 0, a: { b: 0 } },
    ]);
  });

  it('keeps JSON with all digits', async () => {
    const texts = ['{"id": 12345678901234567890, "of": [1.50, true]}', '[1]', 'no JSON', '"text"'];
    const columns = [
      { name: 'x', type: 'INT32' as const, pages: [dataPage(4, plain(new Int32Array(4)))] },
      {
        name: 'j',
        type: 'BYTE_ARRAY' as const,
        converted_type: 'JSON' as const,
        pages: [dataPage(4, plainTexts(texts))],
      },
    ];
    const models = repositoryOf(echoModel('INT32', []));
    const rows = await runJob(
      jobOfParquet(parquetFile(4, columns), { models, spec: { inputs: { in: ['x'] }, keep: ['j'] } }),
    );
    const kept = [{ id: '12345678901234567890', of: [1.5, true] }, [1], 'no JSON', 'text'];
    expect(rows.map((row) => Object(row.kept).j)).toEqual(kept);
  });

  it('cuts integers off to the bits that the file says they have, as PyArrow does', async () => {
    const cases = [
      ['UINT_8', [300, -1, 5], [44, 255, 5]],
      ['INT_8', [300, 128, -5], [44, -128, -5]],
      ['UINT_16', [70_000, -1, 5], [4_464, 65_535, 5]],
      ['INT_16', [70_000, 32_768, -5], [4_464, -32_768, -5]],
    ] as const;
    const columns = cases.map(([name, values]) => ({
      ...{ name, type: 'INT32' as const, converted_type: name },
      pages: [dataPage(3, plain(Int32Array.from(values)))],
    }));
    const models = repositoryOf(echoModel('INT32', []));
    const asked = { inputs: { in: ['UINT_8'] }, keep: cases.map(([name]) => name) };
    const rows = await runJob(jobOfParquet(parquetFile(3, columns), { models, spec: asked }));
    expect(rows.map(({ kept }) => kept)).toEqual(
      [0, 1, 2].map((row) => Object.fromEntries(cases.map(([name, , expected]) => [name, expected[row]]))),
    );
  });

  it('passes over row groups without rows, for whose columns PyArrow states no place', async () => {
    const file = withFooter(fileOf('groups'), ({ row_groups: groups }) => {
      for (const { meta_data } of groups.flatMap(({ columns }) => columns)) delete meta_data?.statistics;
      const [first] = structuredClone(groups.slice(0, 1));
      for (const { meta_data } of first?.columns ?? [])
        Object.assign(Object(meta_data), { num_values: 0n, data_page_offset: 0n });
      groups.splice(1, 0, { ...Object(first), num_rows: 0n });
    });
    expect(await runJob(jobOfParquet(file))).toEqual(await runJob(jobOfParquet(fileOf('groups'))));
  });

  it('answers rows whose values the model cannot take with an error', async () => {
    const rows = await scored(fileOf('none'), { inputs: { ...INPUTS, i32: ['f64'], flag: ['i8'] } });
    const whole = rowsIn('none').map(({ f64, i8 }) => Number.isInteger(f64) && (i8 === 0 || i8 === 1));
    expect(rows.map(({ code }) => code === undefined)).toEqual(whole);
    expect(rows[0]?.error).toBe("column 'i8': expected a value of BOOL, got -30; fix that row");
    expect(rows[1]?.error).toMatch(/^column 'f64': expected a value of INT32, got -2\.857/);
  });

  it.each([
    [
      { inputs: { ...INPUTS, i32: ['day'] } },
      /column 'day': expected booleans, integers or floats, .* 'i32' of INT32, got DATE; write it as numbers, as the model/,
    ],
    [
      { inputs: { ...INPUTS, text: ['i8'] } },
      /column 'i8': expected texts for the input 'text' of BYTES, got INT_8; write it as texts, /,
    ],
    [{}, /input 'x': expected "x" among the columns of the file, got "/],
  ])('refuses %j before anything is scored', async (asked, message) => {
    await expect(scored(fileOf('none'), asked)).rejects.toMatchObject({
      name: 'INVALID_JOB',
      message: expect.stringMatching(message),
    });
  });

  it('refuses a compression that it does not read, and bytes that are no Parquet', async () => {
    const refused = (content: Buffer, message: RegExp) =>
      expect(scored(content, { inputs: INPUTS })).rejects.toMatchObject({
        name: 'INVALID_JOB',
        message: expect.stringMatching(message),
      });
    await refused(fileOf('lz4'), /expected one of UNCOMPRESSED, SNAPPY, GZIP, ZSTD, BROTLI, got LZ4/);
    await refused(Buffer.from('not parquet at all'), /expected Parquet, got bytes that are not/);
    await refused(Buffer.alloc(0), /expected Parquet, got bytes that are not/);
  });

  it('refuses more than 100,000 pieces before anything is scored', async () => {
    const planned = (rows: number) => {
      const content = Buffer.from(parquetWriteBuffer({ columnData: [{ name: 'x', data: new Float32Array(rows) }] }));
      const asked = { models: repositoryOf(lineModel()), spec: { inputs: { x: ['x'] } } };
      return planOf(jobOfParquet(content, { ...asked, partBytes: 1_000, pieceBytes: 1 }));
    };
    await expect(planned(100_000)).resolves.toMatchObject({ pieces: 100_000 });
    await expect(planned(100_001)).rejects.toMatchObject({
      name: 'INVALID_JOB',
      message: expect.stringContaining('expected at most 100000 pieces of 1 bytes, got more'),
    });
  });

  it('fills a ragged axis with lists, whatever pages and pieces their rows begin in', async () => {
    const models = repositoryOf(echoModel('INT32', ['length']));
    const job = jobOfParquet(fileOf('nested'), { models, spec: { inputs: { in: ['list'] }, keep: ['list'] } });
    const lists = rowsIn('nested').map(({ list }) => list as unknown as readonly number[] | null);
    const rows = await runJob(job);
    expect(rows.map((row) => row.code ?? valuesOf(row)[0])).toEqual(
      lists.map((list) => (list === null ? 'INVALID_DATA' : list.length === 0 ? 'INVALID_SHAPE' : list)),
    );
    expect(rows.map(({ kept }) => kept)).toEqual(lists.map((list) => ({ list })));
  });

  it.each([0x00, 0x15, 0x2c, 0xff])('plans a file or refuses it, whatever byte of its footer is %i', async (byte) => {
    const sound = fileOf('none');
    for (let at = sound.length - 2_500; at < sound.length; at++) {
      const content = Buffer.from(sound);
      content[at] = byte;
      const planned = await planOf(jobOfParquet(content, { partBytes: 2 ** 24, pieceBytes: 2 ** 20 })).catch(
        (error: Error) => error,
      );
      if (planned instanceof Error) expect(planned).toMatchObject({ name: 'INVALID_JOB' });
    }
  });

  it('keeps dates and moments as the words that PyArrow has for them', async () => {
    const model = inMemoryModel(
      { inputs: [spec('f64', 'FP64', 'rows')], outputs: [spec('y', 'FP64', 'rows')] },
      ([input]) => [{ ...(input as Tensor), name: 'y', data: (input as Tensor).data.slice() }],
    );
    const asked = { keep: ['f64', 'day', 'ms', 'us', 'utc', 'ns'] };
    const job = jobOfParquet(fileOf('times'), { models: repositoryOf(model), spec: asked });
    expect((await runJob(job)).map(({ kept }) => kept)).toEqual(rowsIn('times'));
  });

  it('gives up the pieces that a broken page is of, and no others', async () => {
    const content = Buffer.from(fileOf('gzip'));
    const { row_groups } = await parquetMetadataAsync(
      content.buffer.slice(content.byteOffset, content.byteOffset + content.length),
    );
    const page = row_groups[1]?.columns.find(({ meta_data }) => meta_data?.path_in_schema[0] === 'f32')?.meta_data;
    // In the middle of the page's deflated bytes.
    const at = Number(page?.data_page_offset) + Math.floor(Number(page?.total_compressed_size) / 2);
    content.fill(0xff, at, at + 8);
    const job = jobOfParquet(content);
    const rows = await runJob(job);
    // Row groups have 25 rows, and a page of each column.
    const expected = [...Array(25).keys(), ...Array.from({ length: 10 }, (_, row) => 50 + row)];
    expect(rows.map((row) => Number(row.message_id))).toEqual(expected);
    const { failedParts } = manifestIn(job.storage);
    expect(failedParts.length).toBeGreaterThan(1);
    for (const one of failedParts) {
      expect(one.code).toBe('UNREADABLE');
      expect(one.error).toMatch(
        /^in\/a\.parquet: expected column 'f32' in rows \d+ to \d+, got bytes that are not \(.*\); write/,
      );
    }
  });

  it('gives up nothing where the object cannot be read for a while: the call fails, and is made again', async () => {
    const job = jobOfParquet(fileOf('none'));
    const { storage } = job;
    let reads = 0;
    const flaky: JobStorage = {
      ...storage,
      readRange(...[input, span]) {
        reads += 1;
        return reads === 4 ? Promise.reject(new Error('no answer')) : storage.readRange(input, span);
      },
    };
    await expect(runJob({ ...job, storage: flaky })).rejects.toThrow('no answer');
    expect([...storage.objects.keys()].filter((key) => key.includes('/failed/'))).toEqual([]);
  });
});
