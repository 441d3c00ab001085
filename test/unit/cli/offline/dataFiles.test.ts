import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Tensor } from '../../../../lambda/core/tensor.ts';
import { echoModel, inMemoryModel, lineModel, sumModel } from '../../../helpers/scoring.ts';
import { scoreData } from './scoreData.ts';

/** Of each result its message ID, and its code or what its only output holds. */
async function told(...args: Parameters<typeof scoreData>): Promise<unknown[]> {
  const { results } = await scoreData(...args);
  return results.map(({ message_id: id, code, outputs }) => [id, code ?? (outputs as { data: unknown[] }[])[0]?.data]);
}

const csv = { format: 'csv' } as const;
const objects = { format: 'objects' } as const;

describe('a CSV file', () => {
  it('is matched by the names of its columns, with a byte order mark, \\r\\n, quotes and blank lines', async () => {
    const file = '\uFEFFnote,"x"\r\n"a, ""b""",1\r\n\r\n,"2"\r\nlast,-3.5e0';
    const { results } = await scoreData(lineModel(), file, { ...csv, spec: { keep: ['note'] } });
    expect(results.map(({ message_id, outputs, kept }) => [message_id, outputs, kept])).toEqual([
      ['2', [{ name: 'y', datatype: 'FP32', shape: [1, 1], data: [3] }], { note: 'a, "b"' }],
      ['4', [expect.objectContaining({ data: [5] })], { note: '' }],
      ['5', [expect.objectContaining({ data: [-6] })], { note: 'last' }],
    ]);
  });

  it('has one result for every row, whatever a row holds', async () => {
    const fields = ['1', '', 'one', 'NaN', '-inf', '1e999', '0x10', '1,2', '"1', '"1"2', '9007199254740993'];
    expect(await told(lineModel(), `x\n${fields.join('\n')}\n`, csv)).toEqual([
      ['2', [3]],
      // An empty line is no row.
      ['4', 'INVALID_DATA'],
      ['5', ['NaN']],
      ['6', ['-Infinity']],
      ['7', 'INVALID_DATA'],
      ['8', 'INVALID_DATA'],
      ['9', 'INVALID_REQUEST'],
      ['10', 'INVALID_REQUEST'],
      ['11', 'INVALID_REQUEST'],
      ['12', [18014398509481984]],
    ]);
  });

  it('has a row of empty cells, whatever blank character separates them', async () => {
    for (const separator of ['\t', ' ', ',']) {
      const file = 'x,note\r\n1,a\r\n,\r\n\r\n2,b\r\n'.replaceAll(',', separator);
      const spec = { separator, missing: '0', keep: ['note'] };
      expect(await told(lineModel(), file, { ...csv, spec })).toEqual([
        ['2', [3]],
        ['3', [1]],
        ['5', [5]],
      ]);
    }
  });

  it('refuses fields with line breaks, row by row', async () => {
    expect(await told(lineModel(), 'x,note\n1,"two\nlines"\n2,one', csv)).toEqual([
      ['2', 'INVALID_REQUEST'],
      ['3', 'INVALID_REQUEST'],
      ['4', [5]],
    ]);
  });

  it('may name columns for an input, in ranges too, and has integers exactly', async () => {
    const model = echoModel('INT64', [3]);
    const file = 'p2,p0,p1,other\n3,1,9007199254740993,x\n';
    expect(await told(model, file, { ...csv, spec: { inputs: { in: ['p0', 'p1', 'p2'] } } })).toEqual([
      ['2', [1, '9007199254740993', 3]],
    ]);
  });

  it.each([
    ['', /^file: expected rows to score, got none; check what wrote it$/],
    ['x\n', /^file: expected rows to score, got none; check what wrote it$/],
    ['"x\n1', /^file: expected the names of the columns in the first line of CSV, got a quoted name/],
    ['z\n1', /^input 'x': expected "x" among the columns of the file, got "z".*; set its columns: --inputs x=/],
    ['x,x\n1,2', /^columns: expected each name once/],
  ])('is refused before anything is scored: %j', async (file, message) => {
    await expect(scoreData(lineModel(), file, csv)).rejects.toThrow(message);
  });
});

describe.each([
  ['CSV', 'constructor,b\n1,2', csv],
  ['plain objects', '{"constructor":1,"b":2}', objects],
])('a file of %s', (_, file, format) => {
  it('may be for inputs that are called as members of every object', async () => {
    const input = { datatype: 'FP32', shape: ['batch'] } as const;
    const contract = {
      inputs: [
        { name: 'constructor', ...input },
        { name: 'other', ...input },
      ],
      outputs: [{ name: 'y', ...input }],
    };
    const model = inMemoryModel(contract, ([x]) => [{ ...(x as Tensor), name: 'y', data: (x as Tensor).data.slice() }]);
    expect(await told(model, file, { ...format, spec: { inputs: { other: ['b'] } } })).toEqual([
      [format === csv ? '2' : '1', [1]],
    ]);
  });
});

