import { describe, expect, it } from '@jest/globals';
import type { Tensor } from '../../../lambda/core/tensor.ts';
import type { Spec } from '../../../lambda/jobs/jobTypes.ts';
import { fieldsOf } from '../../../lambda/jobs/lineRows.ts';
import { expandColumns } from '../../../lambda/jobs/rowRequests.ts';
import { jobOf, manifestIn, planOf, runJob } from '../../helpers/jobs.ts';
import { inMemoryModel, lineModel, repositoryOf, spec } from '../../helpers/scoring.ts';

/** Gives back what it is given, of each datatype that a field can have. */
const ECHO = repositoryOf(
  inMemoryModel(
    {
      inputs: [
        spec('x', 'FP64', 'rows', 2),
        spec('n', 'INT64', 'rows'),
        spec('b', 'BOOL', 'rows'),
        spec('t', 'BYTES', 'rows'),
      ],
      outputs: [
        spec('x2', 'FP64', 'rows', 2),
        spec('n2', 'INT64', 'rows'),
        spec('b2', 'BOOL', 'rows'),
        spec('t2', 'BYTES', 'rows'),
      ],
    },
    (inputs) =>
      inputs.map((input) => ({ ...input, name: `${input.name}2`, data: input.data.slice() as typeof input.data })),
  ),
);

async function scored(csv: string | Buffer, asked: Spec = {}, models = ECHO, key = 'in/a.csv') {
  return runJob(jobOf(key, csv, { models, spec: asked, partBytes: 40, pieceBytes: 20 }));
}

function valuesOf(row: Record<string, unknown>): unknown[] {
  const outputs = row.outputs as { data: unknown }[] | undefined;
  return outputs?.map(({ data }) => data) ?? [row.code];
}

const INPUTS = { x: ['x0', 'x1'] };

