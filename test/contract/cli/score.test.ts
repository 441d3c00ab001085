import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { copyFileSync, lstatSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { parquetReadObjects } from 'hyparquet';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { inputFile } from '../../../cli/textFiles.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { jsonLines } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { CULPRIT, culpritModel, identityModel } from '../../helpers/onnxModels.ts';
import { hungryModel, putModel } from './models.ts';

interface Sample {
  readonly pixels: readonly number[];
  readonly label: number;
}

const SAMPLES: Sample[] = jsonLines(
  readFileSync(new URL('../../../models/digits/held-out.jsonl', import.meta.url), 'utf8'),
);

describe('batchscore score', () => {
  const inFolder = useFolder();

  it('writes the result of every line in the order of the lines, whatever the size of the batches', async () => {
    const requests = SAMPLES.map(({ pixels }, index) => JSON.stringify({ id: `${index}`, instances: [pixels] }));
    writeFileSync(inFolder('in.jsonl'), `${requests.join('\n')}\n`);
    const out = inFolder('out.jsonl');
    const args = ['models/digits', inFolder('in.jsonl'), '--out', out, '--batch-size', '64', '--max-rows', '7'];
    const { code, stdout } = await batchscore(['score', ...args, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ lines: 500, scored: 500, errors: {}, rows: 500 });
    const results = jsonLines(readFileSync(out, 'utf8'));
    expect(results.map(({ message_id: id, id: own }) => [id, own])).toEqual(
      SAMPLES.map((_, index) => [String(index + 1), String(index)]),
    );
    const right = results.filter(({ predictions }, index) => predictions[0].label === SAMPLES[index]?.label);
    expect(right.length / results.length).toBeGreaterThanOrEqual(0.95);
  });

  it('answers bad lines in place, reads stdin, writes stdout, and exits with 3', async () => {
    const stdin = `{"instances":[[1]]}\n\n{"instances":[${JSON.stringify(SAMPLES[0]?.pixels)}]}\nnope`;
    const { code, stdout } = await batchscore(['score', 'models/digits/1/model.onnx', '-'], stdin);
    expect(code).toBe(3);
    expect(jsonLines(stdout)).toEqual([
      expect.objectContaining({ message_id: '1', code: 'INVALID_SHAPE' }),
      expect.objectContaining({ message_id: '3', predictions: [expect.any(Object)] }),
      expect.objectContaining({ message_id: '4', code: 'INVALID_JSON' }),
    ]);
  });

  it('ends lines at \\n alone: JSON may hold U+2028, files of other systems \\r\\n and a byte order mark', async () => {
    const stdin = '\uFEFF{"text":"a\u2028b"}\r\n{"text":"c"}\r\n';
    const { code, stdout, stderr } = await batchscore(['score', 'models/tickets', '-'], stdin);
    const ids = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).message_id);
    expect({ code, ids }).toEqual({ code: 0, ids: ['1', '2'] });
    expect(stderr).toMatch(/; 1 micro-batch of 2 rows/);
  });

  it('takes CSV by the names of its columns, and writes CSV with a line for each row', async () => {
    const names = Array.from({ length: 64 }, (_, index) => `p${index}`);
    const rows = SAMPLES.slice(0, 20).map(({ pixels, label }) => [...pixels, label].join(','));
    writeFileSync(inFolder('in.csv'), `${[...names, 'label'].join(',')}\n${[...rows, 'no row'].join('\n')}\n`);
    const out = inFolder('out.csv');
    const args = ['digits', inFolder('in.csv'), '--inputs', 'image=p0..p63', '--keep', 'label', '--out', out];
    const { code, stdout } = await batchscore(['score', ...args]);
    expect({ code, stdout }).toEqual({
      code: 3,
      stdout: expect.stringMatching(/^21 lines .* 20 scored, INVALID_REQUEST 1;/),
    });
    const [header, ...lines] = readFileSync(out, 'utf8').trimEnd().split('\n');
    expect(header).toBe(
      `message_id,label,output.label,${names.slice(0, 10).map((_, index) => `probabilities.${index}`)},code,error`,
    );
    const scored = lines.map((line) => line.split(','));
    expect(scored.map(([number, label]) => [number, label])).toEqual([
      ...SAMPLES.slice(0, 20).map(({ label }, index) => [`${index + 2}`, `${label}`]),
      ['22', ''],
    ]);
    expect(scored.filter(([, label, found]) => label === found).length).toBeGreaterThanOrEqual(19);
  });

  it('takes Parquet by the names of its columns, whatever holds its numbers', async () => {
    const pixels = Array.from({ length: 64 }, (_, column) => ({
      name: `p${column}`,
      type: column % 2 === 0 ? ('INT32' as const) : ('DOUBLE' as const),
      data: SAMPLES.map((sample) => sample.pixels[column]),
    }));
    const labels = { name: 'label', type: 'INT64' as const, data: SAMPLES.map(({ label }) => BigInt(label)) };
    const file = inFolder('in.parquet');
    writeFileSync(file, Buffer.from(parquetWriteBuffer({ columnData: [...pixels, labels], rowGroupSize: 190 })));
    const out = inFolder('out.csv');
    const args = ['digits', file, '--inputs', 'image=p0..p63', '--keep', 'label', '--out', out, '--batch-size', '64'];
    const { code, stdout } = await batchscore(['score', ...args]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^500 rows .* 500 scored;/) });
    const rows = readFileSync(out, 'utf8')
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => line.split(','));
    expect(rows.map(([row, label]) => [row, label])).toEqual(SAMPLES.map(({ label }, row) => [`${row}`, `${label}`]));
    expect(rows.filter(([, label, found]) => label === found).length).toBeGreaterThanOrEqual(475);
  });

  it('writes Parquet, whose columns have types, with nulls where there is an error', async () => {
    const rows = SAMPLES.slice(0, 30).map(({ pixels, label }) => JSON.stringify({ image: pixels, label }));
    writeFileSync(inFolder('in.jsonl'), `${[...rows, '{"image":1}'].join('\n')}\n`);
    const out = inFolder('out.parquet');
    const args = ['score', 'digits', inFolder('in.jsonl'), '--keep', 'label', '--batch-size', '7', '--out', out];
    expect((await batchscore(args)).code).toBe(3);
    const file = new Uint8Array(readFileSync(out)).buffer;
    const found = await parquetReadObjects({ file });
    expect(found.map(({ message_id, label }) => [message_id, label])).toEqual([
      ...SAMPLES.slice(0, 30).map(({ label }, index) => [`${index + 1}`, `${label}`]),
      ['31', null],
    ]);
    const right = found.filter(({ label, 'output.label': output }) => output === BigInt(label ?? -1));
    expect(right.length).toBeGreaterThanOrEqual(29);
    for (const row of found.slice(0, 30)) {
      const sum = Array.from({ length: 10 }, (_, index) => row[`probabilities.${index}`]).reduce((a, b) => a + b);
      expect(sum).toBeCloseTo(1);
      expect(row).toMatchObject({ code: null, error: null });
    }
    expect(found[30]).toMatchObject({ code: 'INVALID_SHAPE', 'output.label': null, 'probabilities.0': null });
  });

  describe('of an awkward table, with empty cells and booleans', () => {
    const TABLE = [
      { x: 1.5, room: 1, note: 'a' },
      { x: null, room: 1, note: 'b' },
      { x: true, room: 1, note: null },
      { x: 3, room: false, note: 'd' },
    ];
    const csvOf = (separator: string): string => {
      const rows = TABLE.map((row) => Object.values(row).map((cell) => cell ?? ''));
      return [['x', 'room', 'note'], ...rows].map((row) => row.join(separator)).join('\n');
    };
    const parquet = (): Buffer => {
      const columnData = [
        { name: 'x', type: 'DOUBLE' as const, data: TABLE.map(({ x }) => x && Number(x)) },
        { name: 'room', type: 'INT32' as const, data: TABLE.map(({ room }) => Number(room)) },
        { name: 'note', type: 'STRING' as const, data: TABLE.map(({ note }) => note) },
      ];
      return Buffer.from(parquetWriteBuffer({ columnData }));
    };
    const FILES: readonly (readonly [string, () => Buffer | string, readonly string[]])[] = [
      ['in.csv', () => csvOf(','), []],
      ['semicolons.csv', () => csvOf(';'), ['--separator', ';']],
      ['tabs.txt', () => csvOf('\t'), ['--separator', 'tab']],
      ['in.tsv', () => csvOf('\t'), []],
      ['in.jsonl', () => TABLE.map((row) => JSON.stringify(row)).join('\n'), []],
      ['in.parquet', parquet, []],
    ];

    it.each(FILES)(
      '%s: a cell that is empty is told with its column and the option that fills it',
      async (name, content, options) => {
        const model = await putModel(inFolder(), 'hungry', hungryModel());
        const file = inFolder(name);
        writeFileSync(file, content());
        const all = ['score', model, file, '--keep', 'note', ...options];
        const refused = await batchscore(all);
        expect(refused).toMatchObject({
          code: 3,
          stderr: expect.stringMatching(
            /: 3 scored, INVALID_DATA 1;.*\nINVALID_DATA, first in (?:line [23]|row 1): column 'x': expected a value of FP32, got (?:an empty cell|null); .*--missing nan\n$/s,
          ),
        });
        const filled = await batchscore([...all, '--missing=-1']);
        const results = filled.stdout
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line));
        expect({ code: filled.code, ys: results.map(({ outputs }) => outputs[0].data[0]) }).toEqual({
          code: 0,
          ys: [1.5, -1, 1, 3],
        });
        expect(results.map(({ kept }) => kept.note || null)).toEqual(TABLE.map(({ note }) => note));
      },
    );

    it('hints at the option where something else stands between the fields of CSV', async () => {
      const model = await putModel(inFolder(), 'hungry', hungryModel());
      const file = inFolder('in.csv');
      writeFileSync(file, csvOf(';'));
      expect(await batchscore(['score', model, file])).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/if ; separates the columns, add --separator ';'/),
      });
    });
  });

  it('leaves what lies at --out as it is where the file cannot be read', async () => {
    const [file, out] = [inFolder('in.csv'), inFolder('out.jsonl')];
    writeFileSync(file, 'p0,p1\n1,2\n');
    writeFileSync(out, 'before');
    const { code, stderr } = await batchscore(['score', 'digits', file, '--out', out]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^batchscore: input 'image': .*\n$/) });
    expect(readFileSync(out, 'utf8')).toBe('before');
  });

  it('leaves what lies at --out as it is where the file cannot be read to its end, and writes through links and into pipes', async () => {
    const [file, out, link, pipe] = [
      inFolder('in.jsonl'),
      inFolder('out.jsonl'),
      inFolder('link.jsonl'),
      inFolder('pipe'),
    ];
    const request = readFileSync('examples/requests.jsonl', 'utf8').split('\n')[0];
    const scoreTo = (path: string) => batchscore(['score', 'digits', file, '--out', path, '--batch-size', '1']);
    writeFileSync(file, Buffer.concat([Buffer.from(`${request}\n${request}\n`), Buffer.from([0xff, 0xff])]));
    writeFileSync(out, 'before');
    symlinkSync(out, link);
    for (const path of [out, link]) {
      expect(await scoreTo(path)).toMatchObject({ code: 1, stderr: expect.stringContaining('line 3: expected UTF-8') });
    }
    expect(readdirSync(inFolder()).toSorted()).toEqual(['in.jsonl', 'link.jsonl', 'out.jsonl']);
    expect(readFileSync(out, 'utf8')).toBe('before');

    writeFileSync(file, `${request}\n`);
    expect(await scoreTo(link)).toMatchObject({ code: 0 });
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
    const written = readFileSync(out, 'utf8');
    expect(written).toMatch(/^\{"message_id":"1",.*\}\n$/);
    execFileSync('mkfifo', [pipe]);
    const [piped] = await Promise.all([readFile(pipe, 'utf8'), scoreTo(pipe)]);
    expect(piped).toBe(written);
  });

  it('says in one sentence why it cannot write, while other rows are scored', async () => {
    const [model, file] = [await putModel(inFolder(), 'culprit', culpritModel()), inFolder('in.jsonl')];
    writeFileSync(join(model, 'config.json'), '{"batching":"trust"}');
    writeFileSync(file, [1, CULPRIT.hangs].map((index) => `{"instances":[${index}]}\n`).join(''));
    const { code, stderr } = await batchscore(['score', model, file, '--out', '/proc/x', '--batch-size', '1']);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^batchscore: \/proc\/x.*another file\n$/),
    });
  });

  it('fails if the file changes while it is read, and leaves what it has beside --out', async () => {
    const [model, file, out] = [
      await putModel(inFolder(), 'same', identityModel()),
      inFolder('in.jsonl'),
      inFolder('out'),
    ];
    writeFileSync(join(model, 'config.json'), '{"transform":"transform.mjs"}');
    writeFileSync(
      join(model, 'transform.mjs'),
      `import { appendFileSync } from 'node:fs';
       export function decode() {
         appendFileSync(${JSON.stringify(file)}, '{}\\n');
         return [{ name: 'x', datatype: 'FP32', shape: [1, 3], data: [1, 2, 3] }];
       }`,
    );
    writeFileSync(file, '{}\n');
    const { code, stderr } = await batchscore(['score', model, file, '--out', out]);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(
        /in\.jsonl: expected the file of the start, 3 bytes of .*, got \d+ bytes of .*out\.part/,
      ),
    });
    expect(readdirSync(inFolder()).filter((name) => name.startsWith('out'))).toEqual(['out.part']);
  });

  it.each(['csv', 'jsonl', 'parquet'])(
    'takes no column for another that exporters call the same: %s',
    async (format) => {
      const model = await putModel(inFolder(), 'income', identityModel('FP32', ['batch', 1], 'annual_income'));
      const file = inFolder(`in.${format}`);
      const write = (columns: Readonly<Record<string, number>>): void => {
        const [names, values] = [Object.keys(columns), Object.values(columns)];
        const data = names.map((name, index) => ({ name, data: [Number(values[index])], type: 'DOUBLE' as const }));
        if (format === 'parquet') writeFileSync(file, Buffer.from(parquetWriteBuffer({ columnData: data })));
        else writeFileSync(file, format === 'csv' ? `${names}\n${values}\n` : `${JSON.stringify(columns)}\n`);
      };
      const score = (...args: string[]) => batchscore(['score', model, file, ...args]);

      write({ 'annual income': 1, annual_income: 2 });
      expect(await score()).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(
          /'annual_income': expected one column of its name, got "annual income", "annual_income"/,
        ),
      });
      expect(jsonLines((await score('--inputs', 'annual_income=annual income')).stdout)[0].outputs[0].data).toEqual([
        1,
      ]);
      write({ 'annual income': 3, other: 4 });
      expect(jsonLines((await score()).stdout)[0].outputs[0].data).toEqual([3]);
    },
  );

  it('refuses a folder, and requests where it would write at first', async () => {
    const out = inFolder('out.jsonl');
    writeFileSync(`${out}.part`, 'precious');
    const refused = await batchscore(['score', 'digits', `${out}.part`, '--out', out]);
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/: --out: expected another file than those/),
    });
    expect(readFileSync(`${out}.part`, 'utf8')).toBe('precious');
    const sheet = await batchscore(['score', 'digits', '-', '--out', inFolder('out.xlsx')], '{}');
    expect(sheet).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--out: expected a name ending in .jsonl, .csv or .parquet, got '"),
    });
    const folder = await batchscore(['score', 'digits', '-', '--out', inFolder()], '{}');
    expect(folder).toMatchObject({ code: 1, stderr: expect.stringContaining('got: a folder; name another file') });
  });

  it('refuses to write over its own requests, and over its model, by whatever name', async () => {
    const [file, link, model] = [inFolder('in.jsonl'), inFolder('link.jsonl'), inFolder('own.onnx')];
    writeFileSync(file, '{"instances":[[1]]}\n');
    symlinkSync(file, link);
    copyFileSync('models/digits/1/model.onnx', model);
    const before = readFileSync(model);
    for (const out of [link, model]) {
      const { code, stderr } = await batchscore(['score', model, file, '--out', out]);
      expect({ code, stderr }).toEqual({
        code: 2,
        stderr: expect.stringMatching(/: --out: expected another file than those/),
      });
    }
    expect(readFileSync(file, 'utf8')).toBe('{"instances":[[1]]}\n');
    expect(readFileSync(model)).toEqual(before);
  });

  it.each([
    [
      ['models/digits', '/no/file'],
      1,
      /\/no\/file: expected a file of requests, got: no such file or directory; check the path/,
    ],
    [['models/digits'], 2, /expected MODEL FILE/],
    [
      ['models/digits', '-', '--format', 'avro'],
      2,
      /--format: expected one of requests, objects, csv, parquet, got 'avro'/,
    ],
    [
      ['models/digits', '-', '--format', 'parquet'],
      2,
      /stdin: expected a file of Parquet, whose columns lie apart, got a pipe; save it first/,
    ],
    [
      ['models/digits', '-', '--missing', 'unknown'],
      2,
      /--missing: expected what an empty cell becomes, nan, a number/,
    ],
    [['models/digits', '-', '--separator', '::'], 2, /--separator: expected one character, such as ';', or tab/],
    [['models/digits', '-', '--batch-size', 'many'], 2, /--batch-size: expected a whole number/],
  ])('refuses %j with exit code %i', async (args, code, message) => {
    const finished = await batchscore(['score', ...args], '{}');
    expect(finished).toMatchObject({ code, stderr: expect.stringMatching(message) });
  });
});