describe('a file of plain objects', () => {
  it('has inputs by name: values, texts, arrays, flat or nested, and others beside them', async () => {
    const rows = [
      { left: [1, 2], right: [3, 4], bias: 5, note: 'a' },
      { bias: '9007199254740993', right: [[1]], left: [2] },
      { left: [1], right: [1], bias: 2 },
    ];
    const file = rows.map((row) => JSON.stringify(row)).join('\n');
    const { results } = await scoreData(sumModel(), file, { ...objects, spec: { keep: ['note', 'bias'] } });
    expect(results.map(({ code, outputs, kept }) => [code ?? (outputs as { data: unknown }[])[1]?.data, kept])).toEqual(
      [
        [[15], { note: 'a', bias: 5 }],
        ['INVALID_SHAPE', { note: null, bias: '9007199254740993' }],
        [[4], { note: null, bias: 2 }],
      ],
    );
  });

  it('has the shape of its nesting, or what a flat array comes to', async () => {
    const model = echoModel('FP32', [2, 'n']);
    const rows = [
      [1, 2, 3, 4],
      [
        [1, 2, 3],
        [4, 5, 6],
      ],
      [1, 2, 3],
      [],
      [[], []],
      7,
      [[[1]]],
    ];
    const { results } = await scoreData(model, rows.map((row) => JSON.stringify({ in: row })).join('\n'), objects);
    const shapes = results.map(({ code, outputs }) => code ?? (outputs as { shape: number[] }[])[0]?.shape);
    expect(shapes).toEqual([[1, 2, 2], [1, 2, 3], ...Array.from({ length: 5 }, () => 'INVALID_SHAPE')]);
  });

  it('has whole numbers exactly, in arrays too', async () => {
    const file = '{"in":[1,9007199254740993]}\n{"in":["-9007199254740995",2]}';
    expect(await told(echoModel('INT64', [2]), file, objects)).toEqual([
      ['1', [1, '9007199254740993']],
      ['2', ['-9007199254740995', 2]],
    ]);
    expect(await told(echoModel('FP32', [1]), '{"in":[1e999]}\n{"in":[[2]]}\n{"in":[1,2]}', objects)).toEqual([
      ['1', 'INVALID_DATA'],
      ['2', [2]],
      ['3', 'INVALID_SHAPE'],
    ]);
  });

  it('may have an input in several keys', async () => {
    const spec = { inputs: { in: ['b', 'a'] } };
    expect(await told(echoModel('BYTES', [2]), '{"a":"ü","b":"x"}\n{"a":1,"b":"x"}', { ...objects, spec })).toEqual([
      ['1', ['x', 'ü']],
      ['2', 'INVALID_DATA'],
    ]);
  });

  it('has one result for every row, whatever a row holds', async () => {
    const deep = `{"x":1,"k":${'['.repeat(50_000)}${']'.repeat(50_000)}}`;
    const lines = [
      'nope',
      '[1]',
      'null',
      '{}',
      '{"x":null}',
      '{"x":"1"}',
      '{"x":1e999}',
      '{"__proto__":{"x":1}}',
      deep,
    ];
    const file = ['{"x":1,"k":2}', ...lines].join('\n');
    expect(await told(lineModel(), file, { ...objects, spec: { keep: ['k'] }, chunk: 5000 })).toEqual([
      ['1', [3]],
      ['2', 'INVALID_JSON'],
      ['3', 'INVALID_REQUEST'],
      ['4', 'INVALID_REQUEST'],
      ['5', 'MISSING_INPUT'],
      ['6', 'INVALID_DATA'],
      ['7', [3]],
      ['8', 'INVALID_DATA'],
      ['9', 'MISSING_INPUT'],
      ['10', 'INVALID_REQUEST'],
    ]);
  });

  it.each([
    [
      '{"z":1}',
      {},
      /^input 'x': expected "x" among the keys of the first line, got "z".*; set its columns: --inputs x=/,
    ],
    ['[{"x":1},{"x":2}]', {}, /: expected one row a line, got all rows in one; write one object a line/],
    ['{"x":{"0":1,"1":2}}', {}, /: expected one row a line, got all rows in one; write one object a line/],
    ['[[1],[2]]', {}, /: expected one row a line, got all rows in one; write one object a line/],
    ['{"columns":["x"],"index":[0],"data":[[1]]}', {}, /got all rows in one; write one object a line/],
    ['{"schema":{"fields":[]},"data":[{"x":1}]}', {}, /got all rows in one; write one object a line/],
    [
      '[\n  {\n    "x":1\n  }\n]',
      {},
      /: expected one row a line, got JSON over several lines; write one object a line/,
    ],
    ['{\n  "x": {\n    "0": 1\n  }\n}', {}, /got JSON over several lines; write one object a line/],
    ['{"x":1}\r{"x":2}\r', {}, /: expected line breaks, got carriage returns alone; convert them/],
    ['{"x":1}', { keep: ['k'] }, /^keep: expected keys of the first line \("x"\), got "k"/],
    ['{"x":1}', { inputs: { y: ['x'] } }, /^inputs: expected inputs of the model \(x\), got "y"/],
  ])('is refused before anything is scored: %s %j', async (file, spec, message) => {
    await expect(scoreData(lineModel(), file, { ...objects, spec })).rejects.toThrow(message);
  });
});