describe('a job of CSV', () => {
  it('matches columns to inputs by name, and carries others beside the result', async () => {
    const csv = 'id,x0,x1,n,b,t\r\n7,1.5,-2e3,9007199254740993,true,"a ""b"", c"\r\n8,nan,+.5,-1,0,ü\r\n';
    const rows = await scored(csv, { inputs: INPUTS, keep: ['id', 't'] });
    expect(rows.map(valuesOf)).toEqual([
      [[1.5, -2000], ['9007199254740993'], [true], ['a "b", c']],
      [['NaN', 0.5], [-1], [false], ['ü']],
    ]);
    expect(rows.map(({ kept }) => kept)).toEqual([
      { id: '7', t: 'a "b", c' },
      { id: '8', t: 'ü' },
    ]);
    expect(rows.map((row) => row.message_id)).toEqual(['16', `${csv.indexOf('8,nan')}`]);
  });

  it('fills a vector with the list in a cell; one of the wrong length or with nulls is an error of its row', async () => {
    const lists = ['[1.5, -2]', '[1]', '[1,null]', '7', '[[1,2]]', '[1,', '', '[3,4]'];
    const rows = await scored(`x,n,b,t\n${lists.map((list) => `"${list}",1,true,"[a]"\n`).join('')}`);
    const codes = ['INVALID_SHAPE', 'INVALID_DATA', 'INVALID_SHAPE', 'INVALID_SHAPE', 'INVALID_DATA', 'INVALID_DATA'];
    expect(rows.map((row) => row.code ?? valuesOf(row))).toEqual([
      [[1.5, -2], [1], [true], ['[a]']],
      ...codes,
      [[3, 4], [1], [true], ['[a]']],
    ]);
  });

  it('answers bad rows in their place, with the code they would have on the queue', async () => {
    const rows = await scored(
      'x0,x1,n,b,t\n1,2,3,1,a\n1,,3,1,a\n1,2,1.5,1,a\n1,2,3,yes,a\n1,2,9223372036854775808,1,a\n1,2,3\n1,2,3,1,"a\n\n1,2,4,1,a',
      {
        inputs: INPUTS,
      },
    );
    expect(rows.map((row) => row.code)).toEqual([
      undefined,
      'INVALID_DATA',
      'INVALID_DATA',
      'INVALID_DATA',
      'INVALID_DATA',
      'INVALID_REQUEST',
      'INVALID_REQUEST',
      undefined,
    ]);
    expect(rows[4]?.error).toMatch(/^column 'n': expected a value of INT64, got "9223372036854775808"/);
    expect(rows[5]?.error).toMatch(/^line: expected 5 fields, as many as the header has, got 3;/);
  });

  it('says in its manifest what the first error of each code was, wherever it lies', async () => {
    const csv = 'x\n1\none\n2\n3\ntwo\n3,4\n5,6\n';
    const job = jobOf('in/a.csv', csv, { partBytes: 20, pieceBytes: 10 });
    await runJob(job);
    const { errors, reasons } = manifestIn(job.storage);
    expect({ errors, reasons }).toEqual({
      errors: { INVALID_DATA: 2, INVALID_REQUEST: 2 },
      reasons: {
        INVALID_DATA: { message_id: '4', error: `column 'x': expected a value of FP32, got "one"; fix that row` },
        INVALID_REQUEST: { message_id: '16', error: expect.stringMatching(/^line: expected 1 field, .* got 2;/) },
      },
    });
  });

  it('may have another separator, and empty cells that become a number', async () => {
    const csv = 'x0;x1;n;b;t\n1,5;2;1;1;"a;b"\n1.5;;;1;\n';
    const rows = await scored(csv, { inputs: INPUTS, separator: ';', missing: '0' });
    expect(rows.map(valuesOf)).toEqual([['INVALID_DATA'], [[1.5, 0], [0], [true], ['']]]);
    const tabs = await scored('x0\tx1\tn\tb\tt\n1.5\t2\t1\t1\ta,b\n', { inputs: INPUTS }, ECHO, 'in/a.tsv');
    expect(tabs.map(valuesOf)).toEqual([[[1.5, 2], [1], [true], ['a,b']]]);
    expect(rows[0]?.error).toBe(`column 'x0': expected a value of FP64, got "1,5"; write decimals behind a point`);
  });

  it('has a row of empty cells, whatever blank character separates them', async () => {
    for (const separator of ['\t', ' ', ',']) {
      const csv = ['x0,x1,n,b,t', '1,2,3,1,a', ',,,,', '', '4,5,6,0,b', ''].join('\r\n').replaceAll(',', separator);
      const rows = await scored(csv, { inputs: INPUTS, separator, missing: '0' });
      expect(rows.map((row) => valuesOf(row)[0])).toEqual([
        [1, 2],
        [0, 0],
        [4, 5],
      ]);
    }
  });

  it('may be plain objects, one a line, as pandas writes them', async () => {
    const lines = [
      { x0: 1.5, x1: true, n: 7, b: 0, t: 'ü', id: 1 },
      { x0: null, x1: 2, n: 8, b: false, t: 'b', id: 2 },
      { x0: 1, x1: 2, n: 8.5, b: false, t: 'b', id: 3 },
    ].map((line) => JSON.stringify(line));
    const text = `${lines.join('\n')}\n`;
    const rows = await scored(text, { inputs: INPUTS, keep: ['id'] }, ECHO, 'in/a.jsonl');
    expect(rows.map(valuesOf)).toEqual([[[1.5, 1], [7], [false], ['ü']], ['INVALID_DATA'], ['INVALID_DATA']]);
    expect(rows.map(({ error }) => error)).toEqual([
      undefined,
      expect.stringMatching(/^column 'x0': .*, got null; .* say what empty cells become/),
      "column 'n': expected a value of INT64, got 8.5; fix that row",
    ]);
    expect(rows.map(({ kept }) => kept)).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
    const filled = await scored(text, { inputs: INPUTS, missing: 'nan' }, ECHO, 'in/a.ndjson');
    expect(filled.map(valuesOf)[1]).toEqual([['NaN', 2], [8], [false], ['b']]);
  });

  it('keeps numbers of plain objects that a double cannot hold as their digits, as those of Parquet', async () => {
    const line = (x: number, id: string) => `{"x":${x},"id":${id}}\n`;
    const ids = ['7', '9007199254740991', '9007199254740993', '-12345678901234567890', '1e999', '1e20', '0.1'];
    const nested = '{"a":[12345678901234567890,1]}';
    const text = [...ids, nested].map((id, x) => line(x, id)).join('');
    const rows = await scored(text, { keep: ['id'] }, repositoryOf(lineModel()), 'in/a.jsonl');
    expect(rows.map(({ kept }) => (kept as { id: unknown }).id)).toEqual([
      ...[7, 9_007_199_254_740_991, '9007199254740993', '-12345678901234567890', '1e999', 1e20, 0.1],
      { a: ['12345678901234567890', 1] },
    ]);
  });

  it('finds the columns whose names the exporter has changed, where only one can be meant', async () => {
    const model = (name: string) => {
      const contract = { inputs: [spec(name, 'INT64', 'rows')], outputs: [spec('y', 'INT64', 'rows')] };
      const copied = ({ data, ...input }: Tensor): Tensor => ({
        ...input,
        name: 'y',
        data: data.slice() as typeof data,
      });
      return repositoryOf(inMemoryModel(contract, (inputs) => inputs.map(copied)));
    };
    const one = await scored('a id,größe (m)\n1,2\n', {}, model('größe__m_'));
    expect(one.map(valuesOf)).toEqual([[[2]]]);
    const padded = scored('a id, größe (m)\n1,2\n', {}, model('größe__m_'));
    await expect(padded).rejects.toThrow(/expected "größe__m_" among .*; remove the blanks around the names$/);
    const line = await scored('{"größe (m)":2}\n', {}, model('größe__m_'), 'in/a.jsonl');
    expect(line.map(valuesOf)).toEqual([[[2]]]);
    for (const other of ['a_b', 'a-b']) {
      const several = new RegExp(`'a_b': expected one column of its name, got "a b", "${other}"`);
      await expect(scored(`a b,${other}\n1,2\n`, {}, model('a_b'))).rejects.toThrow(several);
    }
  });

  it('is done where it has a header and no rows', async () => {
    for (const csv of ['x\n', 'x']) expect(await scored(csv, {}, repositoryOf(lineModel()))).toEqual([]);
  });

  const CARRIAGE_RETURNS = /^in\/a\.csv: expected line breaks, got carriage returns alone; convert them, as tr /;
  it.each([
    [
      'x0,n,b,t\n',
      { inputs: INPUTS },
      /input 'x': expected "x1" among the columns of the file, got "x0", "n", "b", "t".*; set its columns/,
    ],
    [
      'x0;x1;n;b;t\n',
      { inputs: INPUTS },
      // The header once, however many inputs find nothing in it.
      /^inputs: expected "x0", "x1", "n", "b", "t" among the columns of the file, got "x0;x1;n;b;t"; if ; separates the columns, add --separator ';'$/,
    ],
    ['sep=;\n', { inputs: INPUTS }, /; remove the first line: it is for spreadsheets alone$/],
    [
      'x0, x1, n, b, t\n',
      { inputs: INPUTS },
      /^inputs: expected "x1", .*, got .*; remove the blanks around the names$/,
    ],
    ['x0,x1,n, b,t \n', { inputs: INPUTS }, /; remove the blanks around the names$/],
    ['x0,x1,n,b,t\r1,2,3,true,a\r', { inputs: INPUTS }, CARRIAGE_RETURNS],
    ['x0,x1,n,b,t,t\r1,2,3,true,a\r', { inputs: INPUTS }, CARRIAGE_RETURNS],
    [`x0,x1,n,b,t\r${'1,2,3,true,a\r'.repeat(90_000)}`, { inputs: INPUTS }, CARRIAGE_RETURNS],
    [
      'x0,x1,n,b,t\n',
      { inputs: { x: ['x0', 'x1', 'n'] } },
      /input 'x': expected columns for a row of the shape \[2\], got 3; /,
    ],
    ['x0,x1,n,b,t\n', { inputs: INPUTS, keep: ['z'] }, /keep: expected columns of the file \(.*"t"\), got "z"/],
    ['x0,x1,n,b,t,t\n', { inputs: INPUTS }, /expected each name once/],
    ['', { inputs: INPUTS }, /expected the names of the columns in the first line of CSV, got none/],
    [`${','.repeat(1_048_576)}\n`, { inputs: INPUTS }, /in the first line of CSV, got 1048576 bytes or more/],
    [Buffer.from([0xff, 10]), { inputs: INPUTS }, /expected UTF-8 in the first line, got other bytes/],
  ])('refuses what it cannot read as it is asked to, before anything is scored: %#', async (csv, asked, message) => {
    const planned = planOf(jobOf('in/a.csv', csv, { models: ECHO, spec: asked }));
    await expect(planned).rejects.toMatchObject({ name: 'INVALID_JOB', message: expect.stringMatching(message) });
  });
});