describe('what is scored or submitted', () => {
  const inFolder = useFolder();

  it('may be a pipe, as of <(gunzip -c file.gz) in a shell', async () => {
    const pipe = inFolder('pipe');
    execFileSync('mkfifo', [pipe]);
    const { stream, bytes } = await inputFile(pipe, process);
    await Promise.all([writeFile(pipe, 'a\nb\n'), expect(text(stream)).resolves.toBe('a\nb\n')]);
    expect(bytes).toBeUndefined();
  });

  it('says that the padded run of a request is too large for the memory', async () => {
    writeFileSync(inFolder('model.onnx'), identityModel('FP32', [2 ** 40, 4]));
    writeFileSync(inFolder('in.jsonl'), '{"x":[1,2,3,4]}');
    const { code, stdout } = await batchscore(['score', inFolder('model.onnx'), inFolder('in.jsonl')]);
    expect(code).toBe(3);
    const error = /but inputs of 17592186044416 bytes do not fit into memory; send fewer rows, or deploy more memory$/;
    expect(JSON.parse(stdout)).toMatchObject({ code: 'OUT_OF_MEMORY', error: expect.stringMatching(error) });
  });

  it.each(['in.txt', 'in.txt.gz'])('says how much of it was read: %s', async (name) => {
    const content = randomBytes(100_000).toString('base64');
    writeFileSync(inFolder(name), name.endsWith('.gz') ? gzipSync(content) : content);
    const { stream, shareOf } = await inputFile(inFolder(name), process);
    let bytes = 0;
    for await (const chunk of stream) {
      bytes += chunk.length;
      expect(Math.abs(Number(shareOf(bytes)) - bytes / content.length)).toBeLessThan(0.01);
    }
    expect(shareOf(bytes)).toBeCloseTo(1, 4);
  });
});