describe('a text that is no value of its input', () => {
  it.each([
    ['1,5', 'write decimals behind a point'],
    ['yes', 'write true or false'],
    ['T', 'write true or false'],
    ['NA', 'leave the cell empty, and say what empty cells become, as with --missing nan'],
    ['null', 'leave the cell empty, and say what empty cells become, as with --missing nan'],
    ['seven', 'fix that row'],
  ])('is refused with what to write: %s', async (text, cure) => {
    const { results } = await scoreData(lineModel(), JSON.stringify({ x: text }), objects);
    expect(results.map(({ error }) => error)).toEqual([`column 'x': expected a value of FP32, got "${text}"; ${cure}`]);
  });
});

describe('lines of JSON', () => {
  it.each([
    ['{"inputs":1}', 'requests'],
    ['{"instances":[[1]]}', 'requests'],
    ['{"model_name":"line","x":1}', 'requests'],
    ['nope\n[{"x":1}]', 'requests'],
    ['{}\n{"x":1}', 'objects'],
    ['nope\n{"x":1}', 'objects'],
  ])('that begin with %j are %s', async (file, kind) => {
    const { results } = await scoreData(lineModel(), file);
    expect(results).toHaveLength(file.split('\n').length);
    const isData = results.some(({ outputs }) => outputs !== undefined);
    expect(isData ? 'objects' : results.some(({ code }) => code === 'MISSING_INPUT') ? 'objects' : 'requests').toBe(
      kind,
    );
  });

  it('are requests of a model with a transform, whatever their keys', async () => {
    const model = echoModel('FP32', [1], {
      transform: { decode: () => [{ name: 'in', datatype: 'FP32', shape: [1, 1], data: [4] }] },
    });
    expect(await told(model, '{"text":"anything"}')).toEqual([['1', [4]]]);
    // Columns would help nothing.
    await expect(scoreData(model, 'text\n1', csv)).rejects.toThrow(
      /expected one without a transform or tokenizer, [^;]*; use JSONL$/,
    );
  });

  it('that are requests have no columns', async () => {
    const request = '{"instances":[[1]]}';
    await expect(scoreData(lineModel(), request, { spec: { keep: ['id'] } })).rejects.toThrow(
      /^--keep: expected a file with columns/,
    );
    await expect(scoreData(lineModel(), request, { takesRequests: false })).rejects.toThrow(
      /results as a table, got requests/,
    );
  });
});

describe('whatever the form of a file', () => {
  it('the same rows have the same scores, in order, however they are read', async () => {
    const float = fc.float({ noNaN: true, noDefaultInfinity: true, min: -1e6, max: 1e6 });
    const rows = fc.array(fc.tuple(float, float), { minLength: 1, maxLength: 9 });
    await fc.assert(
      fc.asyncProperty(
        rows,
        fc.integer({ min: 1, max: 99 }),
        fc.integer({ min: 1, max: 9 }),
        async (values, chunk, size) => {
          const model = echoModel('FP32', [2]);
          const spec = { inputs: { in: ['a', 'b'] } };
          const files = {
            csv: `a,b\n${values.map((row) => row.join(',')).join('\n')}`,
            objects: values.map(([a, b]) => JSON.stringify({ b, a })).join('\n'),
          };
          const how = { chunk, rows: size };
          const scored = await Promise.all([
            scoreData(model, files.csv, { ...how, format: 'csv', spec }),
            scoreData(model, files.objects, { ...how, spec }),
          ]);
          for (const { results, csv: lines } of scored) {
            expect(
              results.map(({ outputs }) =>
                (outputs as { data: number[] }[])[0]?.data.map((value) => Math.fround(value) + 0),
              ),
            ).toEqual(values.map((row) => row.map((value) => Math.fround(value) + 0)));
            expect(lines).toHaveLength(values.length + 1);
          }
        },
      ),
      { numRuns: 40 },
    );
  });
});