describe('a job over JSON', () => {
  it.each(['[\n {"x":1},\n {"x":2}\n]', '[{"x":1},{"x":2}]', '{"columns":["x"],"index":[0],"data":[[1]]}'])(
    'refuses %j, which has no row on each line, before anything is scored',
    async (text) => {
      const models = repositoryOf(lineModel());
      const planned = planOf(jobOf('in/a.jsonl', text, { models, spec: {} }));
      const message =
        /^in\/a\.jsonl: expected one row a line, got (JSON over several lines|all rows in one); write one/;
      await expect(planned).rejects.toMatchObject({ name: 'INVALID_JOB', message: expect.stringMatching(message) });
    },
  );
});

describe('the fields of a line', () => {
  it('are none where a quoted field does not end, or goes on', () => {
    expect(fieldsOf('a,"b')).toBeUndefined();
    expect(fieldsOf('"a"b,c')).toBeUndefined();
    expect(fieldsOf('a,"b",')).toEqual(['a', 'b', '']);
    expect(fieldsOf('"a;b";c,d', ';')).toEqual(['a;b', 'c,d']);
  });
});

describe('a range of columns', () => {
  it('is spelled out', () => {
    expect(expandColumns(['a', 'p0..p2', 'q08..q10'])).toEqual(['a', 'p0', 'p1', 'p2', 'q08', 'q09', 'q10']);
  });

  it.each(['p3..p0', 'p0..q3'])('is refused when it is none: %s', (name) => {
    expect(() => expandColumns([name])).toThrow(/^columns: expected a range such as /);
  });
});
